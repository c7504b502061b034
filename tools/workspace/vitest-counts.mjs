/**
 * A vitest reporter that writes what `npm test` ends with: how many passed and failed, and which were
 * skipped in which file for which reason, to the file ODDFLOW_TEST_COUNTS.
 *
 * The reason is the note given to `context.skip('…')`. What is skipped by `skipIf` has none; nearly always
 * the evidence folder is absent then, and if it is, that is the reason given. A file that fails to load
 * counts as one failure, as does an error that belongs to no test.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { root } from './layout.mjs'

function reasonWithoutNote() {
  const evidence = process.env.ODDFLOW_SHARED ?? join(root, '..', 'shared')
  if (!existsSync(evidence)) return 'the evidence folder is not here: set ODDFLOW_SHARED'
  return 'a slow test, or something it needs is not installed here (its file says which)'
}

export default class CountsReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const counts = { passed: 0, failed: 0, skipped: [], errors: unhandledErrors.length }
    for (const module of modules) {
      const file = relative(root, module.moduleId)
      let failedTests = 0
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') counts.passed++
        else if (result.state === 'failed') failedTests++
        else counts.skipped.push({ file, name: test.fullName, reason: result.note ?? reasonWithoutNote() })
      }
      if (failedTests === 0 && module.state() === 'failed') failedTests = 1
      counts.failed += failedTests
    }
    if (process.env.ODDFLOW_TEST_COUNTS) {
      writeFileSync(process.env.ODDFLOW_TEST_COUNTS, JSON.stringify(counts))
    }
  }
}
