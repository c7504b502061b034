/**
 * How the tests of one workspace run. Its vitest.config.ts is this, and may add to it.
 *
 * Files share a worker and what it has imported: loading the modules anew for every file took longer than most tests.
 * A worker is a process, not a thread, so that what a test reads of its process (memory, processor time) is its own.
 */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { include: ['test/**/*.test.ts'], testTimeout: 60_000, isolate: false },
})
