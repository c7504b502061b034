import { UsageError } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import { inputKind, inputKindOfAll, refuseCaptureOptions } from '../../src/inputs.js'

describe('inputKind', () => {
  it.each([
    ['rows.npy', 'rows'],
    ['ROWS.NPY', 'rows'],
    ['a.pcap/rows.csv', 'rows'],
    ['a.pcap', 'capture'],
    ['a.pcapng.gz', 'capture'],
    ['rows.npy/a', 'capture'],
    ['npy', 'capture'],
    ['-', 'capture'],
  ] as const)('%s: %s', (path, kind) => {
    expect(inputKind(path)).toBe(kind)
  })
})

describe('inputKindOfAll', () => {
  it('takes inputs of one kind', () => {
    expect(inputKindOfAll(['a.npy', 'b.csv'])).toBe('rows')
    expect(inputKindOfAll(['a.pcap', '-'])).toBe('capture')
  })

  it('refuses a mixture, naming one of each', () => {
    expect(() => inputKindOfAll(['a.pcap', 'b.pcap', 'c.npy'])).toThrow(/^a\.pcap and c\.npy: .*one kind$/)
    expect(() => inputKindOfAll(['a.pcap', 'c.npy'])).toThrow(UsageError)
  })

  it('refuses to read standard input twice', () => {
    expect(() => inputKindOfAll(['-', 'a.pcap', '-'])).toThrow(UsageError)
  })
})

describe('refuseCaptureOptions', () => {
  it('names the option that was given, by its flag', () => {
    const flags = ['idleTimeout', 'filter']
    expect(() => refuseCaptureOptions({ filter: 'tcp' }, flags)).toThrow(/^--filter: /)
    expect(() => refuseCaptureOptions({ idleTimeout: 0 }, flags)).toThrow(/^--idle-timeout: /)
    expect(() => refuseCaptureOptions({ filter: undefined, other: 1 }, flags)).not.toThrow()
  })
})
