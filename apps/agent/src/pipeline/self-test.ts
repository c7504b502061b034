/**
 * SelfTest: made attacks of every watched device, every few minutes, from frame to alert, as a smoke alarm is tested.
 *
 *     made frames → decoder → flow table → the verdict of the model in force → alert → an output that keeps nothing
 *
 * Tests have a decoder and a flow table of their own, made as the real ones are, and ask the very models that judge
 * real frames, by `peek`, which counts nothing. So a made attack is in no counter, training, evidence or real output.
 * Made hosts are of networks that are set aside for tests (made-attacks.ts).
 *
 * An attack must be one that the model is known to notice: when a model is first met, kinds are tried from the cheapest on,
 * each at a middling size and then at its largest, and the first that is flagged in all of TRIES is the model's. It is the same at
 * every test: same frames, same model, same verdict. A model that notices none of the kinds cannot be tested, which is told once.
 * Where the model before it noticed one, the device counts as missed.
 *
 * Bounded: one test at a time, a few frames at a time, other work in between, and flow tables of FLOW_BYTES.
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
  type Network,
} from '@oddflow/program'
import { createAlertPipeline } from '../alerts/alert-pipeline.js'
import type { AlertExplainer } from '../alerts/eve.js'
import { createSuppression } from '../alerts/suppress.js'
import type { Clock } from '../input/clocks.js'
import { createLossHistory } from './conditions.js'
import type { Decider } from './counters.js'
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

interface SelfTest {
  /** Tests every watched device that has a model. Does nothing while a round is under way. Never rejects. */
  round(): Promise<void>
  /** The run is over: nothing more is tested or told. */
  end(): void
  readonly counts: SelfTestCounts
  /** Of the models that notice none of the kinds. */
  readonly warnings: readonly string[]
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
/** Of the open flows of one test: the least that the real table has (memory-plan.ts); what is not used takes no memory. */
const FLOW_BYTES = 2 * 1_048_576
/** 2026-01-01T00:00:00Z. Features know gaps alone, so the same attack at another hour has the same verdict; */
const START_MICROS = 1_767_225_600_000_000
/** at the same hour its packets would be copies of those of the test before. No attack takes so long. */
const HOUR_MICROS = 3_600_000_000

