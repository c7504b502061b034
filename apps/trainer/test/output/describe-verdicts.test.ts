import { createMatrix } from '@oddflow/core'
import type { FlowCounters } from '@oddflow/flows'
import { describe, expect, it } from 'vitest'
import {
  describeGroupLevel,
  describePackets,
  describeThreshold,
  describeVerdicts,
} from '../../src/output/verdict-lines.js'
import { countVerdicts } from '../../src/pipeline/verdict-store.js'
import { flowVerdict, rowVerdict, smallModel } from '../small-model.js'

const one = { score: null, decision: null, rule: 'one-packet' } as const
const unknown = { score: null, decision: null, novel: false, rule: 'not-judged' } as const

describe('countVerdicts and describeVerdicts', () => {
  const counts = countVerdicts([
    flowVerdict(),
    flowVerdict({ novel: false }),
    flowVerdict(one),
    flowVerdict({ ...one, novel: false }),
    flowVerdict(one),
    flowVerdict(unknown),
  ])

  it('count each rule apart, and every verdict once', () => {
    expect(counts).toEqual({
      total: 6,
      novel: 3,
      byScore: 2,
      novelByScore: 1,
      onePacket: 3,
      novelOnePacket: 2,
      notJudged: 1,
    })
    expect(counts.byScore + counts.onePacket + counts.notJudged).toBe(counts.total)
  })

  it('say so over several inputs', () => {
    expect(describeVerdicts([counts, counts], 'capture')).toBe(
      '12 flow records: 6 novel (2 of 4 by score, 4 of 6 one-packet flows by service); 2 not judged (without a row)',
    )
    expect(describeVerdicts([countVerdicts([rowVerdict()])], 'rows')).toBe('1 row: 0 novel')
    expect(describeVerdicts([countVerdicts([flowVerdict()])], 'capture')).toBe('1 flow record: 1 novel')
  })
})

it('the way that scores point stands beside them', () => {
  const { saved } = smallModel()
  const value = saved.threshold.value.toPrecision(6)
  expect(describeThreshold(saved)).toBe(`novel: a score of ${value} or lower; the lower, the more unusual`)
  const groups = {
    tail: createMatrix(1, 2),
    flowLevel: -5,
    capture: { level: 1.25, groups: 3 },
    device: null,
  }
  expect(describeGroupLevel({ ...saved, groups }, 'capture')).toMatch(
    /^novel: a capture with a score above 1\.250, .*; the higher, the more unusual \(flows score the other way round\)/,
  )
})

describe('describePackets', () => {
  const none: FlowCounters = {
    packets: 1,
    packetsInFlows: 1,
    dropped: {},
    heldPackets: 0,
    timestampBackwards: 0,
    reorderedPackets: 0,
    latePackets: 0,
    clockSteps: 0,
    futurePackets: 0,
    flows: 1,
    evictedFlows: 0,
    evictedHalfOpenFlows: 0,
    evictedActiveFlows: 0,
    evictedIdleFlows: 0,
    records: 1,
    rows: 0,
    onePacketFlows: 1,
    shortRecords: 0,
    remainders: 0,
    lastPieces: 0,
    remainderPackets: 0,
  }

  it('is short where there is nothing to say', () => {
    expect(describePackets(none, [])).toBe('1 packet: 1 in flows')
  })

  it('leaves no count unsaid', () => {
    const text = describePackets(
      {
        ...none,
        packets: 1000,
        packetsInFlows: 700,
        dropped: { arp: 201, 'protocol-icmp': 99 },
        timestampBackwards: 31,
        reorderedPackets: 32,
        latePackets: 33,
        clockSteps: 34,
        futurePackets: 35,
        evictedFlows: 41,
        remainders: 51,
        remainderPackets: 61,
      },
      [],
    )
    for (const part of [
      '1000 packets: 700 in flows',
      '201 arp',
      '99 protocol-icmp',
      '31',
      '32',
      '33',
      '34',
      '35',
      '41',
      '51',
      '61',
    ]) {
      expect(text).toContain(part)
    }
  })
})
