export { default } from '../../tools/workspace/vitest.package.config.mjs'
