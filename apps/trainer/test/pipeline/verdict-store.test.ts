import { copyFlowRecord, type FlowRecord } from '@oddflow/flows'
import type { FlowExplainer, FlowExplanation } from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RowSample } from '../../src/library/rows.js'
import { createScratchRuns, VerdictStore } from '../../src/pipeline/verdict-store.js'

const record: FlowRecord = {
  ...({} as FlowRecord),
  ipVersion: 4,
  protocol: 6,
  initiatorAddress: Uint32Array.of(0, 0, 0, 0xc0a80001),
  responderAddress: Uint32Array.of(0, 0, 0, 0x08080808),
  initiatorMac: new Uint8Array(6),
  responderMac: new Uint8Array(6),
  initiatorBytes: 0,
  initiatorIpBytes: 0,
  responderBytes: 0,
  responderIpBytes: 0,
  row: null,
}

type JudgedRow = Parameters<FlowExplainer>[0]

describe('VerdictStore of verdicts to explain', () => {
  it('hands each novel verdict its own row, also from the scratch file, and knows whose flow it is', () => {
    const asked: JudgedRow[] = []
    const explain = (judged: JudgedRow): FlowExplanation => {
      asked.push(judged)
      return {
        reason: 'features',
        reasons: [`first ${judged.row[0]}`],
        mode: null,
        features: [],
        nearestBytes: null,
      }
    }
    const store = new VerdictStore('a.pcap', -3, { explain })
    // a block of rows holds a megabyte
    const [records, cols] = [3001, 100]
    const row = new Float64Array(cols)
    for (let i = 0; i < records; i++) {
      row.fill(i)
      store.add(
        {
          ...record,
          row,
          packets: i + 1,
          firstPacketNumber: records - i,
          initiatorMac: Uint8Array.of(2, 0, 0, 0, i >> 8, i & 255),
        } as FlowRecord,
        { score: -i, novel: i % 2 === 0, rule: 'score' },
      )
    }
    expect(store.scratchBytes).toBeGreaterThan(800_000)
    let novel = 0
    for (const { score, novel: isNovel, explain: why, device } of store) {
      if (!isNovel) {
        expect([why, device]).toEqual([undefined, undefined])
        continue
      }
      const i = -score!
      novel++
      expect(why!().reasons).toEqual([`first ${i}`])
      expect(asked.at(-1)).toMatchObject({ score, threshold: -3, packets: i + 1 })
      expect(asked.at(-1)!.row).toEqual(new Float64Array(cols).fill(i))
      expect(device).toBe(
        `02:00:00:00:${(i >> 8).toString(16).padStart(2, '0')}:${(i & 255).toString(16).padStart(2, '0')}`,
      )
    }
    expect(novel).toBe(1501)
    store.release()
    expect(store.scratchBytes).toBe(0)
  })

  it('names the local end by its address where the link has none', () => {
    const explain = (): FlowExplanation => ({
      reason: 'whole',
      reasons: [],
      mode: null,
      features: [],
      nearestBytes: null,
    })
    const store = new VerdictStore('a.pcap', 0, { explain })
    const [local, remote] = [record.initiatorAddress, record.responderAddress]
    const verdict = { score: -1, novel: true, rule: 'score' } as const
    store.add({ ...record, ipVersion: 4, firstPacketNumber: 0 } as FlowRecord, verdict)
    store.add(
      {
        ...record,
        ipVersion: 4,
        firstPacketNumber: 1,
        initiatorAddress: remote,
        responderAddress: local,
      } as FlowRecord,
      verdict,
    )
    expect(Array.from(store, ({ device }) => device)).toEqual(['192.168.0.1', '192.168.0.1'])
  })
})

