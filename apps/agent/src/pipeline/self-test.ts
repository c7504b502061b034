/**
 * SelfTest: every few minutes, a synthetic attack of each watched device passes through a separate decoder, flow table and alert
 * pipeline. The active models are asked by `peek`, which counts nothing, so no counter, training, evidence or output has it.
 *
 * For each model the first kind that is flagged in all of TRIES is used, from the cheapest on, at a middling size and then at the
 * largest. A model that notices no kind is reported once. Bounded: one test at a time, with pauses, and flow tables of FLOW_BYTES.
 */
import { parseIpv4, parseIpv6, parseMac } from '@oddflow/capture'
import { createRng } from '@oddflow/core'
import type { FlowRecord } from '@oddflow/flows'
import {
  createMadeBatches,
  createPacketMaker,
  DEFAULT_SITE,
  deviceKeyOf,
  MADE_ATTACKS,
  type MadeAttack,
  type MadeAttackName,
  type MadeHost,
  type MadeSite,
  type ModelFile,
  type Network,
} from '@oddflow/program'
import { createAlertPipeline } from '../alerts/alert-pipeline.js'
import { type AlertExplainer, createAlertExplainer } from '../alerts/eve.js'
import { createSuppression } from '../alerts/suppress.js'
import { modelThresholds } from '../budget/thresholds.js'
import type { Clock } from '../input/clocks.js'
import { createLossHistory } from './conditions.js'
import { createModelDecider, type Decider } from './counters.js'
import { createWatcher, type Watcher } from './watcher.js'

export interface SelfTestOptions {
  readonly decider: Decider
  readonly explain: AlertExplainer
  readonly localNetworks: readonly Network[]
  /** As of the real ones. */
  readonly dropDuplicates: boolean
  /** Devices whose alerts are given; null where devices are not kept, and one model judges all. */
  readonly watched: () => Iterable<TestedDevice> | null
  readonly clock: Pick<Clock, 'sleep'>
  readonly stop: AbortSignal
  /** Why a device's attack is not flagged; null where all are. */
  readonly onResult: (reason: string | null) => void
  /** A model notices none of the kinds; once for each. */
  readonly onBlind: (warning: string) => void
}

export interface TestedDevice {
  readonly key: string
  readonly address: string
}

export interface SelfTestCounts {
  readonly flagged: number
  readonly missed: number
  /** Devices that could not be tested since their model notices none of the kinds. */
  readonly notNoticed: number
}

interface Sized {
  readonly attack: MadeAttack
  readonly size: number
}

/** The cheapest first, at a size that most models notice. */
const MIDDLING: readonly (readonly [MadeAttackName, number])[] = [
  ['dns-tunnel', 200],
  ['host-scan', 100],
  ['beacon', 10_000],
  ['port-scan', 100],
  ['password-guessing', 30],
  ['flood', 100],
  ['upload', 1_000_000],
  ['download', 1_000_000],
]
const TRIES = 3
/** Frames, or ends of flows, between two pauses. */
const SLICE = 64
const PAUSE_MILLIS = 5
/** Open flows of one test: the minimum of the real table (memory-plan.ts); unused places take no memory. */
const FLOW_BYTES = 2 * 1_048_576
/** 2026-01-01T00:00:00Z. Features know gaps alone, so the same attack at another hour has the same verdict; */
const START_MICROS = 1_767_225_600_000_000
/** at the same hour its packets would be copies of those of the test before. No attack takes so long. */
const HOUR_MICROS = 3_600_000_000

/** Thrown where the agent is to stop. */
const STOPPED = Symbol('stopped')

export class SelfTest {
  readonly #options: SelfTestOptions
  readonly #rng = createRng(1).fork('self-test')
  readonly #counts = { flagged: 0, missed: 0, notNoticed: 0 }
  /** By what decides (#placeOf); null: it notices none of the kinds. */
  readonly #noticed = new Map<string, Sized | null>()
  readonly #warnings = new Map<string, string>()
  /** Devices of which an attack was flagged, since they are watched. */
  readonly #tested = new Set<string>()
  readonly #missed = new Map<string, string>()
  /** By the agent's stop, or the end of its input. */
  readonly #ending = new AbortController()
  #isRunning = false
  #probe: Probe | null = null
  #tests = 0

  constructor(options: SelfTestOptions) {
    this.#options = options
    if (options.stop.aborted) this.end()
    else options.stop.addEventListener('abort', this.end, { once: true })
  }

