/** Synthetic attacks of watched devices: flagged, missed, not noticed, and of no influence on what is real. */
import { parseIpv4 } from '@oddflow/capture'
import { createRng } from '@oddflow/core'
import type { SavedModel } from '@oddflow/detectors'
import type { FlowRecord } from '@oddflow/flows'
import {
  createMadeBatches,
  createPacketMaker,
  DEFAULT_SITE,
  isInNetwork,
  MADE_ATTACKS,
  parseNetwork,
} from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { explainNothing } from '../../src/alerts/eve.js'
import type { AgentVerdict, Decider } from '../../src/pipeline/counters.js'
import { SelfTest, type SelfTestOptions, type TestedDevice } from '../../src/pipeline/self-test.js'
import { createWatcher } from '../../src/pipeline/watcher.js'
import { iatSizeContract } from '../support/rows.js'

const contract = iatSizeContract(3)
const PLUG: TestedDevice = { key: '02:50:00:00:00:16', address: '192.168.7.16' }
const HOME = ['192.168.0.0/16', 'fe80::/10', 'fc00::/7'].map(parseNetwork)

/** One model for all; `isNovel` is its word on rows. */
function made(changes: Partial<SelfTestOptions> = {}) {
  const model = {
    id: 'aaaa' as string | null,
    threshold: 0,
    isNovel: (row: Float64Array): boolean => row[1]! > 60,
  }
  const row = new Float64Array(contract.dimension)
  const peek = (record: FlowRecord): AgentVerdict => {
    if (record.row === null || model.id === null)
      return { score: null, rule: 'not-judged', novel: false, threshold: null, model: model.id }
    const novel = model.isNovel(record.row)
    return { score: novel ? -1 : 1, rule: 'score', novel, threshold: 0, model: model.id }
  }
  const decider: Decider = {
    contract,
    row,
    decide() {
      throw new Error('made traffic was counted')
    },
    peek,
    modelOf: () =>
      model.id === null
        ? null
        : { model: model.id, threshold: model.threshold, saved: undefined as unknown as SavedModel },
    rarity: () => null,
  }
  const results: (string | null)[] = []
  const blind: string[] = []
  const watched = new Set([PLUG])
  const test = new SelfTest({
    decider,
    explain: explainNothing,
    localNetworks: HOME,
    dropDuplicates: true,
    watched: () => watched,
    clock: { sleep: async () => undefined },
    stop: new AbortController().signal,
    onResult: (reason) => results.push(reason),
    onBlind: (warning) => blind.push(warning),
    ...changes,
  })
  return { test, model, watched, results, blind, decider }
}

