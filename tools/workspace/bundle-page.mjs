/** Makes what a browser is served of an app's src/page: document, icon, style and one script of what tsc left in build/page. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const shared = fileURLToPath(new URL('../../packages/program/src/page/', import.meta.url))
const options = {
  bundle: true,
  minify: true,
  format: 'iife',
  platform: 'browser',
  target: 'es2022',
  external: ['node:*'],
  legalComments: 'none',
  metafile: true,
  logLevel: 'warning',
}

/** @returns the inputs as esbuild names them, for the terms of what is in the page. */
export async function bundlePage(app, folder, define = {}) {
  const entryPoints = { main: join(app, 'build/page/main.js'), style: join(app, 'src/page/style.css') }
  const { metafile } = await build({ ...options, entryPoints, outdir: folder, define })
  copyFileSync(join(app, 'src/page/index.html'), join(folder, 'index.html'))
  copyFileSync(join(shared, 'icon.svg'), join(folder, 'icon.svg'))
  return metafile.inputs
}

/** The text of a worker that the page starts. */
export async function bundleWorker(app, define) {
  const entryPoints = [join(app, 'build/page/worker.js')]
  const { outputFiles, metafile } = await build({ ...options, entryPoints, define, write: false })
  return { text: outputFiles[0].text, inputs: metafile.inputs }
}
