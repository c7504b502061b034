import { expect, it } from 'vitest'
import { readLittleEndian, swapElementBytes, writeLittleEndian } from '../src/bytes.js'

it('writes and reads elements low byte first', () => {
  const out = new Uint8Array(9)
  writeLittleEndian(Uint32Array.of(0x01020304, 0xff), out, 1)
  expect([...out]).toEqual([0, 4, 3, 2, 1, 0xff, 0, 0, 0])
  expect([...new Uint32Array(readLittleEndian(out, 1, 9, 4))]).toEqual([0x01020304, 0xff])
})

it('turns each element round on its own (the step that a big-endian machine adds)', () => {
  const bytes = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)
  swapElementBytes(bytes, 4)
  expect([...bytes]).toEqual([4, 3, 2, 1, 8, 7, 6, 5])
  swapElementBytes(bytes, 1)
  expect([...bytes]).toEqual([4, 3, 2, 1, 8, 7, 6, 5])
})
