import { readFileSync } from 'node:fs'

/**
 * The folder of this package: one above the compiled modules, and above the bundle's files, so this file must stay at the
 * top of src/.
 */
export const PACKAGE_FOLDER = new URL('../', import.meta.url)

/** Of this package, from its package.json. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL('package.json', PACKAGE_FOLDER), 'utf8')) as { version: string }
).version