  get counts(): SelfTestCounts {
    return { ...this.#counts }
  }

  /** Of the models that notice none of the kinds. */
  get warnings(): readonly string[] {
    return [...this.#warnings.values()]
  }

  /** The run is over: nothing more is tested or told. */
  readonly end = (): void => this.#ending.abort()

  /** Tests every watched device that has a model. Does nothing while a round is under way. Never rejects. */
  async round(): Promise<void> {
    if (this.#isRunning || this.#ending.signal.aborted) return
    this.#isRunning = true
    try {
      await this.#testAll()
    } finally {
      this.#isRunning = false
    }
  }

  async #testAll(): Promise<void> {
    const devices = this.#options.watched()
    const targets = devices === null ? [null] : [...devices]
    this.#forgetOthers(targets)
    for (const device of targets) {
      try {
        await this.#test(device)
      } catch (error) {
        if (error === STOPPED) return
        // its flow table may be in any state; real frames would end the agent in the same way
        this.#probe = null
        const why = error instanceof Error ? error.message : error
        this.#noteMissed(device?.key ?? '', `a synthetic attack fails: ${why}`)
      }
      this.#report()
    }
    this.#report()
  }

  async #test(device: TestedDevice | null): Promise<void> {
    const key = device?.key ?? ''
    const place = this.#placeOf(device)
    if (place === null) {
      this.#missed.delete(key)
      return
    }
    const model = modelIn(place)
    let sized = this.#noticed.get(place)
    if (sized === undefined) {
      sized = await this.#findNoticed(device)
      // another model may have come into force meanwhile
      if (this.#placeOf(device) !== place) return
      this.#noticed.set(place, sized)
    }
    if (sized === null) {
      // where hosts for tests are local and the device is not, no made flow is the device's
      if (this.#probe?.isOfDevice === true) this.#noteBlind(model, key)
      return
    }
    const isFlagged = await this.#isFlagged(sized, device, 0)
    if (this.#placeOf(device) !== place) return
    if (isFlagged) {
      this.#counts.flagged++
      this.#tested.add(key)
      this.#missed.delete(key)
    } else {
      const { attack, size } = sized
      const what = `${attack.title}, ${size} ${attack.unit}`
      this.#noteMissed(key, `a synthetic attack (${what}) is not flagged by model ${model}`)
    }
  }

  /** The first attack that a device's model flags in all tries. */
  async #findNoticed(device: TestedDevice | null): Promise<Sized | null> {
    for (const sized of ATTACKS) {
      let turn = 0
      while (turn < TRIES && (await this.#isFlagged(sized, device, turn))) turn++
      if (turn === TRIES) return sized
    }
    return null
  }

  /** Whether an alert comes of an attack. */
  async #isFlagged({ attack, size }: Sized, device: TestedDevice | null, turn: number): Promise<boolean> {
    this.#probe ??= new Probe(this.#options)
    const probe = this.#probe
    probe.begin(device)
    const site = siteOf(device)
    const maker = createPacketMaker({ micros: START_MICROS + HOUR_MICROS * this.#tests++ })
    const frames = attack.frames(size, site, this.#rng.fork(`${attack.name} ${turn}`), maker)
    for (const batch of createMadeBatches(SLICE, site.routerMac !== null)(frames)) {
      probe.watcher.add(batch)
      // a scan is known by its first flows
      if (probe.alerts > 0) break
      await this.#pause()
    }
    while (probe.watcher.endCapture(SLICE)) await this.#pause()
    return probe.alerts > 0
  }

  async #pause(): Promise<void> {
    const { signal } = this.#ending
    await this.#options.clock.sleep(PAUSE_MILLIS, signal)
    if (signal.aborted) throw STOPPED
  }

  /** What decides on a device's synthetic attacks; a budget may change the threshold. null where there is no model yet. */
  #placeOf(device: TestedDevice | null): string | null {
    const inForce = this.#options.decider.modelOf(device?.key ?? '')
    if (inForce === null) return null
    // another IP version makes other sizes
    return `${inForce.model}/${inForce.threshold}/${siteOf(device).device.address.length}`
  }

  #noteMissed(key: string, why: string): void {
    this.#counts.missed++
    this.#missed.set(key, why)
  }

  #noteBlind(model: string, key: string): void {
    this.#counts.notNoticed++
    if (this.#tested.has(key)) {
      this.#noteMissed(key, `model ${model} notices no synthetic attack, though one was flagged before`)
      return
    }
    if (this.#warnings.has(model)) return
    const warning = `model ${model}${key === '' ? '' : ` (device ${key})`} notices no synthetic attack of any kind, so it may miss real ones too; train it with more traffic`
    this.#warnings.set(model, warning)
    this.#options.onBlind(warning)
  }

  /** Forgets devices that are not watched any more, and models and thresholds that decide on none. */
  #forgetOthers(devices: readonly (TestedDevice | null)[]): void {
    const keys = new Set(devices.map((device) => device?.key ?? ''))
    const places = new Set(devices.map((device) => this.#placeOf(device) ?? ''))
    const models = new Set([...places].map(modelIn))
    const keep = (of: Map<string, unknown> | Set<string>, kept: ReadonlySet<string>): void => {
      for (const name of of.keys()) if (!kept.has(name)) of.delete(name)
    }
    keep(this.#tested, keys)
    keep(this.#missed, keys)
    keep(this.#noticed, places)
    keep(this.#warnings, models)
  }

  #report(): void {
    const [first] = this.#missed
    if (first === undefined) {
      this.#options.onResult(null)
      return
    }
    const [key, why] = first
    const others = this.#missed.size === 1 ? '' : `; ${this.#missed.size - 1} more devices failed too`
    this.#options.onResult(`${key === '' ? '' : `device ${key}: `}${why}${others}`)
  }
}

function modelIn(place: string): string {
  return place.slice(0, place.indexOf('/'))
}

/** A separate pipeline, from frames to alerts. */
class Probe {
  readonly watcher: Watcher
  /** Of the test. */
  alerts = 0
  /** Some flow of the test was the device's. */
  isOfDevice = false
  #device: TestedDevice | null = null

  constructor({ decider, explain, localNetworks, dropDuplicates }: SelfTestOptions) {
    const append = (): boolean => ++this.alerts > 0
    const path = createAlertPipeline({
      context: { localNetworks },
      suppression: createSuppression([]),
      incidents: null,
      answers: null,
      fold: null,
      log: { append },
      interfaceName: null,
      dimension: decider.contract.dimension,
      explain,
      rarity: decider.rarity,
      model: { model: null, threshold: null },
      lostPackets: () => 0,
      losses: createLossHistory(),
    })
    /** A flow between two hosts of the network may be another device's. */
    const isOf = (record: FlowRecord): boolean =>
      this.#device === null || deviceKeyOf(record, localNetworks) === this.#device.key
    this.watcher = createWatcher({
      decider: { ...decider, decide: decider.peek },
      filter: null,
      dropDuplicates,
      memoryBytes: FLOW_BYTES,
      hashSeed: 0,
      onVerdict: (record) => {
        this.isOfDevice ||= isOf(record)
      },
      onNovel: (record, verdict) => {
        // one alert will do
        if (this.alerts === 0 && isOf(record)) path.raise(record, verdict)
      },
    })
  }

  begin(device: TestedDevice | null): void {
    this.alerts = 0
    this.isOfDevice = false
    this.#device = device
  }
}

const ATTACKS: readonly Sized[] = [
  ...MIDDLING.map(([name, size]) => ({ attack: attackNamed(name), size })),
  ...MIDDLING.map(([name]) => ({ attack: attackNamed(name), size: attackNamed(name).highest })),
]

function attackNamed(name: MadeAttackName): MadeAttack {
  return MADE_ATTACKS.find((attack) => attack.name === name) as MadeAttack
}

/** A home network around a device; the usual device where none is known. */
function siteOf(device: TestedDevice | null): MadeSite {
  if (device === null) return DEFAULT_SITE
  const mac = parseMac(device.key)
  const address = addressBytes(device.address)
  const { neighbour, resolver } = DEFAULT_SITE
  /** Of the device's IP version, and with a link layer where that has one. */
  const beside = (host: MadeHost): MadeHost => ({
    ...host,
    mac: mac === null ? null : host.mac,
    address: address.length === 4 ? host.address : uniqueLocal(host.address[3] ?? 0),
  })
  return {
    ...DEFAULT_SITE,
    device: { address, mac, hopLimit: 64 },
    neighbour: beside(neighbour),
    resolver: beside(resolver),
    routerMac: mac === null ? null : DEFAULT_SITE.routerMac,
  }
}

/** 4 bytes, or 16. */
function addressBytes(text: string): Uint8Array {
  const v4 = parseIpv4(text)
  const words = v4 === null ? (parseIpv6(text) ?? new Uint32Array(4)) : Uint32Array.of(v4)
  return Uint8Array.from(
    { length: 4 * words.length },
    (_, i) => (words[i >> 2] as number) >>> (24 - 8 * (i & 3)),
  )
}

/** fd00::END (RFC 4193). */
function uniqueLocal(end: number): Uint8Array {
  const address = new Uint8Array(16)
  address[0] = 0xfd
  address[15] = end
  return address
}

/** Tests a model with synthetic attacks: why it is unusable; null if it flags one, or on a stop. */
export async function missedAttacks(
  { saved, sha256 }: ModelFile,
  settings: { readonly localNetworks: readonly Network[]; readonly dropDuplicates: boolean },
  clock: Pick<Clock, 'sleep'>,
  stop: AbortSignal,
): Promise<string | null> {
  const { localNetworks, dropDuplicates } = settings
  const test = new SelfTest({
    decider: createModelDecider(saved, sha256.slice(0, 16), modelThresholds(saved), localNetworks),
    explain: createAlertExplainer(saved),
    localNetworks,
    dropDuplicates,
    watched: () => null,
    clock,
    stop,
    onResult: () => undefined,
    onBlind: () => undefined,
  })
  await test.round()
  if (stop.aborted || test.counts.flagged > 0) return null
  return 'notices no synthetic attack of any kind (the self-test)'
}
