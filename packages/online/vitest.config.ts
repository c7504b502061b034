import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['../../tools/workspace/samples.mjs'],
    testTimeout: 60_000,
    isolate: false,
  },
})
