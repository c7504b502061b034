/**
 * A vitest reporter that writes what `npm test` ends with: how many passed and failed, and what was
 * skipped for which reason (the note given to `context.skip('…')`), to the file ODDFLOW_TEST_COUNTS.
 *
 * A file that fails to load counts as one failure, as does an error that belongs to no test.
 */
import { writeFileSync } from 'node:fs'

const NO_REASON = 'what it needs is not here (the test says what, above)'

export default class CountsReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const counts = { passed: 0, failed: 0, skipped: [], errors: unhandledErrors.length }
    for (const module of modules) {
      let failedTests = 0
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') counts.passed++
        else if (result.state === 'failed') failedTests++
        else
          counts.skipped.push({
            name: `${module.relativeModuleId} > ${test.fullName}`,
            reason: result.note ?? NO_REASON,
          })
      }
      if (failedTests === 0 && module.state() === 'failed') failedTests = 1
      counts.failed += failedTests
    }
    if (process.env.ODDFLOW_TEST_COUNTS)
      writeFileSync(process.env.ODDFLOW_TEST_COUNTS, JSON.stringify(counts))
  }
}
