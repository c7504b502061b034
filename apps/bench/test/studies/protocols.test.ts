/** What the studies judge by what: splits, summaries of rows, sums over days. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { matrixOf } from '@oddflow/core'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { captureOf, inOrder, readPackets } from '../../src/studies/agent-runs.js'
import { labAttacks, labMac, labNormal, readPair } from '../../src/studies/attacks.js'
import {
  collectFlows,
  describeRecipe,
  VARIANT_NAMES,
  variantNamed,
  wholeCapture,
} from '../../src/studies/flows.js'
import { endsOf, kindsOf } from '../../src/studies/poisoning.js'
import { paperTuned, summariseRows } from '../../src/studies/rows.js'
import {
  averageOf,
  type Devices,
  ORDER_OF_TIME,
  seedsFrom,
  splitOf,
  worstDevice,
} from '../../src/studies/watch.js'
import { daysOf, falseAlarmsOf, summariseWeek } from '../../src/studies/week.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-studies-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const captures = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}.pcap`, 1000 - 10 * i]))
const devices: Devices = {
  hub: { family: 'hub', watched: true, starts: captures(7) },
  sensor: { family: 'hub', watched: true, starts: captures(5) },
  cam: { family: 'cam', watched: true, starts: captures(6) },
  kettle: { family: 'kettle', watched: false, starts: captures(2) },
}

describe('splits of a watched device', () => {
  it('in the order of time train on the earlier half', () => {
    const { train, normal } = splitOf(devices, 'hub', ORDER_OF_TIME)
    expect(train).toEqual(['hub/c6.pcap', 'hub/c5.pcap', 'hub/c4.pcap'])
    expect(normal).toEqual(['hub/c3.pcap', 'hub/c2.pcap', 'hub/c1.pcap', 'hub/c0.pcap'])
  })

  it('take each own capture once, and at most three of each device of another family', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e6 }), (seed) => {
        const { train, normal, novel } = splitOf(devices, 'hub', seed)
        expect([...train, ...normal].sort()).toEqual(Object.keys(captures(7)).map((name) => `hub/${name}`))
        expect(train).toHaveLength(4)
        const novelOf = (name: string) => novel.filter((capture) => capture.startsWith(`${name}/`))
        expect(new Set(novelOf('cam')).size).toBe(3)
        expect(new Set(novelOf('kettle')).size).toBe(2)
        expect(novel).toHaveLength(5)
      }),
    )
  })

  it('are the same with the same seed and others with another', () => {
    expect(splitOf(devices, 'hub', 3)).toEqual(splitOf(devices, 'hub', 3))
    const trained = Array.from({ length: 10 }, (_, seed) => splitOf(devices, 'hub', seed).train.join())
    expect(new Set(trained).size).toBeGreaterThan(5)
  })
})

it('devices weigh the same, and the worst is that of the highest mean', () => {
  const split = (device: string, order: string, normalFlagged: number) => ({
    ...{ device, order, normalFlows: 1, novelFlows: 1, auc: normalFlagged, found: 0, normalFlagged },
    novelFlagged: 1,
    groups: device === 'a' ? { normal: 0, novel: 1 } : null,
  })
  const splits = [split('a', '1', 0.2), split('a', '2', 0), split('b', '1', 0.08), split('b', '2', 0.16)]
  expect(worstDevice(splits)).toBeCloseTo(0.12)
  expect(averageOf(splits)).toMatchObject({ found: 0, novelFlagged: 1, groups: null })
  expect(averageOf(splits.slice(0, 2)).groups).toEqual({ normal: 0, novel: 1 })
  expect(averageOf(splits).normalFlagged).toBeCloseTo(0.11)
})

it('seeds are numbers and ranges, each once', () => {
  expect(seedsFrom('1-3,7,2')).toEqual([1, 2, 3, 7])
  for (const text of ['', '3-1', '1-', 'a', '1-99999', '1.5'])
    expect(() => seedsFrom(text)).toThrow('expected')
})

describe('the week', () => {
  it('reads days in their order', () => {
    const place = join(folder, 'device')
    mkdirSync(place)
    for (const name of ['day10.pcap', 'day2.pcap', 'day1.pcap', 'notes.txt']) {
      writeFileSync(join(place, name), '')
    }
    expect(daysOf(place)).toEqual(['day1.pcap', 'day2.pcap', 'day10.pcap'])
  })

  it('counts no day without a flow, and each device the same', () => {
    const device = (flagged: number[], flows: number[], flaggedAttack: number) => ({
      ...{ device: 'd', trainedFlows: 1 },
      days: flagged.map((n, i) => ({ day: `day${i}`, flows: flows[i]!, flagged: n, group: null })),
      attacks: [{ attack: 'a', flows: 10, flagged: flaggedAttack }],
    })
    const quiet = device([0, 0, 3], [50, 0, 50], 1)
    expect(falseAlarmsOf(quiet)).toEqual({ rate: 0.03, aDay: 1.5 })
    const week = summariseWeek([quiet, device([1], [100], 0.5)])
    expect(week).toMatchObject({ aDay: 1.25, attacksMean: 0.75, attacksLeast: 0.5 })
    expect(week.rate).toBeCloseTo(0.02)
  })
})

// by row_summary of the numpy reference (numpy 1.24.2)
const ROWS: readonly (readonly [readonly number[], readonly number[]])[] = [
  [
    [0.5, 60, 0.25, 1500, 0, 0, 0],
    [
      1.0986122886681098, 7.353081920515432, -0.30094314545233225, -0.3010213098612009, 7.313886831633462,
      4.110873864173311, 6.660575149839686, 6.580639137284949, 4.110873864173311, 7.313886831633462,
      -0.3010213098612009,
    ],
  ],
  [
    [0, 40, 0, 0, 0, 0, 0],
    [
      Math.LN2,
      3.713572066704308,
      -4,
      -5,
      3.713572066704308,
      3.713572066704308,
      3.713572066704308,
      0,
      3.713572066704308,
      0,
      -5,
    ],
  ],
  [
    [0.1, 100, 0.2, 200, 0.3, 300, 400],
    [
      1.6094379124341003, 6.90875477931522, -0.22177637323390345, -0.5228642690388768, 5.993961427306569,
      4.61512051684126, 5.5254529391317835, 4.725646470480477, 4.61512051684126, 5.303304908059076,
      -0.9999565727231373,
    ],
  ],
  [
    [0.1, 100, 0.2, 200, 0.3, 300, 0.4],
    [
      1.3862943611198906, 6.398594934535208, -0.22177637323390345, -0.5228642690388768, 5.707110264748875,
      4.61512051684126, 5.303304908059076, 4.414610687449917, 4.61512051684126, 5.303304908059076,
      -0.9999565727231373,
    ],
  ],
]

describe('rows summarised', () => {
  it('are those of the numpy reference', () => {
    const { data, cols } = summariseRows(
      matrixOf(ROWS.length, 7, Float64Array.from(ROWS.flatMap(([row]) => row))),
    )
    expect(cols).toBe(11)
    for (const [i, [, expected]] of ROWS.entries()) {
      for (const [j, value] of expected.entries())
        expect(data[11 * i + j], `${i},${j}`).toBeCloseTo(value, 12)
    }
  })

  it('are finite whatever the row', () => {
    const row = fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { minLength: 7, maxLength: 7 })
    fc.assert(
      fc.property(row, (values) => {
        const { data } = summariseRows(matrixOf(1, 7, Float64Array.from(values)))
        expect(data.every(Number.isFinite)).toBe(true)
      }),
    )
  })

  it("stand beside the paper's tuned figures", () => {
    expect(paperTuned('CTU')).toEqual({ ocsvm: 0.65, best: 0.65 * 1.35 })
    expect(paperTuned('elsewhere')).toBeNull()
  })
})

describe('captures of attacks', () => {
  it('are those that the lab labels, of the packets that it says', () => {
    expect(labNormal().map(({ path }) => path.replace(/.*\//, ''))).toEqual([
      'normal-1.pcap',
      'normal-2.pcapng',
      'normal-3.pcap.gz',
      'normal-4.pcap.gz',
    ])
    const attacks = labAttacks()
    expect(attacks.map(({ kind }) => kind)).toEqual([
      'scan',
      'bruteforce',
      'firmware',
      'publishing',
      'dnstunnel',
    ])
    expect(attacks[4]?.attack.filter).toBe('host 203.0.113.53 and udp and port 53')
  })

  it('of a pair: odd captures train, even ones are judged, hosts are filtered', () => {
    const files = ['normal/a_1.pcap', 'normal/a_2.pcap', 'normal/Setup-A-3-STA.pcap'].map((file) => ({
      file,
    }))
    const manifest = {
      normal: { files, filter: {} },
      novel: { files: [{ file: 'novel/b.pcap' }], filter: { ip: ['192.0.2.1', '192.0.2.2'] } },
    }
    writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest))
    const pair = readPair(folder)
    expect(pair.train.map(({ path }) => path)).toEqual([
      join(folder, 'normal/a_1.pcap'),
      join(folder, 'normal/Setup-A-3-STA.pcap'),
    ])
    expect(pair.normal).toEqual([{ path: join(folder, 'normal/a_2.pcap'), filter: null }])
    expect(pair.novel[0]?.filter).toBe('host 192.0.2.1 or host 192.0.2.2')
  })

  it('names the manifest that is unusable', () => {
    writeFileSync(join(folder, 'manifest.json'), '{"normal":{}}')
    expect(() => readPair(folder)).toThrow(join(folder, 'manifest.json'))
  })
})

it('every variant says which command it is, and no two say the same', () => {
  const commands = VARIANT_NAMES.map((name) => describeRecipe(variantNamed(name)))
  expect(new Set(commands).size).toBe(commands.length)
  for (const command of commands) expect(command).toMatch(/^oddflow train …/)
})

describe('traffic that poisons', () => {
  const ends = endsOf(readPackets(labNormal()[0]!.path))
  const kinds = Object.entries(kindsOf(ends))

  it('is of a device of the recording, and of its usual server', () => {
    expect(ends.gateway).toEqual(labMac('gw'))
    expect(ends.server).toMatch(/^203\.0\.113\./)
  })

  it.each(kinds)(
    '%s: as many flows at full strength as the page says, each with the peer',
    async (kind, one) => {
      const expected = /upload/.test(kind) ? 24 : /scan/.test(kind) ? 200 : 60
      const path = join(folder, 'attack.pcap')
      writeFileSync(path, captureOf(inOrder(one.attack(1.7e15))))
      expect((await collectFlows([wholeCapture(path)], variantNamed('default'))).count).toBe(expected)
      const addresses = readPackets(path).map(({ frame }) => [frame.subarray(26, 30), frame.subarray(30, 34)])
      const pairs = new Set(
        addresses.map((pair) =>
          pair
            .map((address) => address.join('.'))
            .sort()
            .join(),
        ),
      )
      expect([...pairs]).toEqual([[ends.device.address, one.peer].sort().join()])
    },
  )

  it.each(kinds)('%s: grows, and ends where it is as large as the attack at most', (_, { step, attack }) => {
    const bytes = (packets: ReturnType<typeof step>): number =>
      packets.reduce((sum, { frame }) => sum + frame.length, 0)
    expect(bytes(step(20, 0))).toBeGreaterThan(bytes(step(0, 0)))
    expect(bytes(step(41, 0))).toBeGreaterThan(0)
    expect(bytes(step(20, 0))).toBeLessThan(3 * bytes(attack(0)))
  })
})
