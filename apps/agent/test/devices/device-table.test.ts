import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { FormatError } from '@oddflow/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES, type DeviceSettings } from '../../src/config/settings.js'
import {
  createDevice,
  type Device,
  decodeDevices,
  encodeDevices,
  forecastOf,
  noteAddress,
  recentNovelShare,
} from '../../src/devices/device.js'
import { createDeviceFlood, type DEVICE_ACTIONS, DeviceTable } from '../../src/devices/device-table.js'
import { countsLess } from '../../src/devices/names.js'
import type { ScopeReport } from '../../src/models/progress.js'
import { stateText } from '../../src/page/texts.js'

const HOUR = 3_600_000_000
const macOf = (n: number): string =>
  `00:00:${[24, 16, 8, 0].map((shift) => ((n >>> shift) & 255).toString(16).padStart(2, '0')).join(':')}`
const settings = (changes: Partial<DeviceSettings> = {}): DeviceSettings => ({
  ...DEFAULT_DEVICES,
  ...changes,
})

describe('a device', () => {
  /** So many verdicts, evenly over the hours, every `novelEvery`-th novel. */
  const lived = (flows: number, hours: number, novelEvery: number, given = settings()) => {
    const table = new DeviceTable(given)
    const device = table.add(macOf(1), '192.0.2.1', 0)!
    for (let i = 1; i <= flows; i++) {
      table.note(device, i % novelEvery === 0, Math.round((i * hours * HOUR) / flows), true)
    }
    return device
  }

  it('is ready after the time, the flows and the stability that are asked for, and not without one of them', () => {
    expect(lived(400, 25, 1000).state).toBe('ready')
    expect(lived(400, 23, 1000).state).toBe('learning')
    expect(lived(190, 25, 1000).state).toBe('learning')
    expect(lived(4000, 25, 5).state).toBe('learning')
    expect(lived(400, 25, 1000, settings({ approve: 'auto' })).state).toBe('watching')
  })

  it('is judged after judgeHours with the flows that there are, if few of them were novel', () => {
    const judged = (flows: number, hours: number, novelEvery: number) => {
      const table = new DeviceTable(settings({ approve: 'auto' }))
      const device = table.add(macOf(1), '192.0.2.1', 0)!
      for (let i = 1; i <= flows; i++) table.note(device, i % novelEvery === 0, i * HOUR, true)
      expect(device.state).toBe('learning')
      return { moved: table.judge(hours * HOUR).length, state: device.state, changes: table.changes }
    }
    expect(judged(28, 48, 1e9)).toEqual({ moved: 1, state: 'watching', changes: 1 })
    expect(judged(28, 47.9, 1e9)).toEqual({ moved: 0, state: 'learning', changes: 0 })
    expect(judged(28, 48, 5)).toMatchObject({ moved: 0, state: 'learning' })
  })

  it('says when it will be ready, as far as that is known', () => {
    const told = (device: Device, hours: number, model: Partial<ScopeReport> | null = null) =>
      stateText({
        ...device,
        novelShare: recentNovelShare(device),
        model: model as ScopeReport | null,
        forecast: forecastOf(device, settings(), model as ScopeReport | null, hours * HOUR),
      })
    expect(told(lived(60, 6, 1e9), 6)).toBe('learning: 60 of about 190 flows, ready in about 18 hours')
    // by then it would have too few: it is judged after judgeHours
    expect(told(lived(12, 6, 1e9), 6)).toBe('learning: 12 of about 190 flows, ready in about 2 days')
    expect(told(lived(1, 0, 1e9), 0)).toBe('learning: 1 of about 190 flows, ready in about 24 hours')
    expect(told(lived(300, 23.8, 1e9), 23.8)).toBe('learning: 300 of about 300 flows, ready within the hour')
    expect(told(lived(4000, 25, 5), 25)).toMatch(
      /^learning: 4,000 of about \S+ flows, too many .* \(2\d %\)$/,
    )
    expect(told(lived(400, 25, 1000), 25)).toBe('ready')
    const own = { owner: macOf(1), state: 'learning', rows: 60, rowsNeeded: 100, proving: null } as const
    // as many again prove the model
    expect(told(lived(60, 6, 1e9), 6, own)).toBe('learning: 60 of about 200 flows, ready in about 18 hours')
    const proving = { state: 'open', flows: 20, needed: 100, novel: 0 } as const
    expect(told(lived(120, 12, 2), 12, { ...own, proving })).toBe(
      'learning: 120 of about 200 flows, ready in about 12 hours',
    )
    expect(told(lived(60, 6, 1e9), 6, { ...own, owner: 'cameras' })).toBe(
      'learning: 60 flows, ready in about 2 days',
    )
    // of one that scanned, whose flows are no rows
    expect(told(lived(300, 6, 1e9), 6, { ...own, rows: 1 })).toBe(
      'learning: 300 flows, ready in about 2 days',
    )
    expect(told(lived(60, 6, 1e9), 6, { ...own, state: 'waiting' })).toMatch(/waiting for memory/)
  })

  it('has the share of its recent verdicts that were novel', () => {
    // what is told is without the 1 that it begins at
    expect(recentNovelShare(lived(0, 1, 1))).toBe(null)
    expect(recentNovelShare(lived(1, 1, 1e9))).toBe(0)
    expect(recentNovelShare(lived(1, 1, 1))).toBe(1)
    for (const flows of [2, 10, 64, 1000]) {
      expect(recentNovelShare(lived(flows, 1, 1e9))).toBeCloseTo(0, 9)
      expect(recentNovelShare(lived(flows, 1, 1))).toBeCloseTo(1, 9)
    }
    expect(lived(4000, 25, 5).novelShare).toBeCloseTo(0.2, 1)
    expect(lived(4000, 25, 1).novelShare).toBe(1)
    expect(lived(4000, 25, 1e9).novelShare).toBeLessThan(1e-6)
  })

  it('says whether its address was made up', () => {
    const table = new DeviceTable(settings())
    expect(table.add('da:a1:19:00:00:01', '192.0.2.1', 0)?.randomised).toBe(true)
    expect(table.add('b8:27:eb:00:00:01', '192.0.2.1', 0)?.randomised).toBe(false)
    expect(table.add('192.0.2.1', '192.0.2.1', 0)?.randomised).toBe(false)
  })
})

