/**
 * Every public export has a doc comment of its own: what packages and the library `oddflow` export under any entry of
 * their `exports`, values and types. Interfaces' members are not asked about. And what a program without types imports
 * from them is there.
 *
 * TypeScript follows the exports from file to file. An export of another package is that package's, so it is not followed.
 */
import { posix } from 'node:path'
import ts from 'typescript'

const { dirname, join } = posix

/** The sources of a package's entries by the names that others import: dist/node/index.js comes from src/node/index.ts. */
function* entriesOf({ path, text }) {
  const { name, exports = {} } = JSON.parse(text)
  const outputsOf = (value) =>
    typeof value === 'string'
      ? [value]
      : Object.entries(value).flatMap(([condition, each]) => (condition === 'types' ? [] : outputsOf(each)))
  for (const [entry, value] of Object.entries(exports)) {
    for (const output of outputsOf(value))
      yield [`${name}${entry.slice(1)}`, sourceOf(join(dirname(path), output))]
  }
}

const sourceOf = (path) => path.replace(/\/dist\/(.*)\.js$/, '/src/$1.ts').replace(/\.js$/, '.ts')

/** The public sources and the programs without types among `files`, for TypeScript to follow what they name. */
export function readSources(files) {
  const texts = new Map()
  const manifests = []
  for (const file of files) {
    if (/^(?:packages|apps\/trainer)\/.*src\/.*\.ts$|\.mjs$/.test(file.path)) texts.set(file.path, file.text)
    if (/^(?:packages|apps)\/[^/]+\/package\.json$/.test(file.path)) manifests.push(file)
  }
  const entries = new Map(manifests.flatMap((manifest) => [...entriesOf(manifest)]))
  const resolve = (specifier, from) => {
    const ofPackage = from.endsWith('.mjs') ? entries.get(specifier) : undefined
    const path = specifier.startsWith('.') ? sourceOf(join(dirname(from), specifier)) : ofPackage
    const isFound = path?.endsWith('.ts') && texts.has(path)
    return { resolvedModule: isFound ? { resolvedFileName: path, extension: '.ts' } : undefined }
  }
  const options = { allowJs: true, noLib: true, target: ts.ScriptTarget.ES2022, types: [] }
  const program = ts.createProgram([...texts.keys()], options, {
    ...ts.createCompilerHost(options),
    fileExists: (path) => texts.has(path),
    readFile: (path) => texts.get(path),
    getSourceFile: (path, version) => ts.createSourceFile(path, texts.get(path), version, true),
    getCurrentDirectory: () => '',
    resolveModuleNameLiterals: (literals, from) => literals.map(({ text }) => resolve(text, from)),
  })
  return { program, checker: program.getTypeChecker(), manifests }
}

const lineOf = (node) => node.getSourceFile().getLineAndCharacterOfPosition(node.getStart()).line + 1

/** Complaints `{ path, line, message }` about public exports without a doc comment. */
export function checkExports({ program, checker, manifests }) {
  const complaints = new Map()
  for (const manifest of manifests) {
    for (const [, entry] of entriesOf(manifest)) {
      const source = program.getSourceFile(entry)
      const module = source && checker.getSymbolAtLocation(source)
      for (const exported of module ? checker.getExportsOfModule(module) : []) {
        const isAlias = exported.flags & ts.SymbolFlags.Alias
        const { name, declarations = [] } = isAlias ? checker.getAliasedSymbol(exported) : exported
        if (declarations.length === 0 || declarations.some(isDocumented)) continue
        const [node] = declarations
        const { fileName: path } = node.getSourceFile()
        complaints.set(`${path}:${name}`, {
          path,
          line: lineOf(node),
          message: `${exported.name} is exported by ${dirname(manifest.path)} and has no doc comment; say in a sentence what it is`,
        })
      }
    }
  }
  return [...complaints.values()]
}

/** A comment above a blank line counts, as it does for editors. */
const isDocumented = (node) => ts.getJSDocCommentsAndTags(node).length > 0

/** Complaints about names that programs without types (`.mjs`) import from a workspace package that does not export them. */
export function checkImports({ program, checker }) {
  const complaints = []
  for (const source of program.getSourceFiles()) {
    if (!source.fileName.endsWith('.mjs')) continue
    for (const { moduleSpecifier, importClause } of source.statements.filter(ts.isImportDeclaration)) {
      const module = checker.getSymbolAtLocation(moduleSpecifier)
      const bindings = importClause?.namedBindings
      if (module === undefined || !bindings || !ts.isNamedImports(bindings)) continue
      const names = new Set(checker.getExportsOfModule(module).map(({ name }) => name))
      for (const element of bindings.elements) {
        const { text: name } = element.propertyName ?? element.name
        if (names.has(name)) continue
        const message = `${name} is not exported by ${moduleSpecifier.text}`
        complaints.push({ path: source.fileName, line: lineOf(element), message })
      }
    }
  }
  return complaints
}
