import { describe, expect, it } from 'vitest'
import { patternsOf } from '../../src/pipeline/learnt-flows.js'

const flow = (initiator: string, responder: string, responderPort: number) => ({
  initiator,
  responder,
  protocol: 'tcp',
  responderPort,
})
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i))

describe('flows that an update made normal', () => {
  it('are named by what they do, the largest first', () => {
    const flows = [
      ...times(12, () => flow('10.0.0.6', '10.0.0.9', 22)),
      ...times(40, (i) => flow('10.0.0.5', '10.0.0.9', 1 + i)),
      ...times(20, (i) => flow('10.0.0.7', `10.1.0.${i}`, 23)),
    ]
    expect(patternsOf(flows)).toEqual([
      'a scan of 40 ports of 10.0.0.9 by 10.0.0.5',
      'a scan of 20 hosts by 10.0.0.7, tcp port 23',
      '12 flows of 10.0.0.6 to 10.0.0.9, tcp port 22',
    ])
  })

  it('are named from five to one service on, as few guesses of a password are', () => {
    const guesses = times(5, () => flow('10.0.0.6', '10.0.0.9', 22))
    expect(patternsOf(guesses)).toEqual(['5 flows of 10.0.0.6 to 10.0.0.9, tcp port 22'])
    expect(patternsOf(guesses.slice(1))).toEqual([])
  })

  it('are no pattern where they are few', () => {
    expect(patternsOf([])).toEqual([])
    expect(patternsOf(times(9, (i) => flow('10.0.0.5', '10.0.0.9', 1 + i)))).toEqual([])
    expect(patternsOf(times(30, (i) => flow(`10.0.${i}.5`, `10.0.${i}.9`, 100 + i)))).toEqual([])
  })

  it('are counted together beyond five', () => {
    const flows = times(7, (kind) => times(20 - kind, () => flow('10.0.0.6', `10.0.1.${kind}`, 22))).flat()
    const found = patternsOf(flows)
    expect(found).toHaveLength(6)
    expect(found[5]).toBe('29 flows of other kinds')
  })
})
