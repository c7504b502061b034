// @boundaries-ignore all workspaces are tested alike
export { default } from '../../tools/workspace/vitest.package.mjs'
