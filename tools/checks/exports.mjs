/**
 * Every public export has a doc comment of its own: what packages and the library `oddflow` export under any entry of
 * their `exports`, values and types. Interfaces' members are not asked about. And what a program without types imports
 * from them is there.
 *
 * Sources are read by TypeScript's parser alone: an export is followed through `export … from './x.js'` to its
 * declaration, and an export of another package is that package's.
 */
import { posix } from 'node:path'
import ts from 'typescript'

const { dirname, join } = posix

/** The sources of a package's entries: dist/node/index.js comes from src/node/index.ts. */
function entriesOf({ path, text }) {
  const { exports } = JSON.parse(text)
  const outputs = new Set()
  const collect = (value) => {
    if (typeof value === 'string') outputs.add(value)
    else for (const [name, each] of Object.entries(value ?? {})) if (name !== 'types') collect(each)
  }
  collect(exports)
  return [...outputs].map((output) =>
    join(dirname(path), output.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts')),
  )
}

/** The public names of a module: `name → { source, node }` of the declaration, or of what cannot be followed. */
function exportsOf(path, sources) {
  const found = new Map()
  const source = sources.get(path)
  if (source === undefined) return found
  const locals = new Map()
  for (const statement of source.statements)
    for (const [name, node] of declared(statement)) locals.set(name, node)
  const imports = importsOf(source)
  for (const statement of source.statements) {
    if (hasExport(statement)) {
      for (const [name, node] of declared(statement)) found.set(name, { source, node })
    }
    if (!ts.isExportDeclaration(statement)) continue
    const from = statement.moduleSpecifier && moduleOf(path, statement.moduleSpecifier.text)
    if (statement.exportClause === undefined) {
      if (from) for (const [name, each] of exportsOf(from, sources)) found.set(name, each)
      continue
    }
    if (!ts.isNamedExports(statement.exportClause)) continue
    for (const { name, propertyName } of statement.exportClause.elements) {
      const own = (propertyName ?? name).text
      const given = from ?? (statement.moduleSpecifier ? null : imports.get(own))
      if (statement.moduleSpecifier && !from) continue
      const declaration = given ? exportsOf(given, sources).get(own) : { source, node: locals.get(own) }
      if (declaration?.node !== undefined) found.set(name.text, declaration)
    }
  }
  return found
}

function importsOf(source) {
  const imports = new Map()
  for (const statement of source.statements) {
    if (!ts.isImportDeclaration(statement)) continue
    const from = moduleOf(source.fileName, statement.moduleSpecifier.text)
    const bindings = statement.importClause?.namedBindings
    if (!from || !bindings || !ts.isNamedImports(bindings)) continue
    for (const { name, propertyName } of bindings.elements) if (!propertyName) imports.set(name.text, from)
  }
  return imports
}

/** The source that a relative specifier names; undefined for another package. */
function moduleOf(path, specifier) {
  return specifier.startsWith('.') ? join(dirname(path), specifier).replace(/\.js$/, '.ts') : undefined
}

const hasExport = (statement) =>
  ts.canHaveModifiers(statement) &&
  ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true

/** Names that a statement declares, with the node that carries the comment. */
function declared(statement) {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => [name.text, statement])
  }
  return statement.name?.text === undefined ? [] : [[statement.name.text, statement]]
}

/** Overloads share the comment of the first. A comment above a blank line counts, as it does for editors. */
function isDocumented({ source, node }) {
  const { text } = source
  const overload = source.statements.find(
    (each) =>
      ts.isFunctionDeclaration(each) && ts.isFunctionDeclaration(node) && each.name?.text === node.name?.text,
  )
  const first = overload ?? node
  const comment = ts.getLeadingCommentRanges(text, first.getFullStart())?.at(-1)
  return comment !== undefined && text.startsWith('/**', comment.pos)
}

/** Complaints `{ path, line, message }` about public exports without a doc comment. */
export function checkExports(files) {
  const sources = new Map()
  for (const { path, text } of files) {
    if (!/^(?:packages|apps\/trainer)\/.*src\/.*\.ts$/.test(path)) continue
    sources.set(path, ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true))
  }
  const complaints = new Map()
  for (const file of files) {
    if (!/^(?:packages|apps)\/[^/]+\/package\.json$/.test(file.path)) continue
    for (const entry of entriesOf(file)) {
      for (const [name, declaration] of exportsOf(entry, sources)) {
        if (isDocumented(declaration)) continue
        const { source, node } = declaration
        const line = source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1
        complaints.set(`${source.fileName}:${name}`, {
          path: source.fileName,
          line,
          message: `${name} is exported by ${file.path.replace('/package.json', '')} and has no doc comment; say in a sentence what it is`,
        })
      }
    }
  }
  return [...complaints.values()]
}

/** All names that a module exports, those of other packages included. */
function namesOf(path, sources) {
  const names = new Set(exportsOf(path, sources).keys())
  for (const statement of sources.get(path)?.statements ?? []) {
    if (!ts.isExportDeclaration(statement)) continue
    const { exportClause, moduleSpecifier } = statement
    if (exportClause === undefined) {
      const from = moduleOf(path, moduleSpecifier.text)
      if (from) for (const name of namesOf(from, sources)) names.add(name)
    } else if (ts.isNamedExports(exportClause))
      for (const { name } of exportClause.elements) names.add(name.text)
    else names.add(exportClause.name.text)
  }
  return names
}

/** Complaints about names that programs without types (`.mjs`) import from a workspace package that does not export them. */
export function checkImports(files) {
  const sources = new Map()
  const entries = new Map()
  for (const file of files) {
    const { path, text } = file
    if (/^(?:packages|apps\/trainer)\/.*src\/.*\.ts$/.test(path)) {
      sources.set(path, ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true))
    }
    if (!/^packages\/[^/]+\/package\.json$/.test(path)) continue
    const { name, exports } = JSON.parse(text)
    for (const [within, value] of Object.entries(exports)) {
      const [entry] = entriesOf({ path, text: JSON.stringify({ exports: value }) })
      entries.set(`${name}${within.slice(1)}`, entry)
    }
  }
  const complaints = []
  for (const { path, text } of files) {
    if (!path.endsWith('.mjs')) continue
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true)
    for (const statement of source.statements) {
      if (!ts.isImportDeclaration(statement)) continue
      const from = statement.moduleSpecifier.text
      const entry =
        entries.get(from) ??
        (from.startsWith('.') ? join(dirname(path), from).replace(/\/dist\/(.*)\.js$/, '/src/$1.ts') : '')
      const bindings = statement.importClause?.namedBindings
      if (!sources.has(entry) || !bindings || !ts.isNamedImports(bindings)) continue
      const names = namesOf(entry, sources)
      for (const element of bindings.elements) {
        const { text: name } = element.propertyName ?? element.name
        if (names.has(name)) continue
        const line = source.getLineAndCharacterOfPosition(element.getStart(source)).line + 1
        complaints.push({ path, line, message: `${name} is not exported by ${from}` })
      }
    }
  }
  return complaints
}
