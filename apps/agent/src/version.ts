/** The version of this package, from its own package.json, so that it is written in one place. */
import { readFileSync } from 'node:fs'

/** Where this package is: build/ has its compiled modules and dist/ the bundle, so this file stays at the top of src/. */

export const PACKAGE_FOLDER = new URL('../', import.meta.url)

export const VERSION: string = (
  JSON.parse(readFileSync(new URL('package.json', PACKAGE_FOLDER), 'utf8')) as { version: string }
).version
