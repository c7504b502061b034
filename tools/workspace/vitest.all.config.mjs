/**
 * All tests in one run: each workspace by its own vitest.config.ts, and test/ across them.
 *
 * It is not called vitest.config at the root, because a root configuration with `projects` would be found
 * by `vitest run` inside a package too, and break it.
 */
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { root } from './layout.mjs'

export default defineConfig({
  root,
  test: {
    // every core: vitest would leave one of two to itself
    maxWorkers: Math.max(2, availableParallelism()),
    projects: [
      'packages/*/vitest.config.ts',
      'apps/*/vitest.config.ts',
      {
        test: {
          name: 'test',
          root,
          include: ['test/**/*.test.ts'],
          setupFiles: ['tools/workspace/samples.mjs'],
          testTimeout: 120_000,
          hookTimeout: 300_000,
        },
      },
    ],
    reporters: ['default', './tools/workspace/vitest-counts.mjs'],
  },
})
