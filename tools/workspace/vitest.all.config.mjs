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
    // one more than cores: many end-to-end tests wait for clocks, processes and connections
    maxWorkers: availableParallelism() + 1,
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