describe('VerdictStore', () => {
  it('gives back what it was given, in the order of first packets', () => {
    const entry = fc.record({
      score: fc.double({ noNaN: true, noDefaultInfinity: true }),
      novel: fc.boolean(),
      rule: fc.constantFrom('score' as const, 'one-packet' as const, 'not-judged' as const),
      ipVersion: fc.constantFrom(4, 6),
      protocol: fc.constantFrom(1, 6, 17, 58, 132),
      ports: fc.tuple(fc.nat(65535), fc.nat(65535)),
      startMicros: fc.integer({ min: 0, max: 2 ** 50 }),
      packets: fc.nat(2 ** 31),
    })
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 60 }), (entries) => {
        const store = new VerdictStore('a.pcap', -3)
        entries.forEach((e, i) => {
          const firstPacketNumber = entries.length - i
          const [initiatorPort, responderPort] = e.ports
          store.add(
            copyFlowRecord({
              ...record,
              ipVersion: e.ipVersion,
              protocol: e.protocol,
              initiatorPort,
              responderPort,
              startMicros: e.startMicros,
              durationMicros: 7,
              packets: e.packets,
              initiatorBytes: 2 ** 39 + i,
              initiatorIpBytes: i,
              responderBytes: 40,
              responderIpBytes: 2 ** 39,
              pieceIndex: i,
              firstPacketNumber,
            }),
            { score: e.rule === 'score' ? e.score : null, novel: e.novel, rule: e.rule },
          )
        })
        expect(store.length).toBe(entries.length)
        const back = [...store]
        // twice: a report goes through them again
        expect([...store]).toEqual(back)
        entries.reverse().forEach((e, i) => {
          const v = back[i]
          expect([v.novel, v.rule, v.input, v.row]).toEqual([e.novel, e.rule, 'a.pcap', null])
          expect(v.score).toBe(e.rule === 'score' ? e.score : null)
          expect(v.decision).toBe(e.rule === 'score' ? e.score + 3 : null)
          expect(v.flow).toMatchObject({
            protocol: { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmpv6', 132: 'sctp' }[e.protocol],
            source: e.ipVersion === 4 ? '192.168.0.1' : '::c0a8:1',
            sourcePort: e.ports[0],
            destinationPort: e.ports[1],
            startMicros: e.startMicros,
            durationMicros: 7,
            packets: e.packets,
            // of each end what is more: its payloads, or its packets'
            bytes: 2 ** 40 + entries.length - 1 - i,
            piece: entries.length - 1 - i,
          })
        })
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('stops at its bound and says what to do', () => {
    const store = new VerdictStore('big.pcap', 0, { maximum: 3 })
    const add = (): void =>
      store.add({ ...record, firstPacketNumber: 1 } as FlowRecord, {
        score: null,
        novel: true,
        rule: 'one-packet',
      })
    add()
    add()
    add()
    expect(add).toThrow(/^big\.pcap: more than 3 flow records in one capture: split it/)
    expect([...store]).toHaveLength(3)
  })
})

describe('VerdictStore of more than is held in memory', () => {
  it('gives back all in order, from a scratch file that goes, in bounded memory', () => {
    const store = new VerdictStore('big.pcap', 0)
    const records = 1_000_003
    const initiatorAddress = new Uint32Array(4)
    const borrowed = { ...record, initiatorAddress, firstPacketNumber: 0, packets: 0 }
    const before = process.memoryUsage().arrayBuffers
    for (let i = 0; i < records; i++) {
      // a permutation: the multiplier and the number of records have no divisor in common
      borrowed.firstPacketNumber = (i * 7919) % records
      borrowed.packets = i
      initiatorAddress[3] = i
      store.add(borrowed, { score: i, novel: i % 2 === 0, rule: 'score' })
    }
    expect(store.scratchBytes).toBeGreaterThan(60_000_000)
    let packetNumber = 0
    let misplaced = 0
    let largest = 0
    for (const verdict of store) {
      const i = verdict.score!
      if ((i * 7919) % records !== packetNumber) misplaced++
      if (verdict.flow!.packets !== i || verdict.novel !== (i % 2 === 0)) misplaced++
      if (packetNumber++ % 100_000 === 0) largest = Math.max(largest, process.memoryUsage().arrayBuffers)
    }
    expect([packetNumber, misplaced]).toEqual([records, 0])
    expect(largest - before).toBeLessThan(32_000_000)
    // once more from the middle of another round
    const halfway = store[Symbol.iterator]()
    for (let k = 0; k < 10; k++) halfway.next()
    let again = 0
    for (const _ of store) again++
    expect(again).toBe(records)
    expect((halfway.next().value!.score! * 7919) % records).toBe(10)
    store.release()
    expect([store.scratchBytes, [...store].length, store.counts.total]).toEqual([0, 0, records])
  })

  it('says so where there is no room for it', () => {
    const { TMPDIR } = process.env
    process.env.TMPDIR = '/nowhere/at/all'
    try {
      expect(() => createScratchRuns(16)).toThrow(
        /nowhere.*cannot write it: there is no folder \/nowhere\/at/,
      )
    } finally {
      if (TMPDIR === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = TMPDIR
    }
  })
})

describe('VerdictStore of novel verdicts alone', () => {
  it('counts all and keeps those, also beyond a block of its columns', () => {
    const store = new VerdictStore('big.pcap', 0, { novelOnly: true })
    const records = 150_001
    for (let i = 0; i < records; i++) {
      store.add(
        {
          ...record,
          ipVersion: i % 3 === 0 ? 6 : 4,
          initiatorAddress: Uint32Array.of(0x20010db8, 0, 0, i),
          firstPacketNumber: records - i,
        } as FlowRecord,
        { score: null, novel: i % 2 === 0, rule: 'one-packet' },
      )
    }
    expect(store.counts).toEqual({
      total: records,
      novel: 75_001,
      byScore: 0,
      novelByScore: 0,
      onePacket: records,
      novelOnePacket: 75_001,
      notJudged: 0,
    })
    const back = [...store]
    expect(back).toHaveLength(75_001)
    expect(back[0].flow?.source).toBe('2001:db8::2:49f0')
    expect(back[75_000].flow?.source).toBe('2001:db8::')
    expect(back[75_000 - 1].flow?.source).toBe('0.0.0.2')
  })
})

describe('RowSample', () => {
  it('keeps evenly spaced rows, at most as many as it may', () => {
    fc.assert(
      fc.property(fc.nat(500), fc.integer({ min: 2, max: 40 }), (n, limit) => {
        const sample = new RowSample(2, limit)
        for (let i = 0; i < n; i++) sample.add(Float64Array.of(i, -i))
        const { rows, cols, data } = sample.matrix()
        expect(cols).toBe(2)
        expect(rows).toBeLessThanOrEqual(limit)
        expect(rows).toBeGreaterThanOrEqual(Math.min(n, Math.floor(limit / 2)))
        const step = rows > 1 ? data[2] : 1
        for (let i = 0; i < rows; i++) expect([data[2 * i], data[2 * i + 1]]).toEqual([i * step, -i * step])
      }),
    )
  })
})
