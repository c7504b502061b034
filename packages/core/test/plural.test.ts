import { expect, it } from 'vitest'
import { plural } from '../src/index.js'

it('plural', () => {
  expect([0, 1, 2].map((n) => plural(n, 'flow'))).toEqual(['0 flows', '1 flow', '2 flows'])
})
