/** What is said of a model, in the same words by the page and by the commands that list devices and models. */
import type { Device, OwnModel } from './api.js'

/** What share of normal flows a model flags at most, and whether that holds and was asked for; empty without a model. */
export function promiseText({ falseAlarmShare, keepsPromise, proving }: OwnModel): string {
  if (falseAlarmShare === null) return ''
  const share = `up to ${Number((100 * falseAlarmShare).toPrecision(2))} %`
  if (keepsPromise === null) return `${share}, not proven`
  return keepsPromise === false && proving?.state !== 'broken' ? `${share}, more than asked` : share
}

/** How many false alarms a model promises of a device at most: "about 1 false alarm in 3 days"; empty without a model. */
export function alarmsText(
  device: Pick<Device, 'flows' | 'learningSinceMicros' | 'lastSeenMicros'>,
  model: Pick<OwnModel, 'falseAlarmShare'> | null,
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
export function proofText({ proving }: OwnModel): string {
  if (proving === null) return ''
  const { state, flows, needed, novel } = proving
  if (state === 'open') return `proving: ${novel} novel of ${flows}, ${needed} needed`
  if (state === 'kept') return `proven: ${novel} novel of ${flows}`
  return `${novel} of ${flows} novel: does not keep its promise; learning anew`
}

/** What became of the last training, where its model was refused; else empty. */
export function refusedText({ refused }: OwnModel): string {
  if (refused === null) return ''
  const { rows, unsettledShare } = refused
  return `the last training, of ${rows} rows, was refused: ${(100 * unsettledShare).toFixed(1)} % unsettled`
}

/** That the model in force is not the one that it should be; empty where it is. */
export function damageText({ damage }: OwnModel): string {
  if (damage === null) return ''
  return damage === 'previous'
    ? 'its model was damaged, the one before it judges'
    : 'its model is damaged, and learnt again'
}
