/** What is said of a model, in the same words by the page and by the commands that list devices and models. */
import type { OwnModel } from './api.js'

/** What share of normal flows a model flags at most, and whether that holds and was asked for; empty without a model. */
export function promiseText({ falseAlarmShare, keepsPromise, proving }: OwnModel): string {
  if (falseAlarmShare === null) return ''
  const share = `up to ${Number((100 * falseAlarmShare).toPrecision(2))} %`
  if (keepsPromise === null) return `${share}, not proven`
  return keepsPromise === false && proving?.state !== 'broken' ? `${share}, more than asked` : share
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
