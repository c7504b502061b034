/** A SIGHUP is caught from the start; an early one is passed on to the first listener. */
import { EventEmitter } from 'node:events'
import { expect, it } from 'vitest'
import { catchSighups } from '../../src/service/service.js'

it('remembers an early signal, and passes on each later one', () => {
  const signals = new EventEmitter()
  const sighups = catchSighups(['node', 'main.js', 'run'], signals)
  signals.emit('SIGHUP')
  signals.emit('SIGHUP')
  let heard = 0
  sighups.listen(() => heard++)
  expect(heard).toBe(1)
  signals.emit('SIGHUP')
  signals.emit('SIGHUP')
  expect(heard).toBe(3)
})

it('passes on nothing without a signal', () => {
  const signals = new EventEmitter()
  let heard = 0
  catchSighups(['node', 'main.js', 'run'], signals).listen(() => heard++)
  expect(heard).toBe(0)
})

it.each([['calibrate'], ['doctor'], [undefined]])('leaves %s to end by it', (command) => {
  const signals = new EventEmitter()
  catchSighups(['node', 'main.js', ...(command === undefined ? [] : [command])], signals)
  expect(signals.listenerCount('SIGHUP')).toBe(0)
})
