/** Words for numbers, times, devices and models; the commands and the outputs use them too. */
import type { AlertDevice } from '../alerts/alert.js'
import type { Device, ScopeReport } from './api.js'

export function timeOf(micros: number): string {
  const time = new Date(micros / 1000)
  const isToday = time.toDateString() === new Date().toDateString()
  return isToday ? time.toLocaleTimeString() : time.toLocaleString()
}

export function numberText(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString() : String(Number(value.toPrecision(4)))
}

/** "1 peer", "2 peers". */
export function countText(count: number, one: string): string {
  return `${numberText(count)} ${one}${count === 1 ? '' : 's'}`
}

/** What a device calls itself, or its address. */
export function nameOf({ name, mac, address }: AlertDevice): string {
  return name ?? mac ?? address
}

/** What share of normal flows a model flags at most, and whether that holds and was asked for; empty without a model. */
export function promiseText({ falseAlarmShare, keepsPromise, proving }: ScopeReport): string {
  if (falseAlarmShare === null) return ''
  const share = `up to ${Number((100 * falseAlarmShare).toPrecision(2))} %`
  if (keepsPromise === null) return `${share}, not proven`
  return keepsPromise === false && proving?.state !== 'broken' ? `${share}, more than allowed` : share
}

/** How many false alarms a model promises of a device at most: "about 1 false alarm in 3 days"; empty without a model. */
export function alarmsText(
  device: Pick<Device, 'flows' | 'learningSinceMicros' | 'lastSeenMicros'>,
  model: Pick<ScopeReport, 'falseAlarmShare'> | null,
): string {
  if (model === null || model.falseAlarmShare === null) return ''
  // of less than an hour as of an hour
  const hours = Math.max(1, (device.lastSeenMicros - device.learningSinceMicros) / 3_600_000_000)
  const perDay = model.falseAlarmShare * ((24 * device.flows) / hours)
  const days = Math.round(1 / perDay)
  if (!Number.isFinite(days)) return ''
  if (days > 1) return `about 1 false alarm in ${days} days`
  const count = Math.max(1, Math.round(perDay))
  return `about ${count} false ${count === 1 ? 'alarm' : 'alarms'} a day`
}

/** How far the proof of a model is, and what came of it; empty where none is asked of it. */
export function proofText({ proving }: ScopeReport): string {
  if (proving === null) return ''
  const { state, flows, needed, novel } = proving
  if (state === 'open')
    return `its test on later flows: ${novel} of ${countText(flows, 'flow')} unusual so far, ${needed} flows needed`
  if (state === 'kept') return `proven: ${novel} of ${countText(flows, 'flow')} unusual`
  return `${novel} of ${countText(flows, 'flow')} unusual, more than promised; retraining`
}

/** What became of the last training, where its model was refused; else empty. */
export function refusedText({ refused }: ScopeReport): string {
  if (refused === null) return ''
  const { rows, unsettledShare } = refused
  return `the last training (${rows} rows) was refused: it flagged ${(100 * unsettledShare).toFixed(1)} % more of the later flows than promised`
}

/** The damage of the active model; empty if there is none. */
export function damageText({ damage }: ScopeReport): string {
  if (damage === null) return ''
  return damage === 'previous'
    ? 'the model was damaged; using the previous model'
    : 'the model is damaged; retraining'
}

/** "learning: 130 of about 400 flows, ready in about 2 days". @param device - its forecast is absent where no agent runs. */
export function stateText({
  state,
  flows,
  forecast,
  novelShare,
  model,
}: Pick<Device, 'state' | 'flows' | 'novelShare'> & {
  readonly forecast?: Device['forecast']
  readonly model?: Pick<ScopeReport, 'state'> | null
}): string {
  if (state !== 'learning') return state
  const count = countText(flows, 'flow')
  if (forecast === undefined || forecast === null) return `learning: ${count}`
  const needed = Math.max(flows, Number((forecast.flows ?? 0).toPrecision(2)))
  const progress =
    forecast.flows === null ? count : `${numberText(flows)} of about ${countText(needed, 'flow')}`
  return `learning: ${progress}, ${forecast.hours === null ? heldUpText(novelShare, model) : `ready ${inText(forecast.hours)}`}`
}

function heldUpText(novelShare: number | null, model: Pick<ScopeReport, 'state'> | null | undefined): string {
  if (model?.state === 'waiting') return 'waiting for memory: too many devices learn at once'
  return `too many recent flows were unusual (${Math.round(100 * (novelShare ?? 0))} %)`
}

function inText(hours: number): string {
  if (hours < 1) return 'within the hour'
  if (hours < 36) return `in about ${countText(hours, 'hour')}`
  return `in about ${countText(Math.round(hours / 24), 'day')}`
}

const SOURCES: Readonly<Record<ScopeReport['state'], string>> = {
  waiting: 'waiting for memory',
  learning: 'learning',
  trained: 'trained here',
  'learnt-on': 'trained here and updated since',
  given: 'trained elsewhere',
}

/** Where the model comes from, what it promises, and what came of its proof and of the last training. */
export function modelText(
  model: ScopeReport,
  device: Pick<Device, 'flows' | 'learningSinceMicros' | 'lastSeenMicros'>,
): string {
  const { state, rows, rowsNeeded, falseAlarmShare } = model
  const progress = rowsNeeded === null ? '' : `: ${numberText(rows)} of ${numberText(rowsNeeded)} rows`
  const texts =
    state === 'learning'
      ? [`${SOURCES.learning}${progress}`]
      : [
          SOURCES[state],
          falseAlarmShare === null ? '' : `false alarms ${promiseText(model)}`,
          alarmsText(device, model),
          proofText(model),
        ]
  return [damageText(model), ...texts, refusedText(model)].filter((text) => text !== '').join('; ')
}

export function shareText(share: number): string {
  return `${numberText(Math.round(1000 * share) / 10)} %`
}
