/**
 * All tests in one run: each workspace by its own vitest.config.ts, and test/ across them.
 *
 * It is not called vitest.config at the root, because a root configuration with `projects` would be found
 * by `vitest run` inside a package too, and break it.
 */
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'
import { root } from './layout.mjs'
import packageTests from './vitest.package.mjs'

/** End-to-end tests first: they wait most, and a long one that starts last would run alone at the end. */
class EndToEndFirst extends BaseSequencer {
  async sort(files) {
    const byName = (a, b) => (a.project.name < b.project.name ? 1 : a.project.name > b.project.name ? -1 : 0)
    return (await super.sort(files)).sort(byName) // "test", then the apps, then "@oddflow/…"
  }
}

export default defineConfig({
  root,
  test: {
    // two more than cores: half of the time of an end-to-end test is waiting for clocks, processes and connections
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: EndToEndFirst },
    projects: [
      'packages/*/vitest.config.ts',
      'apps/*/vitest.config.ts',
      {
        test: {
          name: 'test',
          root,
          include: ['test/**/*.test.ts'],
          globalSetup: ['test/e2e/support/lab-models.ts'],
          server: packageTests.test.server,
          expect: packageTests.test.expect,
          setupFiles: ['tools/workspace/samples.mjs'],
          testTimeout: 120_000,
          hookTimeout: 300_000,
        },
      },
    ],
    reporters: ['default', './tools/workspace/vitest-counts.mjs'],
  },
})