describe('a synthetic attack', () => {
  it.each([true, false])(
    'is flagged by a model that notices its kind, and nothing is told (copies dropped: %s)',
    async (dropDuplicates) => {
      const { test, results, blind } = made({ dropDuplicates })
      await test.round()
      await test.round()
      expect(new Set(results)).toEqual(new Set([null]))
      expect(test.counts).toEqual({ flagged: 2, missed: 0, notNoticed: 0 })
      expect([blind, test.warnings]).toEqual([[], []])
    },
  )

  it('that the same model no longer flags is reported, and its recovery too', async () => {
    const { test, model, results } = made()
    await test.round()
    const { isNovel } = model
    model.isNovel = () => false
    await test.round()
    expect(results.at(-1)).toMatch(
      /^device 02:50:00:00:00:16: a synthetic attack \(tunnel in DNS, 200 bytes of name\) is not flagged by model aaaa$/,
    )
    model.isNovel = isNovel
    await test.round()
    expect(results.at(-1)).toBeNull()
    expect(test.counts).toEqual({ flagged: 2, missed: 1, notNoticed: 0 })
  })

  it('is of a kind that the model notices: another model, another kind; a model that notices none after one that did is missed', async () => {
    const { test, model, results, blind } = made()
    await test.round()
    // bare SYNs alone
    model.id = 'bbbb'
    model.isNovel = (row) => row[1]! < 60
    await test.round()
    expect(results.at(-1)).toBeNull()
    model.id = 'cccc'
    model.isNovel = () => false
    await test.round()
    expect(results.at(-1)).toBe(
      'device 02:50:00:00:00:16: model cccc notices no synthetic attack, though one was flagged before',
    )
    model.id = 'bbbb'
    model.isNovel = (row) => row[1]! < 60
    await test.round()
    expect(results.at(-1)).toBeNull()
    expect(blind).toEqual([])
  })

  it('is chosen again where a budget has changed the threshold, and not where it has not', async () => {
    const { test, model, results } = made()
    await test.round()
    model.isNovel = (row) => row[1]! < 60
    await test.round()
    expect(results.at(-1)).toMatch(/a synthetic attack \(tunnel in DNS/)
    model.threshold = -1
    await test.round()
    expect(results.at(-1)).toBeNull()
    expect(test.counts).toEqual({ flagged: 2, missed: 1, notNoticed: 0 })
  })

  it('is not sent or reported after the end of the run', async () => {
    let left = 3
    const { test, model, results } = made({
      clock: {
        async sleep() {
          if (--left === 0) test.end()
        },
      },
    })
    model.isNovel = () => false
    await test.round()
    await test.round()
    expect(left).toBe(0)
    expect([results, test.counts]).toEqual([[], { flagged: 0, missed: 0, notNoticed: 0 }])
  })

  it('cannot be made for a model that has never noticed any, which is a warning, told once', async () => {
    const { test, model, results, blind } = made()
    model.isNovel = () => false
    await test.round()
    await test.round()
    expect(new Set(results)).toEqual(new Set([null]))
    expect(blind).toHaveLength(1)
    expect(blind[0]).toMatch(
      /^model aaaa \(device 02:50:00:00:00:16\) notices no synthetic attack of any kind/,
    )
    expect(test.warnings).toEqual(blind)
    expect(test.counts).toEqual({ flagged: 0, missed: 0, notNoticed: 2 })
    model.id = 'bbbb'
    model.isNovel = () => true
    await test.round()
    expect(test.warnings).toEqual([])
  })

  it('that ends in an error is missed: a real frame would end the agent', async () => {
    const { test, model, results } = made()
    model.isNovel = () => {
      throw new Error('a broken model')
    }
    await test.round()
    expect(results.at(-1)).toBe('device 02:50:00:00:00:16: a synthetic attack fails: a broken model')
  })

  it('is not made of a device without a model, of one that is not watched, nor after the end', async () => {
    const { test, model, watched } = made()
    model.id = null
    await test.round()
    model.id = 'aaaa'
    watched.clear()
    await test.round()
    expect(test.counts).toEqual({ flagged: 0, missed: 0, notNoticed: 0 })
    const ended = made({ stop: AbortSignal.abort() })
    await ended.test.round()
    expect([ended.results, ended.test.counts.flagged]).toEqual([[], 0])
  })

  it('is the device’s, whatever its address and the networks that are local', async () => {
    const address = fc.oneof(
      fc.ipV4(),
      fc.constantFrom('fe80::1', 'fd00::17', '2001:db8::1', '192.168.1.1', '198.18.0.9', '0.0.0.0', '::'),
    )
    const networks = fc.subarray(['192.168.0.0/16', '198.18.0.0/15', '0.0.0.0/0', '::/0', 'fe80::/10'])
    await fc.assert(
      fc.asyncProperty(address, networks, fc.boolean(), async (text, local, hasMac) => {
        const device = { key: hasMac ? '02:50:00:00:00:16' : text, address: text }
        const { test, results, blind } = made({
          watched: () => [device],
          localNetworks: local.map(parseNetwork),
        })
        await test.round()
        expect(results.at(-1)).toBeNull()
        // where the made hosts are local and the device is not, flows are theirs
        const word = parseIpv4(text)
        const isLocal = (network: string): boolean =>
          word !== null && isInNetwork(parseNetwork(network), [0, 0, 0, word], 4)
        const areLocal = ['198.18.0.0/15', '192.168.0.0/16'].every((network) => local.includes(network))
        const isOthers = word !== null && areLocal && !local.some(isLocal)
        expect(test.counts).toEqual({ flagged: isOthers ? 0 : 1, missed: 0, notNoticed: 0 })
        expect(blind).toEqual([])
      }),
      { numRuns: 30 },
    )
  })
})

describe('real flows', () => {
  it('are judged and counted the same with synthetic attacks in between, whatever is between what', async () => {
    /** Everything that comes of real traffic: four kinds of it from the usual device, a batch at a time. */
    const run = async (batchesBetween: number): Promise<unknown> => {
      const { decider, model } = made()
      const judged: string[] = []
      const counted: Decider = { ...decider, decide: decider.peek }
      const watcher = createWatcher({
        decider: counted,
        filter: null,
        memoryBytes: 1 << 20,
        hashSeed: 7,
        onNovel: ({ packets, startMicros, row }) =>
          judged.push(`novel ${packets} ${startMicros} ${row?.join()}`),
        onVerdict: ({ packets, startMicros, row }) => judged.push(`${packets} ${startMicros} ${row?.join()}`),
      })
      const frames = function* () {
        const maker = createPacketMaker({ micros: 1_700_000_000_000_000 })
        const rng = createRng(5)
        for (const attack of MADE_ATTACKS)
          yield* attack.frames(Math.min(60, attack.highest), DEFAULT_SITE, rng, maker)
      }
      const batches = createMadeBatches(16, true)(frames())[Symbol.iterator]()
      const add = (count: number): void => {
        for (let i = 0; i < count; i++) {
          const { done, value } = batches.next()
          if (done === true) return
          watcher.add(value)
        }
      }
      if (batchesBetween > 0) {
        const { test } = made({
          decider,
          clock: {
            async sleep() {
              add(batchesBetween)
            },
          },
        })
        for (let i = 0; i < 4; i++) {
          await test.round()
          model.id = `model ${i}`
        }
        expect(test.counts.flagged).toBe(4)
      }
      add(Number.POSITIVE_INFINITY)
      watcher.finish(Number.POSITIVE_INFINITY)
      expect(judged.length).toBeGreaterThan(100)
      return { judged, counts: watcher.counts, flows: watcher.flowCounters(), begun: watcher.flows }
    }
    const alone = await run(0)
    for (const between of [1, 3, 20]) expect(await run(between)).toEqual(alone)
  })
})
