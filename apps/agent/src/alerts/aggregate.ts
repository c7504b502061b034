/**
 * Aggregator: folds alerts of one kind: one device, rule, peer and service. The first is sent at once. Those of the following window are
 * counted, and the most unusual one of them is sent with the count. If a device has too many kinds (a scan), further alerts of each
 * rule become one kind, so they hide no other rule. Every alert is sent or counted once. Time is the packets'.
 */

import { type Alert, servicePort } from './alert.js'
import { eventId } from './eve.js'

interface AggregatorOptions {
  readonly windowMicros: number
  /** Kinds that a device may have open before the further ones become one. */
  readonly kindsPerDevice: number
  readonly maximumKinds: number
  readonly emit: (alert: Alert) => void
}

interface Kind {
  readonly device: string
  readonly isSingle: boolean
  readonly firstId: string
  openedMicros: number
  /** Since then. */
  count: number
  furthest: Alert | null
  firstMicros: number
  lastMicros: number
  readonly peers: Set<string>
  readonly services: Set<string>
}

const nothingCounted = () => ({
  count: 0,
  furthest: null,
  firstMicros: 0,
  lastMicros: 0,
  peers: new Set<string>(),
  services: new Set<string>(),
})

/** Peers and services counted exactly up to this. */
const MAXIMUM_DISTINCT = 256

export function createAggregator({ windowMicros, kindsPerDevice, maximumKinds, emit }: AggregatorOptions) {
  /** In the order in which their windows opened: a reopened one goes to the end. */
  const kinds = new Map<string, Kind>()
  const kindsOf = new Map<string, number>()
  let now = Number.NEGATIVE_INFINITY
  let folded = 0
  let summaries = 0

  const open = (key: string, alert: Alert, atMicros: number, isSingle: boolean): void => {
    const device = deviceKey(alert)
    if (isSingle) kindsOf.set(device, (kindsOf.get(device) ?? 0) + 1)
    const openedMicros = Math.max(now, atMicros)
    kinds.set(key, { device, isSingle, firstId: alert.id, openedMicros, ...nothingCounted() })
    emit(alert)
  }
  const count = (kind: Kind, alert: Alert): void => {
    folded++
    if (kind.count++ === 0) kind.firstMicros = alert.atMicros
    kind.lastMicros = Math.max(kind.lastMicros, alert.atMicros)
    if (kind.furthest === null || isFurther(alert, kind.furthest)) kind.furthest = alert
    if (kind.peers.size < MAXIMUM_DISTINCT) kind.peers.add(alert.peer)
    if (kind.services.size < MAXIMUM_DISTINCT) kind.services.add(serviceKey(alert))
  }
  /** Emits the alert that stands for those counted since the window opened, and opens it again if there are any. */
  const close = (key: string, kind: Kind, isLast: boolean): void => {
    const { furthest, firstId, device, isSingle, peers, services, ...of } = kind
    kinds.delete(key)
    if (furthest !== null) {
      summaries++
      const { count, firstMicros, lastMicros } = of
      const id = eventId(`${firstId} ${furthest.id} ${count}`)
      const counts = { count, firstMicros, lastMicros, peers: peers.size, services: services.size }
      emit({ ...furthest, id, folded: { ...counts, firstId } })
      if (!isLast) kinds.set(key, { ...kind, ...nothingCounted(), openedMicros: now })
    }
    if (kinds.has(key) || !isSingle) return
    const left = (kindsOf.get(device) ?? 1) - 1
    if (left === 0) kindsOf.delete(device)
    else kindsOf.set(device, left)
  }
  const advance = (nowMicros: number): void => {
    if (!(nowMicros > now)) return
    now = nowMicros
    for (const [key, kind] of kinds) {
      if (kind.openedMicros + windowMicros > now) break
      close(key, kind, false)
    }
  }

  return {
    /** @param atMicros - of the clock as it is now; the alert's own where that was not set meanwhile */
    add(alert: Alert, atMicros = alert.atMicros): void {
      advance(atMicros)
      const device = deviceKey(alert)
      const key = `${device} ${alert.rule} ${alert.peer} ${serviceKey(alert)} ${alert.muted ?? ''}`
      const isFull = kinds.size >= maximumKinds
      const isSingle = kinds.has(key) || (!isFull && (kindsOf.get(device) ?? 0) < kindsPerDevice)
      let of = key
      if (!isSingle) {
        // a full table has one kind for all devices that are not in it
        const many = `many ${alert.rule} ${alert.muted ?? ''}`
        of = isFull && !kinds.has(`${device} ${many}`) ? many : `${device} ${many}`
      }
      const kind = kinds.get(of)
      if (kind === undefined) open(of, alert, atMicros, isSingle)
      else count(kind, alert)
    },
    advance,
    /** The clock was set: windows last as long as they would have. */
    clockSet(byMicros: number): void {
      now += byMicros
      for (const kind of kinds.values()) kind.openedMicros += byMicros
    },
    flush(): void {
      for (const [key, kind] of kinds) close(key, kind, true)
    },
    get folded(): number {
      return folded
    },
    /** Alerts that stand for others. */
    get summaries(): number {
      return summaries
    },
    get openKinds(): number {
      return kinds.size
    },
  }
}

function deviceKey({ device }: Alert): string {
  return device.mac ?? device.address
}

function serviceKey({ flow }: Alert): string {
  return `${flow.protocol}/${servicePort(flow)}`
}

/** A rule without a score is as far out as can be told; the first of those stays. */
function isFurther(alert: Alert, than: Alert): boolean {
  return alert.score !== null && than.score !== null && alert.score < than.score
}