describe("a person's word", () => {
  it('moves a device, and is refused where it makes no sense', () => {
    const table = new DeviceTable(settings())
    table.add(macOf(1), '192.0.2.1', 0)
    const states: (string | undefined)[] = []
    const act = (action: (typeof DEVICE_ACTIONS)[number]): string | null => {
      const refused = table.act(action, macOf(1))
      states.push(table.get(macOf(1))?.state)
      return refused
    }
    expect(act('resume')).toMatch(/is not paused/)
    expect(act('approve')).toBeNull()
    expect(act('approve')).toMatch(/is approved already/)
    expect(act('pause')).toBeNull()
    expect(act('pause')).toMatch(/is paused already/)
    expect(act('approve')).toMatch(/is approved already/)
    expect(act('resume')).toBeNull()
    expect(act('forget')).toBeNull()
    expect(act('forget')).toMatch(/there is no device/)
    expect(states).toEqual([
      'learning',
      'watching',
      'watching',
      'paused',
      'paused',
      'paused',
      'watching',
      undefined,
      undefined,
    ])
    expect(table.changes).toBe(4)
  })
})

describe("a person's name and group", () => {
  const called = (name: string, source: 'dhcp' | 'person') => ({ name, source }) as const

  it('stand against what the device calls itself, are kept, and are refused with control characters', () => {
    const table = new DeviceTable(settings())
    const device = table.add(macOf(1), '192.0.2.1', 0)!
    device.name = called('ESP_1F', 'dhcp')
    expect(table.act('name', macOf(1), '  Camera in the\u00a0hall ')).toBe(null)
    expect(table.act('group', macOf(1), 'cameras')).toBe(null)
    expect(device).toMatchObject({ name: called('Camera in the hall', 'person'), group: 'cameras' })
    expect(countsLess(called('ESP_1F', 'dhcp'), device.name)).toBe(true)
    for (const text of ['\u001b[2Jx', 'a\nb', '\u202ex', 'x'.repeat(64), ' '])
      for (const action of ['name', 'group'] as const)
        expect(table.act(action, macOf(1), text)).toMatch(/expected at most 63 printable characters/)
    const changes = table.changes
    expect(decodeDevices(JSON.parse(JSON.stringify(encodeDevices(table.all()))))).toEqual([device])
    expect(table.act('name', macOf(1))).toBe(null)
    expect(table.act('group', macOf(1))).toBe(null)
    expect(device).toMatchObject({ name: null, group: null })
    expect(table.changes).toBe(changes + 2)
    device.name = called('ESP_1F', 'dhcp')
    table.act('name', macOf(1))
    expect(device.name).toEqual(called('ESP_1F', 'dhcp'))
  })

  it('keep a learning device in the table while made-up addresses come', () => {
    const table = new DeviceTable(settings({ maximum: 4 }))
    for (let i = 0; i < 4; i++) table.add(macOf(i), '192.0.2.1', 0)
    table.act('name', macOf(1), 'Camera')
    table.act('group', macOf(2), 'cameras')
    for (let i = 4; i < 100; i++) table.add(macOf(i), '192.0.2.2', 1)
    expect([...table.all()].map(({ key }) => key)).toEqual(expect.arrayContaining([macOf(1), macOf(2)]))
  })
})

