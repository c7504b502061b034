/** ActivityLog beside two arrays that are kept in order by moving things about. */

import { HEAP_COLUMNS } from '@oddflow/capture'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ActivityLog, ESTABLISHED, HALF_OPEN } from '../src/activity-log.js'
import { FlowLines } from '../src/flow-record.js'

const FLOWS = 12
const operation = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ what: fc.constant('touch'), flow: fc.nat(FLOWS - 1), up: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constant('remove'), flow: fc.nat(FLOWS - 1), up: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constant('walk'), flow: fc.nat(FLOWS - 1), up: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('grow'), flow: fc.nat(FLOWS - 1), up: fc.boolean() }),
  },
)

describe('ActivityLog', () => {
  it('keeps both kinds in order of last activity, however often it is packed', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 600 }), (operations) => {
        let capacity = FLOWS
        const lines = new FlowLines(capacity, HEAP_COLUMNS)
        const log = new ActivityLog(capacity, lines, HEAP_COLUMNS)
        const expected: [number[], number[]] = [[], []]
        const kindOf = (flow: number) =>
          expected[ESTABLISHED].includes(flow)
            ? ESTABLISHED
            : expected[HALF_OPEN].includes(flow)
              ? HALF_OPEN
              : null
        const drop = (flow: number, kind: number) => {
          expected[kind] = expected[kind].filter((other) => other !== flow)
        }
        for (const { what, flow, up } of operations) {
          const kind = kindOf(flow)
          if (what === 'touch' && kind === null) {
            log.add(flow)
            expected[HALF_OPEN].push(flow)
          } else if (what === 'touch' && kind !== null) {
            const next = up ? ESTABLISHED : kind
            log.touch(flow, next)
            drop(flow, kind)
            expected[next].push(flow)
          } else if (what === 'remove' && kind !== null) {
            log.remove(flow)
            drop(flow, kind)
          } else if (what === 'walk' && kind !== null) {
            expect(log.newer(flow)).toBe(expected[kind][expected[kind].indexOf(flow) + 1] ?? -1)
          } else if (what === 'grow' && capacity < 40) {
            capacity += 3
            lines.grow(capacity)
            log.grow(capacity)
          }
          for (const each of [HALF_OPEN, ESTABLISHED]) {
            expect(log.count(each)).toBe(expected[each].length)
            expect(log.oldest(each)).toBe(expected[each][0] ?? -1)
          }
        }
        const visited: number[] = []
        log.visit((flow) => visited.push(flow))
        expect(visited).toEqual([...expected[HALF_OPEN], ...expected[ESTABLISHED]])
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('passes over what died once, not at every look', () => {
    const flows = 100_000
    const lines = new FlowLines(flows, HEAP_COLUMNS)
    const log = new ActivityLog(flows, lines, HEAP_COLUMNS)
    for (let flow = 0; flow < flows; flow++) log.add(flow)
    // All but the oldest and the newest of them become established: a long stretch of the dead between the two.
    for (let flow = 1; flow < flows - 1; flow++) log.touch(flow, ESTABLISHED)
    const start = process.cpuUsage()
    for (let look = 0; look < 20_000; look++) {
      if (log.oldest(HALF_OPEN) !== 0 || log.newer(0) !== flows - 1) throw new Error('not the next one')
    }
    // Two billion steps if each look went over them; twenty thousand looks are a few milliseconds.
    expect(process.cpuUsage(start).user / 1e6).toBeLessThan(1)
  })
})
