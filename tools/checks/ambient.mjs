/**
 * Library code gets time, randomness and platform from its caller: equal input gives equal bytes anywhere.
 *
 * In packages/*\/src:
 *   - no clock and no randomness that the caller did not pass in (Math.random, Date.now, `new Date()`,
 *     performance, crypto);
 *     (but for capture's clock of replays: it sets their pace, and no byte of what they give);
 *   - no `node:` import outside capture/src/node and program, so that every other package also runs in a browser.
 * In core, linalg, detectors and online, whose results end up in models and scores:
 *   - of Math only what IEEE 754 fixes to the last bit (sqrt, floor, …); exp and log are core's own, since
 *     Math.exp and its kin differ between processors. For the same reason no `**` but of two literals.
 *
 * The source is read by TypeScript's own parser, so comments and strings never count, and an alias
 * (`const { exp } = Math`) is seen.
 */
import { builtinModules } from 'node:module'
import ts from 'typescript'

const EXACT_MATH = new Set(
  'abs ceil clz32 floor fround imul max min round sign sqrt trunc E LN2 LN10 LOG2E LOG10E PI SQRT2 SQRT1_2'.split(
    ' ',
  ),
)
const INEXACT_PACKAGES = /^packages\/(?:core|linalg|detectors|online)\/src\//
const NODE_ALLOWED = /^packages\/(?:capture\/src\/node|program\/src)\//
const CLOCK_ALLOWED = 'packages/capture/src/node/machine-clock.ts'
const BUILTIN = new Set(builtinModules)

const isBuiltin = (name) => name.startsWith('node:') || BUILTIN.has(name.split('/')[0])

/** A name that stands for the global of that name, and not for a property or a key. */
function isGlobalUse(node) {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) return false
  if (ts.isPropertyAssignment(parent) && parent.name === node) return false
  return !(
    ts.isPropertySignature(parent) ||
    ts.isPropertyDeclaration(parent) ||
    ts.isMethodDeclaration(parent)
  )
}

function specifierOf(node) {
  if ((ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) && node.moduleSpecifier) {
    return node.moduleSpecifier.text
  }
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    return ts.isStringLiteralLike(node.arguments[0]) ? node.arguments[0].text : undefined
  }
  return undefined
}

function complaintAbout(node, path) {
  const specifier = specifierOf(node)
  if (specifier !== undefined && isBuiltin(specifier) && !NODE_ALLOWED.test(path)) {
    return `imports ${specifier}: only packages/capture/src/node, packages/program and the apps may use Node's own modules`
  }
  const isStrict = INEXACT_PACKAGES.test(path)
  if (isStrict && ts.isBinaryExpression(node)) {
    const operator = node.operatorToken.kind
    if (operator === ts.SyntaxKind.AsteriskAsteriskEqualsToken)
      return 'uses **=, whose last bit differs by machine'
    if (operator !== ts.SyntaxKind.AsteriskAsteriskToken) return undefined
    const isConstant = ts.isNumericLiteral(node.left) && ts.isNumericLiteral(node.right)
    return isConstant ? undefined : 'uses **, whose last bit differs by machine: multiply instead'
  }
  if (!ts.isIdentifier(node) || !isGlobalUse(node)) return undefined
  const { parent } = node
  const member =
    ts.isPropertyAccessExpression(parent) && parent.expression === node ? parent.name.text : undefined
  switch (node.text) {
    case 'Math':
      if (member === 'random') return 'uses Math.random: take an Rng from the caller'
      if (!isStrict && member !== undefined) return undefined
      if (member !== undefined && EXACT_MATH.has(member)) return undefined
      return `uses Math${member === undefined ? ' under another name' : `.${member}`}: only exact functions, and core's exp and log`
    case 'Date':
      if (ts.isNewExpression(parent) && (parent.arguments?.length ?? 0) > 0) return undefined
      if (member === 'UTC' || ts.isTypeReferenceNode(parent)) return undefined
      return 'reads the clock: take the time from the caller'
    case 'performance':
      if (path === CLOCK_ALLOWED) return undefined
      return 'uses performance: library code has no time or randomness of its own'
    case 'crypto':
      return `uses ${node.text}: library code has no time or randomness of its own`
    default:
      return undefined
  }
}

/** Complaints `{ path, line, message }` about the sources of packages among `files`. */
export function checkAmbient(files) {
  const complaints = []
  for (const { path, text } of files) {
    if (!/^packages\/[^/]+\/src\/.*\.ts$/.test(path)) continue
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true)
    const visit = (node) => {
      const message = complaintAbout(node, path)
      if (message !== undefined) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart(source))
        complaints.push({ path, line: line + 1, message })
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
  }
  return complaints
}