describe('a table', () => {
  it('never holds more than it may, counts what went, and keeps those that a person spoke about', () => {
    const step = fc.tuple(
      fc.integer({ min: 0, max: 30 }),
      fc.constantFrom('flow', 'flow', 'flow', 'approve', 'pause'),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.integer({ min: 1, max: 8 }), (steps, maximum) => {
        const table = new DeviceTable(settings({ maximum }))
        const spoken = new Set<string>()
        let added = 0
        for (const [at, [n, what]] of steps.entries()) {
          const key = macOf(n)
          if (what === 'flow') {
            let device = table.get(key)
            if (device === undefined) {
              device = table.add(key, '192.0.2.1', at)
              if (device !== undefined) added++
            }
            if (device !== undefined) table.note(device, false, at, true)
          } else if (table.act(what as 'approve' | 'pause', key) === null) spoken.add(key)
          expect(table.size).toBeLessThanOrEqual(maximum)
        }
        for (const key of spoken) expect(table.get(key)).toBeDefined()
        expect(added - table.evicted).toBe(table.size)
      }),
    )
  })

  it('puts out the device that comes first by the rules, whatever devices did before', () => {
    const DAY = 24 * HOUR
    const rank = (device: Device, now: number): number => {
      const isEstablished = !device.randomised && device.lastSeenMicros - device.firstSeenMicros >= HOUR
      const idle = now - device.lastSeenMicros
      return isEstablished ? (idle >= 7 * DAY ? 2 : 3) : idle >= DAY ? 0 : 1
    }
    const orderOf = (device: Device, now: number): number[] => {
      const of = rank(device, now)
      return of === 0 || of === 2
        ? [of, device.lastSeenMicros]
        : [of, device.randomised ? 0 : 1, device.flows, -device.firstSeenMicros]
    }
    const isBefore = (a: number[], b: number[]): boolean => {
      const at = a.findIndex((each, i) => each !== b[i])
      return at >= 0 && a[at] < b[at]
    }
    const step = fc.record({
      n: fc.integer({ min: 0, max: 40 }),
      // each of these is at least the time after which the order is made afresh
      pauseMicros: fc.constantFrom(HOUR / 60, HOUR / 2, HOUR, 9 * HOUR, 30 * HOUR, 8 * DAY),
      flows: fc.integer({ min: 1, max: 4 }),
      what: fc.constantFrom('flow', 'flow', 'flow', 'flow', 'approve', 'relearn', 'forget', 'clock'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.integer({ min: 2, max: 8 }), (steps, maximum) => {
        let now = 0
        const gone: string[] = []
        const table = new DeviceTable(
          settings({ maximum, learnHours: 1e6 }),
          [],
          () => null,
          (key) => gone.push(key),
        )
        for (const { n, pauseMicros, flows, what } of steps) {
          now += pauseMicros
          const key = `${n % 2 === 0 ? '00' : '02'}:00:00:00:00:${n.toString(16).padStart(2, '0')}`
          if (what === 'clock') {
            table.clockSet(5 * HOUR)
            now += 5 * HOUR
          } else if (what !== 'flow') table.act(what as 'approve' | 'relearn' | 'forget', key)
          else {
            const before = [...table.all()]
              .filter(({ state }) => state === 'learning')
              .map((device) => ({ key: device.key, order: orderOf(device, now) }))
            const device = table.get(key) ?? table.add(key, '192.0.2.1', now)
            const victim = gone.pop()
            const least = before.find(({ key }) => key === victim)?.order
            if (victim !== undefined)
              for (const other of before) expect(isBefore(other.order, least as number[])).toBe(false)
            if (device !== undefined) for (let i = 0; i < flows; i++) table.note(device, false, now + i, true)
          }
        }
      }),
      { numRuns: 300 },
    )
  })

  it('looks at a few devices for each that goes in a flood, not at all of them', () => {
    let looks = 0
    const table = new DeviceTable(settings())
    for (let n = 0; n < 4096; n++) table.add(macOf(n), '192.0.2.1', n)
    for (const device of table.all()) {
      const { lastSeenMicros } = device
      Object.defineProperty(device, 'lastSeenMicros', {
        get: () => {
          looks++
          return lastSeenMicros
        },
      })
    }
    for (let n = 10_000; n < 20_000; n++) table.add(macOf(n), '192.0.2.2', n)
    expect(table.evicted).toBe(10_000)
    // a scan for each new device would be 41 million
    expect(looks).toBeLessThan(1_000_000)
  })

  it('is not emptied of its devices by a hundred thousand made-up ones', () => {
    const table = new DeviceTable(settings({ maximum: 256 }))
    for (let n = 0; n < 40; n++) {
      const device = table.add(macOf(n), '192.0.2.1', 0)!
      for (let i = 0; i < 5; i++) table.note(device, false, i, true)
    }
    for (let n = 1000; n < 101_000; n++) table.note(table.add(macOf(n), '192.0.2.2', n)!, true, n, true)
    for (let n = 0; n < 40; n++) expect(table.get(macOf(n))?.flows).toBe(5)
    expect(table).toMatchObject({ size: 256, evicted: 100_040 - 256, refused: 0 })
  })

  /** As makers give them, and with the bit of those that are made up. */
  const privateMac = (n: number): string => `02${macOf(n).slice(2)}`
  const seen = (table: DeviceTable, key: string, ...times: number[]): void => {
    for (const at of times) {
      const device = table.get(key) ?? table.add(key, '192.0.2.1', at)
      if (device !== undefined) table.note(device, false, at, true)
    }
  }

  it.each([
    ['made-up', privateMac],
    ['likely', (n: number) => macOf(n)],
  ])('keeps slow devices in a flood of %s addresses, of one flow and of many', (_, addressOf) => {
    for (const flowsOfFlood of [1, 20]) {
      const table = new DeviceTable(settings({ maximum: 64 }))
      // one came this morning and once more since, one was just here for the first time
      seen(table, macOf(1), 0, 3 * HOUR)
      seen(table, macOf(2), 6 * HOUR)
      for (let n = 1000; n < 5000; n++) {
        seen(table, addressOf(n), ...Array.from({ length: flowsOfFlood }, (_, i) => 6 * HOUR + 10 * n + i))
      }
      expect(table.get(macOf(1))?.flows).toBe(2)
      if (flowsOfFlood === 1 || addressOf === privateMac) expect(table.get(macOf(2))?.flows).toBe(1)
      expect(table.size).toBe(64)
    }
  })

  it('keeps nothing of the devices that went in a flood', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const heapBytes = (): number => {
      collect()
      return process.memoryUsage().heapUsed
    }
    const table = new DeviceTable(settings({ maximum: 8 }))
    const before = heapBytes()
    // within the minute after which the order is made afresh
    for (let n = 0; n < 20_000; n++) seen(table, macOf(n), n)
    const grownBytes = heapBytes() - before
    expect(table.evicted).toBe(20_000 - 8)
    // a device takes some 800
    expect(grownBytes).toBeLessThan(20_000 * 100)
  })

  it('lets those go first that came once a day ago, and those of a week before others that are established', () => {
    const table = new DeviceTable(settings({ maximum: 4 }))
    seen(table, macOf(1), 0, 2 * HOUR)
    seen(table, macOf(2), 0)
    seen(table, macOf(3), 0, 25 * HOUR)
    seen(table, macOf(4), 25 * HOUR)
    seen(table, macOf(5), 26 * HOUR)
    expect([1, 2, 3, 4, 5].map((n) => table.get(macOf(n)) !== undefined)).toEqual([
      true,
      false,
      true,
      true,
      true,
    ])
    seen(table, macOf(4), 200 * HOUR)
    seen(table, macOf(5), 200 * HOUR)
    seen(table, macOf(3), 200 * HOUR)
    seen(table, macOf(6), 200 * HOUR)
    expect([1, 3, 4, 5, 6].map((n) => table.get(macOf(n)) !== undefined)).toEqual([
      false,
      true,
      true,
      true,
      true,
    ])
  })

  it('never watches a made-up address that came once, however long ago that was', () => {
    const table = new DeviceTable(settings({ approve: 'auto' }), [], () => true)
    seen(table, macOf(1), 0)
    seen(table, macOf(2), 0, 25 * HOUR)
    expect(table.judge(100 * HOUR).map(({ key }) => key)).toEqual([])
    expect(table.byState()).toMatchObject({ learning: 1, watching: 1 })
  })

  it('says which devices went for new ones', () => {
    const gone: string[] = []
    const table = new DeviceTable(settings({ maximum: 2 }), [], undefined, (key) => gone.push(key))
    for (const n of [1, 2, 3, 4]) seen(table, macOf(n), n)
    expect(gone).toEqual([macOf(2), macOf(3)])
  })

  it('takes no new device where every one is spoken about', () => {
    const table = new DeviceTable(settings({ maximum: 1 }))
    table.add(macOf(1), '192.0.2.1', 0)
    table.act('approve', macOf(1))
    expect(table.add(macOf(2), '192.0.2.2', 1)).toBeUndefined()
    expect(table).toMatchObject({ size: 1, evicted: 0, refused: 1 })
  })

  it('comes back from JSON as it was', () => {
    const table = new DeviceTable(settings())
    for (let n = 0; n < 5; n++) {
      const device = table.add(macOf(n), `2001:db8::${n}`, n)!
      for (let i = 0; i < n; i++) table.note(device, i % 2 === 0, 100 * n + i, true)
    }
    table.act('pause', macOf(3))
    const back = decodeDevices(JSON.parse(JSON.stringify(encodeDevices(table.all()))))
    expect(back).toEqual([...table.all()])
    expect([...new DeviceTable(settings(), back).all()]).toEqual(back)
    expect(new DeviceTable(settings({ maximum: 2 }), back).size).toBe(2)
  })

  it.each([
    [null, 'kind'],
    [{ kind: 'oddflow-devices', version: 9, devices: [] }, 'version'],
    [{ kind: 'oddflow-devices', version: 1, devices: {} }, 'devices'],
    [{ kind: 'oddflow-devices', version: 1, devices: [null] }, 'devices\\.0'],
  ])('is refused: %j', (value, field) => {
    expect(() => decodeDevices(value)).toThrow(FormatError)
    expect(() => decodeDevices(value)).toThrow(new RegExp(`devices: ${field}: .*expected`, 'i'))
  })

  it('is refused by each field that is none', () => {
    const good = encodeDevices(
      (() => {
        const table = new DeviceTable(settings())
        table.add(macOf(1), '192.0.2.1', 5)
        return table.all()
      })(),
    ) as { devices: object[] }
    for (const bad of [
      { key: '\u001b[2J' },
      { key: 7 },
      { address: '<b>' },
      { state: 'dead' },
      { firstSeenMicros: 'now' },
      { flows: -1 },
      { novel: 3 },
      { novelShare: 2 },
      { novelShare: null },
    ]) {
      const value = { ...good, devices: [{ ...good.devices[0], ...bad }] }
      expect(() => decodeDevices(value), JSON.stringify(bad)).toThrow(FormatError)
    }
    expect(() => decodeDevices({ ...good, devices: [good.devices[0], good.devices[0]] })).toThrow(
      /each key once/,
    )
  })
})

