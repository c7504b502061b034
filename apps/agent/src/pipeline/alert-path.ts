/**
 * AlertPath: what becomes of a novel record: an alert, unless it is suppressed; folded with its like; encoded;
 * appended to the log. Each step counts what it takes.
 */
import type { FlowRecord } from '@oddflow/flows'
import type { Alert, FactRule } from '../alerts/alert.js'
import { encodeEve } from '../alerts/eve.js'
import type { AlertExplainer } from '../alerts/explain-alert.js'
import { createFold, type Fold } from '../alerts/fold.js'
import { type AlertContext, type AlertVerdict, makeAlert } from '../alerts/make-alert.js'
import { encodeNotice, type Notice } from '../alerts/notice.js'
import type { Suppression } from '../alerts/suppress.js'
import type { KeptEvidence } from '../evidence/evidence.js'
import type { FoldSettings } from '../settings.js'
import type { AlertLog } from '../spool/alert-log.js'
import type { AlertTotals } from './counters.js'
import type { Decider, Decision } from './decider.js'
import type { LossHistory } from './loss-history.js'
import type { Verdict } from './watcher.js'

export interface AlertPathOptions {
  readonly context: AlertContext
  readonly suppression: Suppression
  /** Asked after `suppression`. */
  readonly alsoSuppresses?: (alert: Alert) => boolean
  /** Keeps packets of an alert that is given out; null where there are none. */
  readonly keepEvidence?: (alert: Alert) => KeptEvidence | null
  /** Every alert that is given out, encoded. */
  readonly onGiven?: (line: Uint8Array) => void
  readonly fold: FoldSettings | null
  readonly log: Pick<AlertLog, 'append'>
  readonly interfaceName: string | null
  /** D, the numbers of a row. */
  readonly dimension: number
  readonly explain: AlertExplainer
  readonly rarity: Decider['rarity']
  /** Told by alerts that no verdict is about: the model of all, where there is one. */
  readonly model: Pick<Decision, 'model' | 'threshold'>
  /** Packets lost up to now. */
  readonly lostPackets: () => number
  readonly losses: LossHistory
}

export interface AlertPath {
  /** @param clockMicros - by how much the packets' clock was set since the record began */
  raise(record: FlowRecord, verdict: Verdict, clockMicros?: number): void
  /** A novel verdict of which no alert is to be given. */
  hold(): void
  /** What is known of a device without a verdict; `fact` says it as a sentence, where the rule alone does not. */
  announce(record: FlowRecord, rule: FactRule, fact?: string, isOfResponder?: boolean): void
  /** Gives out what is told of the agent itself. */
  tell(notice: Notice): void
  /** Other rules from now on. */
  suppressBy(suppression: Suppression): void
  advance(nowMicros: number): void
  /** The packets' clock was set by so much: what waits goes on waiting as long as it would have. */
  clockSet(byMicros: number): void
  flush(): void
  totals(): AlertTotals
}

/** Kinds of alerts that are folded at the same time; about 1 kB each, and a row. */
const MAXIMUM_KINDS = 2048
const LEAST_KINDS = 128
const ROW_BYTES = 2 * 1_048_576

export function createAlertPath(options: AlertPathOptions): AlertPath {
  const { context, log, interfaceName } = options
  let { suppression } = options
  let raised = 0
  let held = 0
  let announced = 0
  let suppressed = 0
  let given = 0
  let told = 0
  const emit = (alert: Alert): void => {
    given++
    const line = encodeEve(
      alert,
      interfaceName,
      options.explain(alert),
      options.keepEvidence?.(alert) ?? null,
    )
    log.append(line)
    options.onGiven?.(line)
  }
  const fold: Fold | null =
    options.fold === null
      ? null
      : createFold({
          windowMicros: options.fold.windowSeconds * 1_000_000,
          kindsPerDevice: options.fold.kindsPerDevice,
          maximumKinds: Math.max(
            LEAST_KINDS,
            Math.min(MAXIMUM_KINDS, Math.floor(ROW_BYTES / (8 * options.dimension))),
          ),
          emit,
        })
  const take = (record: FlowRecord, verdict: AlertVerdict, clockMicros = 0): void => {
    raised++
    const lostPackets = options.lostPackets()
    const startMicros = record.startMicros + clockMicros
    const endMicros = startMicros + record.durationMicros
    options.losses.note(endMicros, lostPackets)
    const losses = { lostPackets, lostInWindow: options.losses.since(startMicros) }
    const rarity = options.rarity(verdict)
    const alert = makeAlert(record, verdict, losses, rarity, context)
    if (suppression.take(alert) !== null || options.alsoSuppresses?.(alert) === true) suppressed++
    else if (fold === null) emit(alert)
    else fold.add(alert, endMicros)
  }
  return {
    raise: take,
    hold() {
      held++
    },
    announce(record, rule, fact, isOfResponder) {
      announced++
      const said = {
        ...(fact === undefined ? {} : { fact }),
        ...(isOfResponder === undefined ? {} : { isOfResponder }),
      }
      take(record, { score: null, novel: true, rule, early: false, ...said, ...options.model })
    },
    tell(notice) {
      told++
      const line = encodeNotice(notice, interfaceName)
      log.append(line)
      options.onGiven?.(line)
    },
    suppressBy(next) {
      suppression = next
    },
    advance: (nowMicros) => fold?.advance(nowMicros),
    clockSet(byMicros) {
      fold?.clockSet(byMicros)
      options.losses.clockSet(byMicros)
    },
    flush: () => fold?.flush(),
    totals: () => ({
      raised,
      held,
      announced,
      suppressed,
      given,
      told,
      folded: fold?.folded ?? 0,
      summaries: fold?.summaries ?? 0,
    }),
  }
}
