/**
 * Reasons for rows of flow summaries: "sent 1.2 MB (usually under 4 kB)". Columns that say much the same are one
 * *family*, with one reason. "Usually" is the range of the compared training rows without their lowest and highest 1
 * %. Bounds are rounded outwards.
 */
import { exp, type FeatureColumn } from '@oddflow/core'

/** A column of a row in the units of sentences, beside its normal value. */
interface MeasuredColumn {
  readonly value: number
  /** In the normal flow most like this one. */
  readonly nearest: number
  /** Of the training rows compared with; null where the model does not keep it. */
  readonly usual: { readonly low: number; readonly high: number } | null
}

/** Of whose sight the words are: what this end sent is "sent". */
export type FlowEnd = 'initiator' | 'responder'

// ---- columns

/** What a column's numbers are of once its logarithm is undone. */
export function measuredUnit({ name, unit }: FeatureColumn): string {
  if (unit === 'log10_s') return 's'
  if (unit !== 'log1p') return unit
  return name.endsWith('_packets') ? 'packets' : 'bytes'
}

/** A number of a column without its logarithm, exact to rounding. */
export function measuredValue({ name, unit }: FeatureColumn, x: number): number {
  if (unit !== 'log1p' && unit !== 'log10_s') return x
  const raised = exp(unit === 'log1p' ? x : x * Math.LN10)
  const least = unit === 'log1p' ? 1 : name === 'duration' ? 1e-4 : 1e-5
  const value = Math.min(Math.max(0, raised - least), Number.MAX_VALUE)
  // what rounding left of a whole number
  const whole = Math.round(value)
  return Math.abs(value - whole) <= 1e-9 * value + 1e-9 ? whole : value
}

const FAMILIES: Readonly<Record<string, string>> = {
  bytes: 'volume',
  packets: 'volume',
  size_max: 'sizes',
  size_mean: 'sizes',
  size_sd: 'sizes',
  first_size: 'sizes',
  iat_mean: 'pauses',
  iat_max: 'pauses',
  first_iat: 'pauses',
}

const END = /^(initiator|responder)_/

/** What a column is put down to, of a flow that may have packets of one end alone, or a single one. */
export interface ColumnTopic {
  readonly family: string
  /** The column whose numbers are shown. */
  readonly name: string
  /** The flow is a single packet, and that is all that its times say. */
  readonly isSingle?: boolean
}

/** What a column's name says. */
interface ColumnParts {
  readonly name: string
  /** undefined for the flow as a whole */
  readonly end: FlowEnd | undefined
  readonly what: string
}

export function partsOf(name: string): ColumnParts {
  return { name, end: END.exec(name)?.[1] as FlowEnd | undefined, what: name.replace(END, '') }
}

/** @param packets of the initiator and of the responder @param isKnown whether training had the flow's service */
export function topicOf(
  { name, end, what }: ColumnParts,
  packets: Readonly<Record<FlowEnd, number>>,
  isKnown: boolean,
): ColumnTopic {
  if (end !== undefined) {
    // an end that sent nothing has no sizes either
    if (packets[end] === 0) return { family: `${end} nothing`, name: `${end}_packets` }
    return { family: `${end} ${FAMILIES[what] ?? what}`, name }
  }
  // a single packet takes no time
  if (what === 'duration' || FAMILIES[what] === 'pauses') {
    return packets.initiator + packets.responder === 1
      ? { family: 'single packet', name: 'duration', isSingle: true }
      : { family: FAMILIES[what] ?? what, name }
  }
  // an unknown service says it all
  if (!isKnown && (what === 'transport' || what === 'multicast'))
    return { family: 'service', name: 'service' }
  return { family: what, name }
}

/** Units of a quantity, ascending: how much of the base one is, from how many on it is used, and how it is written. */
interface Scale {
  readonly units: readonly (readonly [factor: number, from: number, name: string])[]
  /** Numbers of the first unit are shown whole. */
  readonly isWhole: boolean
}