describe('a flood of new devices', () => {
  it('is one alert, until it is over', () => {
    const flood = createDeviceFlood(3)
    const worth = (seconds: number): string => flood.take(seconds * 1_000_000)
    expect([0, 1, 2, 3, 4].map(worth)).toEqual(['device', 'device', 'device', 'flood', 'none'])
    // it goes on into the next minute
    expect([60, 61, 62, 63, 64].map(worth)).toEqual(['none', 'none', 'none', 'none', 'none'])
    // two in a minute are none, but the flood was still on when it began
    expect([120, 121].map(worth)).toEqual(['none', 'none'])
    expect([180, 181, 182, 183].map(worth)).toEqual(['device', 'device', 'device', 'flood'])
    expect(worth(900)).toBe('device')
    expect(flood.untold).toBe(10)
    // set back by an hour
    expect(worth(-2700)).toBe('device')
  })
})

it('an address is noted where it says as much as the one that is known', () => {
  const seen = (...addresses: string[]): string => {
    const device = createDevice('02:00:00:00:00:01', addresses[0]!, 1)
    for (const address of addresses.slice(1)) noteAddress(device, address)
    return device.address
  }
  for (const none of ['0.0.0.0', '::', '224.0.0.251', '239.255.255.250', '255.255.255.255', 'ff02::fb']) {
    expect(seen('192.168.7.5', none)).toBe('192.168.7.5')
    expect(seen('169.254.3.4', none)).toBe('169.254.3.4')
    expect(seen(none, '169.254.3.4')).toBe('169.254.3.4')
    expect(seen(none, '192.168.7.5')).toBe('192.168.7.5')
  }
  for (const local of ['169.254.3.4', 'fe80::1']) {
    expect(seen('192.168.7.5', local)).toBe('192.168.7.5')
    expect(seen(local, '192.168.7.5')).toBe('192.168.7.5')
    expect(seen(local, 'fd00::5')).toBe('fd00::5')
  }
  expect(seen('fe80::1', '169.254.3.4')).toBe('169.254.3.4')
  expect(seen('192.168.7.5', '192.168.7.6', '2001:db8::6')).toBe('2001:db8::6')
})
