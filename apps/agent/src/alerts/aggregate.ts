/**
 * Aggregator: folds alerts of one kind: one device, rule, peer and service. The first is sent at once. Those of the following window are
 * counted, and the most unusual one of them is sent with the count. If a device has too many kinds (a scan), further alerts of each
 * rule become one kind, so they hide no other rule. Every alert is sent or counted once. Time is the packets'.
 */

import { createHash } from 'node:crypto'
import { type Alert, servicePort } from './alert.js'

interface AggregatorOptions {
  readonly windowMicros: number
  /** Kinds that a device may have open before the further ones become one. */
  readonly kindsPerDevice: number
  readonly maximumKinds: number
  readonly emit: (alert: Alert) => void
}

class Kind {
  count = 0
  furthest: Alert | null = null
  firstMicros = 0
  lastMicros = 0
  readonly peers = new Set<string>()
  readonly services = new Set<string>()

  constructor(
    readonly device: string,
    readonly isSingle: boolean,
    readonly firstId: string,
    public openedMicros: number,
  ) {}

  add(alert: Alert): void {
    if (this.count++ === 0) this.firstMicros = alert.atMicros
    this.lastMicros = Math.max(this.lastMicros, alert.atMicros)
    if (this.furthest === null || isFurther(alert, this.furthest)) this.furthest = alert
    if (this.peers.size < MAXIMUM_DISTINCT) this.peers.add(alert.peer)
    if (this.services.size < MAXIMUM_DISTINCT) this.services.add(serviceKey(alert))
  }

  /** The alert that stands for those counted since the window opened; null where none was. */
  summary(): Alert | null {
    const { count, furthest, firstMicros, lastMicros, firstId } = this
    if (furthest === null) return null
    const id = createHash('sha256').update(`${firstId} ${furthest.id} ${count}`).digest('hex').slice(0, 32)
    const [peers, services] = [this.peers.size, this.services.size]
    return { ...furthest, id, folded: { count, firstMicros, lastMicros, peers, services, firstId } }
  }

  reopen(atMicros: number): void {
    this.openedMicros = atMicros
    this.count = 0
    this.furthest = null
    this.peers.clear()
    this.services.clear()
  }
}

/** Peers and services counted exactly up to this. */
const MAXIMUM_DISTINCT = 256

export function createAggregator(options: AggregatorOptions) {
  /** In the order in which their windows opened: a reopened one goes to the end. */
  const kinds = new Map<string, Kind>()
  const kindsOf = new Map<string, number>()
  let now = Number.NEGATIVE_INFINITY
  let folded = 0
  let summaries = 0

  const open = (key: string, alert: Alert, atMicros: number, isSingle: boolean): void => {
    const device = deviceKey(alert)
    if (isSingle) kindsOf.set(device, (kindsOf.get(device) ?? 0) + 1)
    kinds.set(key, new Kind(device, isSingle, alert.id, Math.max(now, atMicros)))
    options.emit(alert)
  }
  const summarise = (kind: Kind): void => {
    const summary = kind.summary()
    if (summary === null) return
    summaries++
    options.emit(summary)
  }
  const remove = (key: string, kind: Kind): void => {
    kinds.delete(key)
    if (!kind.isSingle) return
    const left = (kindsOf.get(kind.device) ?? 1) - 1
    if (left === 0) kindsOf.delete(kind.device)
    else kindsOf.set(kind.device, left)
  }
  const close = (key: string, kind: Kind): void => {
    summarise(kind)
    if (kind.count === 0) {
      remove(key, kind)
      return
    }
    kind.reopen(now)
    kinds.delete(key)
    kinds.set(key, kind)
  }
  const advance = (nowMicros: number): void => {
    if (!(nowMicros > now)) return
    now = nowMicros
    for (const [key, kind] of kinds) {
      if (kind.openedMicros + options.windowMicros > now) break
      close(key, kind)
    }
  }
  const count = (kind: Kind, alert: Alert): void => {
    folded++
    kind.add(alert)
  }

  return {
    /** @param atMicros - of the clock as it is now; the alert's own where that was not set meanwhile */
    add(alert: Alert, atMicros = alert.atMicros): void {
      advance(atMicros)
      const device = deviceKey(alert)
      const key = `${device} ${alert.rule} ${alert.peer} ${serviceKey(alert)} ${alert.muted ?? ''}`
      const same = kinds.get(key)
      if (same !== undefined) {
        count(same, alert)
        return
      }
      const isFull = kinds.size >= options.maximumKinds
      if (!isFull && (kindsOf.get(device) ?? 0) < options.kindsPerDevice) {
        open(key, alert, atMicros, true)
        return
      }
      // a full table has one kind for all devices that are not in it
      const many = `many ${alert.rule} ${alert.muted ?? ''}`
      const manyKey = isFull && !kinds.has(`${device} ${many}`) ? many : `${device} ${many}`
      const crowd = kinds.get(manyKey)
      if (crowd === undefined) open(manyKey, alert, atMicros, false)
      else count(crowd, alert)
    },
    advance,
    /** The clock was set: windows last as long as they would have. */
    clockSet(byMicros: number): void {
      now += byMicros
      for (const kind of kinds.values()) kind.openedMicros += byMicros
    },
    flush(): void {
      for (const [key, kind] of [...kinds]) {
        summarise(kind)
        remove(key, kind)
      }
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
