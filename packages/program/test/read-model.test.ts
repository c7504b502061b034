/** Files given as a model that are something else: the message says what they are. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMatrix, encodeNpy } from '@oddflow/core'
import { afterAll, expect, it } from 'vitest'
import { readModelFile } from '../src/read-model.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-read-model-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it.each([
  ['rows.npy', encodeNpy(createMatrix(2, 3)), /rows\.npy: .*this is a \.npy file, not a model/],
  ['pings.pcap', Buffer.from('d4c3b2a1020004000000000000000000', 'hex'), /pings\.pcap: .*this is a capture/],
  ['notes.txt', Buffer.from('bring milk and bread'), /notes\.txt.*: not a model: expected 8 bytes of header/],
])('%s', (name, bytes, message) => {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  expect(() => readModelFile(path)).toThrow(message)
})
