import { defineConfig } from 'vitest/config'

// each file has its own modules: one puts another node:fs in the place of Node's
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['../../tools/workspace/samples.mjs'],
    testTimeout: 60_000,
  },
})
