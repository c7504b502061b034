/** The tests of one workspace, whose vitest.config.ts exports this. */
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { root } from './layout.mjs'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: [join(root, 'tools/workspace/samples.mjs')],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // of a busy machine: a poll that is answered ends at once
    expect: { poll: { timeout: 10_000 } },
    isolate: false,
    // what is compiled already, Node loads faster than vitest transforms them
    server: { deps: { external: [/\/(?:apps|packages)\/[^/]+\/(?:build|dist)\//] } },
  },
})
