/**
 * A method of a class loses its object where it is passed on without a call (`run(store.save)`) or copied by a spread
 * (`{ ...store }`), and fails only when it runs. TypeScript accepts both. Arrow functions in fields keep their object.
 */
import { relative } from 'node:path'
import ts from 'typescript'

const isMethod = (symbol) =>
  symbol?.declarations?.some(
    (each) =>
      ts.isMethodDeclaration(each) &&
      ts.isClassLike(each.parent) &&
      !(ts.getCombinedModifierFlags(each) & ts.ModifierFlags.Static),
  ) ?? false

/** Whether the value of `node` is called, asked for a property or compared, with its object. */
function staysWithObject(node) {
  const { parent } = node
  if (ts.isCallExpression(parent)) return parent.expression === node
  if (ts.isNonNullExpression(parent)) return staysWithObject(parent)
  return ts.isPropertyAccessExpression(parent) || ts.isTypeOfExpression(parent) || ts.isTypeQueryNode(parent)
}

/** Names of the methods of all classes, libraries' too. Types are resolved only where one of these is named: they cost most of the time. */
function methodNames(program) {
  const names = new Set()
  const visit = (node) => {
    if (ts.isMethodDeclaration(node) && ts.isIdentifier(node.name)) names.add(node.name.text)
    ts.forEachChild(node, visit)
  }
  for (const source of program.getSourceFiles()) visit(source)
  return names
}

/** @param paths - absolute paths of the sources. */
export function checkMethods(root, paths) {
  const program = ts.createProgram(paths, {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    jsx: ts.JsxEmit.ReactJSX,
    jsxImportSource: 'preact',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  })
  const checker = program.getTypeChecker()
  const names = methodNames(program)
  const complaints = []
  for (const path of paths) {
    const source = program.getSourceFile(path)
    const complain = (node, message) =>
      complaints.push({
        path: relative(root, path),
        line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1,
        message: `${node.getText(source)} ${message}`,
      })
    const visit = (node) => {
      if (ts.isPropertyAccessExpression(node) && names.has(node.name.text) && !staysWithObject(node)) {
        if (isMethod(checker.getSymbolAtLocation(node.name)))
          complain(node, 'is a method without its object: pass a function that calls it')
      } else if (ts.isObjectBindingPattern(node)) {
        for (const each of node.elements) {
          const name = (each.propertyName ?? each.name).getText(source)
          if (names.has(name) && isMethod(checker.getTypeAtLocation(node).getProperty(name)))
            complain(each, 'is a method without its object: call it on the object')
        }
      } else if (ts.isSpreadAssignment(node)) {
        const { symbol } = checker.getTypeAtLocation(node.expression)
        const members = symbol?.flags & ts.SymbolFlags.Class ? [...symbol.members.values()] : []
        if (members.some(isMethod)) complain(node, 'leaves the methods of the class out')
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
  }
  return complaints
}
