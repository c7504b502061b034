/** Makes the script that a browser is served of an app's src/page, which tsc left in build/page. */
import { join } from 'node:path'
import { build } from 'esbuild'

/** @returns the inputs as esbuild names them, for the terms of what is in the script. */
export async function bundlePage(app, folder, { entry = 'main', define = {}, write = true } = {}) {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(app, 'build/page', `${entry}.js`)],
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2022',
    define,
    external: ['node:*'],
    legalComments: 'none',
    metafile: true,
    write,
    logLevel: 'warning',
  })
  return { text: outputFiles?.[0].text, inputs: metafile.inputs }
}
