/**
 * Folding: alike alerts are given out once, and then as a count.
 *
 * Alike are alerts of one device by one rule to one peer's service, muted by the same answer or by none. The first is given out
 * at once. Further ones within the window are counted; when it closes, one alert stands for them: the furthest out of
 * them, with `folded`. As long as they go on, there is one such alert a window; a window without any ends it.
 *
 * A device with many kinds open at a time (a scan: every port is another service) has the further ones of each rule folded
 * into one kind, so that they hide no alert of another rule. So is whatever comes when the table is full. Every alert is in exactly one place:
 * given out, or in a count.
 *
 * The clock is that of the packets; `advance` moves it where there are none.
 */

import { createHash } from 'node:crypto'
import { type Alert, servicePort } from './alert.js'

interface FoldOptions {
  readonly windowMicros: number
  /** Kinds that a device may have open before the further ones become one. */
  readonly kindsPerDevice: number
  /** Kinds of all devices together. */
  readonly maximumKinds: number
  readonly emit: (alert: Alert) => void
}

export interface Fold {
  /** @param atMicros - of the clock as it is now; the alert's own where that was not set meanwhile */
  add(alert: Alert, atMicros?: number): void
  /** Closes the windows that are over at `nowMicros`. */
  advance(nowMicros: number): void
  /** The clock was set by so much: windows last as long as they would have. */
  clockSet(byMicros: number): void
  /** Closes all windows. */
  flush(): void
  /** Alerts that went into a count. */
  readonly folded: number
  /** Alerts that stand for others. */
  readonly summaries: number
  readonly openKinds: number
}

interface Kind {
  readonly device: string
  readonly isSingle: boolean
  readonly firstId: string
  openedMicros: number
  count: number
  furthest: Alert | null
  firstMicros: number
  lastMicros: number
  readonly peers: Set<string>
  readonly services: Set<string>
}

/** Peers and services counted exactly up to this. */
const MAXIMUM_DISTINCT = 256

export function createFold(options: FoldOptions): Fold {
  /** In the order in which their windows opened: a reopened one goes to the end. */
  const kinds = new Map<string, Kind>()
  const kindsOf = new Map<string, number>()
  let now = Number.NEGATIVE_INFINITY
  let folded = 0
  let summaries = 0

  const open = (key: string, alert: Alert, atMicros: number, isSingle: boolean): void => {
    const device = deviceKey(alert)
    if (isSingle) kindsOf.set(device, (kindsOf.get(device) ?? 0) + 1)
    kinds.set(key, {
      device,
      isSingle,
      firstId: alert.id,
      openedMicros: Math.max(now, atMicros),
      count: 0,
      furthest: null,
      firstMicros: 0,
      lastMicros: 0,
      peers: new Set(),
      services: new Set(),
    })
    options.emit(alert)
  }
  const remove = (key: string, kind: Kind): void => {
    kinds.delete(key)
    if (!kind.isSingle) return
    const left = (kindsOf.get(kind.device) ?? 1) - 1
    if (left === 0) kindsOf.delete(kind.device)
    else kindsOf.set(kind.device, left)
  }
  const summarise = (kind: Kind): void => {
    if (kind.furthest === null) return
    summaries++
    options.emit({
      ...kind.furthest,
      id: createHash('sha256')
        .update(`${kind.firstId} ${kind.furthest.id} ${kind.count}`)
        .digest('hex')
        .slice(0, 32),
      folded: {
        count: kind.count,
        firstMicros: kind.firstMicros,
        lastMicros: kind.lastMicros,
        peers: kind.peers.size,
        services: kind.services.size,
        firstId: kind.firstId,
      },
    })
  }
  const close = (key: string, kind: Kind, atMicros: number): void => {
    summarise(kind)
    if (kind.count === 0) {
      remove(key, kind)
      return
    }
    kind.openedMicros = atMicros
    kind.count = 0
    kind.furthest = null
    kind.peers.clear()
    kind.services.clear()
    kinds.delete(key)
    kinds.set(key, kind)
  }
  const advance = (nowMicros: number): void => {
    if (!(nowMicros > now)) return
    now = nowMicros
    for (const [key, kind] of kinds) {
      if (kind.openedMicros + options.windowMicros > now) break
      close(key, kind, now)
    }
  }
  const count = (kind: Kind, alert: Alert): void => {
    folded++
    if (kind.count++ === 0) kind.firstMicros = alert.atMicros
    kind.lastMicros = Math.max(kind.lastMicros, alert.atMicros)
    if (kind.furthest === null || isFurther(alert, kind.furthest)) kind.furthest = alert
    if (kind.peers.size < MAXIMUM_DISTINCT) kind.peers.add(alert.peer)
    if (kind.services.size < MAXIMUM_DISTINCT) kind.services.add(serviceKey(alert))
  }

  return {
    add(alert, atMicros = alert.atMicros) {
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
    clockSet(byMicros) {
      now += byMicros
      for (const kind of kinds.values()) kind.openedMicros += byMicros
    },
    flush() {
      for (const [key, kind] of [...kinds]) {
        summarise(kind)
        remove(key, kind)
      }
    },
    get folded() {
      return folded
    },
    get summaries() {
      return summaries
    },
    get openKinds() {
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
