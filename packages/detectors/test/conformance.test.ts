import { describe, expect, it } from 'vitest'
import { DETECTOR_NAMES, DETECTORS } from '../src/index.js'
import { CONFORMANCE_CHECKS } from './conformance/index.js'

describe.each(DETECTOR_NAMES)('%s', (detector) => {
  it('stands in the registry under its own name', () => {
    expect(DETECTORS[detector].name).toBe(detector)
  })

  for (const [name, check] of Object.entries(CONFORMANCE_CHECKS)) {
    it(name, () => check(detector))
  }
})
