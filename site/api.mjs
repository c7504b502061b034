/**
 * Writes one Markdown page for each package and entry, from the declarations of the last build, into site/api.
 */
import { dirname, join } from 'node:path'
import { Application } from 'typedoc'
import { readWorkspaces, root } from '../tools/workspace/layout.mjs'

/** The declarations of each entry of each package: `{ '@oddflow/capture/node': 'packages/capture/dist/node/index.d.ts' }`. */
const entries = Object.fromEntries(
  readWorkspaces().flatMap(({ directory, manifest }) =>
    Object.entries(manifest.exports ?? {}).map(([entry, { types, default: otherwise }]) => [
      `${manifest.name}${entry.slice(1)}`,
      join(directory, types ?? otherwise.types),
    ]),
  ),
)

const app = await Application.bootstrapWithPlugins({
  entryPoints: Object.values(entries).map((path) => join(root, path)),
  plugin: ['typedoc-plugin-markdown'],
  tsconfig: join(root, 'site/tsconfig.json'),
  name: 'API',
  readme: 'none',
  out: join(root, 'site/api'),
  router: 'module',
  entryFileName: 'index',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useHTMLAnchors: true,
  groupOrder: ['Functions', 'Interfaces', 'Classes', '*'],
  disableSources: true,
  excludePrivate: true,
  skipErrorChecking: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  validation: false,
  logLevel: 'Warn',
})
const project = await app.convert()
if (project === undefined) process.exit(1)
for (const module of project.children) {
  const isOf = ([, path]) => module.name === path.replace(/\.d\.ts$/, '') || module.name === dirname(path)
  const found = Object.entries(entries).find(isOf)
  if (found === undefined) throw new Error(`no package for the module ${module.name}`)
  module.name = found[0]
}
await app.generateOutputs(project)