const BYTES: Scale = {
  units: [
    [1, 0, 'B'],
    [1e3, 1, 'kB'],
    [1e6, 1, 'MB'],
    [1e9, 1, 'GB'],
    [1e12, 1, 'TB'],
  ],
  isWhole: true,
}
const PACKETS: Scale = { units: [[1, 0, 'packets']], isWhole: true }
const TIMES: Scale = {
  units: [
    [1e-6, 0, 'µs'],
    [1e-3, 1, 'ms'],
    [1, 1, 's'],
    [60, 2, 'min'],
    [3600, 2, 'h'],
    [86_400, 2, 'days'],
  ],
  isWhole: false,
}

// ---- sentences

/** Of an end: what it sent or received, and in other words where that is 0. */
const SENT: Readonly<Record<string, { scale: Scale; words: (text: string) => string; none?: string }>> = {
  bytes: { scale: BYTES, words: (text) => text, none: 'no data' },
  packets: { scale: PACKETS, words: (text) => text, none: 'nothing' },
  size_max: { scale: BYTES, words: (text) => `packets of up to ${text}`, none: 'no data' },
  size_mean: { scale: BYTES, words: (text) => `packets of ${text} on average`, none: 'no data' },
  size_sd: { scale: BYTES, words: (text) => `packets whose sizes differ by ${text}` },
  first_size: { scale: BYTES, words: (text) => `${text} first`, none: 'no data' },
}
const TIMED: Readonly<Record<string, (text: string) => string>> = {
  duration: (text) => `lasted ${text}`,
  iat_mean: (text) => `had a packet every ${text} on average`,
  iat_max: (text) => `paused for up to ${text}`,
  first_iat: (text) => `had its second packet after ${text}`,
}

/** null where nothing plain can be said of a topic. */
export function reasonText(
  { name, isSingle = false }: Omit<ColumnTopic, 'family'>,
  column: MeasuredColumn,
  viewpoint: FlowEnd,
): string | null {
  if (isSingle) return 'was a single packet (usually more)'
  const { value } = column
  const what = name.replace(END, '')
  const sent = SENT[what]
  if (sent !== undefined) {
    const verb = END.exec(name)?.[1] === viewpoint ? 'sent' : 'received'
    const { scale, words, none } = sent
    return told(column, scale, (text) => `${verb} ${value === 0 && none !== undefined ? none : words(text)}`)
  }
  const timed = TIMED[what]
  if (timed !== undefined) return told(column, TIMES, timed)
  switch (what) {
    case 'transport':
      return `used ${transportName(value)} (normal: ${transportName(column.nearest)})`
    case 'multicast':
      return value > 0
        ? 'went to a multicast or broadcast address (usually to one host)'
        : 'went to one host (usually to a multicast or broadcast address)'
    case 'unanswered':
      return value > 0
        ? 'had its connection request refused or unanswered (usually accepted)'
        : 'had its connection request accepted (usually refused or unanswered)'
    default:
      return null
  }
}

/** @param isRare the model remembers frequent services alone */
export function serviceReason(code: number, isRare: boolean): string {
  return `${isRare ? 'rarely or never' : 'never'} saw this service (${serviceName(code)})`
}

/** As the flow summary codes a service: 100,000 × protocol + 50,000 if multicast + port, or type of ICMP. */
function serviceName(code: number): string {
  const protocol = Math.floor(code / 100_000)
  const isMulticast = code % 100_000 >= 50_000
  const port = code % 50_000
  const name = PROTOCOL_NAMES[protocol]
  if (name === undefined) return `number ${code}`
  const what = name.startsWith('ICMP')
    ? `${name} type ${port}`
    : `${name} port ${port >= 32_768 ? '32768 or higher' : port}`
  return isMulticast ? `${what}, multicast` : what
}

const PROTOCOL_NAMES: Readonly<Record<number, string>> = {
  1: 'ICMP',
  6: 'TCP',
  17: 'UDP',
  58: 'ICMPv6',
  132: 'SCTP',
}

function transportName(value: number): string {
  return { 3: 'TCP', 0: 'UDP', [-3]: 'ICMP', 6: 'SCTP' }[value] ?? `transport ${value}`
}

/** Digits of numbers, as many more as tell a number and what it is held against apart. */
const DIGITS = [2, 3, 4, 6]

