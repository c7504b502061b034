/** The page's files as they are served: read once, all of them this package's own. */
import { readFileSync } from 'node:fs'
import { CODE_FOLDER, PACKAGE_FOLDER } from '../package-folder.js'

export interface PageFile {
  readonly type: string
  readonly body: Buffer
}

/** The document and its parts lie beside the package's code; its scripts are built from src/page. */
const WRITTEN = ['index.html', 'style.css', 'icon.svg']
const BUILT = [
  'main.js',
  'api.js',
  'dom.js',
  'alerts.js',
  'devices.js',
  'model-text.js',
  'health.js',
  'chart.js',
  'suppress.js',
]

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  js: 'text/javascript; charset=utf-8',
}

/** By the path that a browser asks for. */
export function readPageFiles(): ReadonlyMap<string, PageFile> {
  const files = new Map<string, PageFile>()
  for (const [folder, names] of [
    [new URL('page/', PACKAGE_FOLDER), WRITTEN],
    [new URL('page/', CODE_FOLDER), BUILT],
  ] as const) {
    for (const name of names) {
      const type = TYPES[name.slice(name.lastIndexOf('.') + 1)]
      const body = readFileSync(new URL(name, folder))
      files.set(name === 'index.html' ? '/' : `/page/${name}`, { type, body })
    }
  }
  return files
}
