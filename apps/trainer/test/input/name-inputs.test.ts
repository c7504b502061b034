import { ArgumentError, DataError } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import { nameInputs, namingInputs, noFlowIn } from '../../src/inputs.js'

describe('nameInputs', () => {
  it.each([
    [['a.pcap'], 'a.pcap'],
    [['-'], 'standard input'],
    [['a.pcap', 'b.pcap'], 'a.pcap and 1 more input'],
    [['a.pcap', 'b.pcap', '-'], 'a.pcap and 2 more inputs'],
  ])('%j: %s', (paths, words) => {
    expect(nameInputs(paths)).toBe(words)
  })
})

describe('namingInputs', () => {
  const thrownBy = (error: Error): unknown => {
    try {
      namingInputs(['a.pcap'], () => {
        throw error
      })
    } catch (thrown) {
      return thrown
    }
    return null
  }

  it('names the inputs and the option where a method speaks of its data and its parameter', () => {
    const thrown = thrownBy(new DataError('raise bandwidthQuantile above 0.5', 'rows'))
    expect(thrown).toBeInstanceOf(DataError)
    expect(thrown).toMatchObject({ message: 'a.pcap: raise --bandwidth-quantile above 0.5', field: 'rows' })
  })

  it('leaves other errors and results alone', () => {
    const bad = new ArgumentError('m: no')
    expect(thrownBy(bad)).toBe(bad)
    expect(namingInputs(['a'], () => 3)).toBe(3)
  })
})

it('noFlowIn says whose packets there were', () => {
  expect(noFlowIn(['-'], '6 packets: 6 arp').message).toMatch(/^standard input: .*6 packets: 6 arp/)
})