export function createSelfTest(options: SelfTestOptions): SelfTest {
  const { decider } = options
  const rng = createRng(1).fork('self-test')
  const counts = { flagged: 0, missed: 0, notNoticed: 0 }
  /** By what decides (placeOf); null: it notices none of the kinds. */
  const noticed = new Map<string, Sized | null>()
  const warnings = new Map<string, string>()
  /** Devices of which an attack was flagged, since they are watched. */
  const tested = new Set<string>()
  const missed = new Map<string, string>()
  let isRunning = false
  /** By the agent's stop, or the end of its input. */
  const ending = new AbortController()
  const end = (): void => ending.abort()
  if (options.stop.aborted) end()
  else options.stop.addEventListener('abort', end, { once: true })

  let probe: Probe | null = null
  let tests = 0

  /** Whether an alert comes of an attack; null where the agent is to stop. */
  const isFlagged = async (
    { attack, size }: Sized,
    device: TestedDevice | null,
    turn: number,
  ): Promise<boolean | null> => {
    probe ??= createProbe(options)
    const { watcher } = probe
    const of = probe
    of.begin(device)
    const { clock } = options
    const { signal } = ending
    const site = siteOf(device)
    const frames = attack.frames(
      size,
      site,
      rng.fork(`${attack.name} ${turn}`),
      createPacketMaker({ micros: START_MICROS + HOUR_MICROS * tests++ }),
    )
    for (const batch of createMadeBatches(SLICE, site.routerMac !== null)(frames)) {
      watcher.add(batch)
      // a scan is known by its first flows
      if (of.alerts > 0) break
      await clock.sleep(PAUSE_MILLIS, signal)
      if (signal.aborted) return null
    }
    while (watcher.endCapture(SLICE)) {
      await clock.sleep(PAUSE_MILLIS, signal)
      if (signal.aborted) return null
    }
    return of.alerts > 0
  }
  /** The first attack that a device's model flags in all tries; undefined where the agent is to stop. */
  const findNoticed = async (device: TestedDevice | null): Promise<Sized | null | undefined> => {
    for (const sized of ATTACKS) {
      let flagged = 0
      for (let turn = 0; turn < TRIES && flagged === turn; turn++) {
        const is = await isFlagged(sized, device, turn)
        if (is === null) return undefined
        if (is) flagged++
      }
      if (flagged === TRIES) return sized
    }
    return null
  }
  const noteBlind = (model: string, key: string): void => {
    counts.notNoticed++
    if (tested.has(key)) {
      counts.missed++
      missed.set(key, `model ${model} notices no made attack, though one was flagged before`)
      return
    }
    if (warnings.has(model)) return
    const warning = `model ${model}${key === '' ? '' : ` (device ${key})`} notices no made attack of any kind, so it may miss real ones too; train it with more traffic`
    warnings.set(model, warning)
    options.onBlind(warning)
  }
  /** What decides on a device's made attacks; a budget may change the threshold. null where there is no model yet. */
  const placeOf = (device: TestedDevice | null): string | null => {
    const inForce = decider.modelOf(device?.key ?? '')
    if (inForce === null) return null
    // another IP version makes other sizes
    return `${inForce.model}/${inForce.threshold}/${siteOf(device).device.address.length}`
  }
  /** False where the agent is to stop. */
  const testDevice = async (device: TestedDevice | null): Promise<boolean> => {
    const key = device?.key ?? ''
    const place = placeOf(device)
    if (place === null) {
      missed.delete(key)
      return true
    }
    const model = modelIn(place)
    let sized = noticed.get(place)
    if (sized === undefined) {
      sized = await findNoticed(device)
      if (sized === undefined) return false
      // another model may have come into force meanwhile
      if (placeOf(device) !== place) return true
      noticed.set(place, sized)
    }
    if (sized === null) {
      // where hosts for tests are local and the device is not, no made flow is the device's
      if (probe?.isOfDevice === true) noteBlind(model, key)
      return true
    }
    const is = await isFlagged(sized, device, 0)
    if (is === null) return false
    if (placeOf(device) !== place) return true
    if (is) {
      counts.flagged++
      tested.add(key)
      missed.delete(key)
    } else {
      counts.missed++
      const { attack, size } = sized
      missed.set(
        key,
        `a made attack (${attack.title}, ${size} ${attack.unit}) is not flagged by model ${model}`,
      )
    }
    return true
  }
  /** Forgets devices that are not watched any more, and models and thresholds that decide on none. */
  const forget = (devices: readonly (TestedDevice | null)[]): void => {
    const keys = new Set(devices.map((device) => device?.key ?? ''))
    const places = new Set(devices.map(placeOf))
    const models = new Set([...places].map((place) => (place === null ? '' : modelIn(place))))
    for (const key of tested) if (!keys.has(key)) tested.delete(key)
    for (const key of missed.keys()) if (!keys.has(key)) missed.delete(key)
    for (const place of noticed.keys()) if (!places.has(place)) noticed.delete(place)
    for (const model of warnings.keys()) if (!models.has(model)) warnings.delete(model)
  }
  const tell = (): void => {
    const [first] = missed
    if (first === undefined) {
      options.onResult(null)
      return
    }
    const [key, why] = first
    const others = missed.size === 1 ? '' : `; so it is with ${missed.size - 1} more`
    options.onResult(`${key === '' ? '' : `device ${key}: `}${why}${others}`)
  }
  const testAll = async (): Promise<void> => {
    const devices = options.watched()
    const targets = devices === null ? [null] : [...devices]
    forget(targets)
    for (const device of targets) {
      try {
        if (!(await testDevice(device))) return
      } catch (error) {
        // its flow table may be in any state; real frames would end the agent in the same way
        probe = null
        counts.missed++
        missed.set(
          device?.key ?? '',
          `a made attack fails: ${error instanceof Error ? error.message : error}`,
        )
      }
      tell()
    }
    tell()
  }
  return {
    async round() {
      if (isRunning || ending.signal.aborted) return
      isRunning = true
      try {
        await testAll()
      } finally {
        isRunning = false
      }
    },
    end,
    get counts() {
      return { ...counts }
    },
    get warnings() {
      return [...warnings.values()]
    },
  }
}

function modelIn(place: string): string {
  return place.slice(0, place.indexOf('/'))
}

/** A pipeline of its own, from frames to alerts. */
interface Probe {
  readonly watcher: Watcher
  /** A test begins, of this device. */
  begin(device: TestedDevice | null): void
  /** Alerts of the test. */
  readonly alerts: number
  /** Some flow of the test was the device's. */
  readonly isOfDevice: boolean
}

function createProbe({ decider, explain, localNetworks, dropDuplicates }: SelfTestOptions): Probe {
  let alerts = 0
  let isOfDevice = false
  let of: TestedDevice | null = null
  const path = createAlertPipeline({
    context: { localNetworks },
    suppression: createSuppression([]),
    incidents: null,
    answers: null,
    fold: null,
    log: {
      append() {
        alerts++
        return true
      },
    },
    interfaceName: null,
    dimension: decider.contract.dimension,
    explain,
    rarity: decider.rarity,
    model: { model: null, threshold: null },
    lostPackets: () => 0,
    losses: createLossHistory(),
  })
  /** A flow between two hosts of the network may be another device's. */
  const isOf = (record: FlowRecord): boolean => of === null || deviceKeyOf(record, localNetworks) === of.key
  const watcher = createWatcher({
    decider: { ...decider, decide: decider.peek },
    filter: null,
    dropDuplicates,
    memoryBytes: FLOW_BYTES,
    hashSeed: 0,
    onVerdict(record) {
      isOfDevice ||= isOf(record)
    },
    onNovel(record, verdict) {
      // one alert will do
      if (alerts === 0 && isOf(record)) path.raise(record, verdict)
    },
  })
  return {
    watcher,
    begin(device) {
      alerts = 0
      isOfDevice = false
      of = device
    },
    get alerts() {
      return alerts
    },
    get isOfDevice() {
      return isOfDevice
    },
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
