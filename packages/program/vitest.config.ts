import { mergeConfig } from 'vitest/config'
// @boundaries-ignore all workspaces are tested alike
import shared from '../../tools/workspace/vitest.package.mjs'

// each file has its own modules: one puts another node:fs in the place of Node's
export default mergeConfig(shared, { test: { isolate: true } })