/** A number in a sentence, with the usual value in brackets. */
export function told(
  { value, nearest, usual }: MeasuredColumn,
  scale: Scale,
  sentence: (text: string) => string,
): string {
  if (usual !== null && (exceeds(value, usual.high) || exceeds(usual.low, value))) {
    const isAbove = value > usual.high
    const limit = isAbove ? usual.high : usual.low
    const isOne = !exceeds(usual.high, usual.low)
    for (const digits of DIGITS) {
      const shown = quantity(value, scale, digits, Math.round)
      const bound = quantity(limit, scale, digits, isOne ? Math.round : isAbove ? Math.ceil : Math.floor)
      if (isAbove ? shown.value <= bound.value : shown.value >= bound.value) continue
      const isExact = !exceeds(bound.value, limit) && !exceeds(limit, bound.value)
      const words = isOne ? '' : isAbove ? (isExact ? 'at most ' : 'under ') : isExact ? 'at least ' : 'over '
      return `${sentence(shown.text)} (usually ${words}${limit === 0 && scale.isWhole ? 'none' : bound.text})`
    }
  }
  const shown = quantity(value, scale, DIGITS[0]!, Math.round)
  // much the same as in one normal flow, and none of the others
  const isClose = Math.abs(value - nearest) <= CLOSE * Math.max(Math.abs(value), Math.abs(nearest))
  const normal = quantity(nearest, scale, DIGITS[0]!, Math.round)
  return `${sentence(shown.text)} (${isClose ? 'rarely so' : `normal: ${normal.text}`})`
}

const CLOSE = 0.1
/** What the inverse of a logarithm may be off by. */
const ROUNDING = 1e-9

function exceeds(a: number, b: number): boolean {
  return a > b + ROUNDING * Math.max(Math.abs(a), Math.abs(b), 1e-3)
}

// ---- quantities

interface Quantity {
  /** What the text says, in the base unit. */
  readonly value: number
  readonly text: string
}

/** Of numbers in another unit. */
export function plainScale(unit: string): Scale {
  return { units: [[1, 0, unit]], isWhole: false }
}

function quantity(x: number, scale: Scale, digits: number, round: (x: number) => number): Quantity {
  const { units, isWhole } = scale
  let at = unitOf(x, scale)
  const shownIn = (unit: number): number => {
    const [factor] = units[unit]!
    const count = clean(x / factor)
    // whole numbers of the only unit are shown as they are
    if (units.length === 1 && Number.isInteger(count)) return count
    return isWhole && factor === 1 && digits === DIGITS[0] ? round(count) : rounded(count, digits, round)
  }
  // rounding may reach the next unit: 1 s, not 1,000 ms
  at = Math.max(at, unitOf(shownIn(at) * units[at]![0], scale))
  const [factor, , name] = units[at]!
  const shown = shownIn(at)
  if (x === 0 && name === 'µs') return { value: 0, text: '0 s' }
  const number = Math.abs(shown) < 1e15 ? grouped(shown) : String(shown)
  const unit = shown === 1 && name === 'packets' ? 'packet' : name
  return { value: shown * factor, text: unit === '' ? number : `${number} ${unit}` }
}

/** "1,234.5". Intl.NumberFormat loads locale data for 12 ms, so it writes only what String would write as 1e-7. */
export function grouped(x: number): string {
  const text = String(x)
  if (text.includes('e')) return x.toLocaleString('en-US', { maximumFractionDigits: 20 })
  if (Math.abs(x) < 1000) return text
  const [whole, fraction] = text.split('.') as [string, string?]
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return fraction === undefined ? groups : `${groups}.${fraction}`
}

/** The largest unit that a number has enough of. */
function unitOf(x: number, { units }: Scale): number {
  let found = 0
  units.forEach(([factor, from], at) => {
    if (Math.abs(x) >= factor * from) found = at
  })
  return found
}

function rounded(x: number, digits: number, round: (x: number) => number): number {
  if (x === 0 || !Number.isFinite(x)) return x
  const step = 10 ** (Math.floor(Math.log10(Math.abs(x))) + 1 - digits)
  return clean(round(clean(x / step)) * step)
}

/** Without the last digits, which arithmetic in binary has made. */
function clean(x: number): number {
  return Number(x.toPrecision(9))
}
