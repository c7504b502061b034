import { describe, expect, it } from 'vitest'
import {
  ContractMismatchError,
  checkFeatureContract,
  checkOnePacketRule,
  checkSameContract,
  FormatError,
  type IatSizeContract,
  OddFlowError,
  type RowsContract,
} from '../src/index.js'

const iatSize: IatSizeContract = {
  featureSet: 'iat-size',
  featureSetVersion: 1,
  dimension: 23,
  packetsPerFlow: 12,
  iatUnit: 'seconds',
  sizeMeasure: 'frame',
  flowKey: 'bidirectional-5-tuple',
  idleTimeoutMicros: 600_000_000,
  activeTimeoutMicros: null,
  truncation: { mode: 'split', durationMicros: 1_234_567 },
  minimumPackets: 2,
  scaler: 'none',
}
const rows: RowsContract = { featureSet: 'rows', featureSetVersion: 1, dimension: 23, scaler: 'standard' }

describe('checkFeatureContract', () => {
  it.each([iatSize, rows, { ...iatSize, activeTimeoutMicros: 1 }])(
    'takes a contract through JSON',
    (contract) => {
      expect(checkFeatureContract(JSON.parse(JSON.stringify(contract)))).toEqual(contract)
    },
  )

  const broken: [string, Record<string, unknown>][] = [
    ['featureSet', { featureSet: 'other' }],
    ['featureSetVersion', { featureSetVersion: 2 }],
    ['dimension', { dimension: 0 }],
    ['dimension', { dimension: 24 }],
    ['dimension', { dimension: 1e9 }],
    ['packetsPerFlow', { packetsPerFlow: 1 }],
    ['packetsPerFlow', { packetsPerFlow: '12' }],
    ['iatUnit', { iatUnit: 'ms' }],
    ['sizeMeasure', { sizeMeasure: null }],
    ['flowKey', { flowKey: 'constructor' }],
    ['idleTimeoutMicros', { idleTimeoutMicros: 0 }],
    ['idleTimeoutMicros', { idleTimeoutMicros: 1.5 }],
    ['activeTimeoutMicros', { activeTimeoutMicros: -1 }],
    ['activeTimeoutMicros', { activeTimeoutMicros: undefined }],
    ['truncation', { truncation: null }],
    ['truncation', { truncation: [] }],
    ['truncation', { truncation: { mode: 'cut', durationMicros: 1 } }],
    ['truncation', { truncation: { mode: 'split', durationMicros: -1 } }],
    ['minimumPackets', { minimumPackets: 13 }],
    ['scaler', { scaler: 'Min Max' }],
    ['surprise', { surprise: 1 }],
  ]
  it.each(broken)('names %s in %j', (field, change) => {
    const check = (): unknown => checkFeatureContract({ ...iatSize, ...change })
    expect(check).toThrow(FormatError)
    expect(check).toThrow(`featureContract.${field}`)
  })

  it.each([null, 3, 'x', [], undefined])('refuses %j', (value) => {
    expect(() => checkFeatureContract(value)).toThrow(FormatError)
  })

  it('refuses flow rules in a contract of bare rows', () => {
    expect(() => checkFeatureContract({ ...rows, iatUnit: 'seconds' })).toThrow('featureContract.iatUnit')
  })
})

describe('checkSameContract', () => {
  it('passes equal contracts and names every field that differs', () => {
    checkSameContract(iatSize, structuredClone(iatSize))
    const other: IatSizeContract = {
      ...iatSize,
      iatUnit: 'microseconds',
      truncation: { mode: 'truncate', durationMicros: 1_234_567 },
    }
    const check = (): void => checkSameContract(iatSize, other)
    expect(check).toThrow(ContractMismatchError)
    expect(check).toThrow(/iatUnit.*microseconds.*truncation\.mode.*truncate/)
    expect(check).not.toThrow(/durationMicros/)
  })

  it('tells rows of one kind from rows of another, both ways', () => {
    expect(() => checkSameContract(iatSize, rows)).toThrow(/featureSet: the model expects iat-size/)
    expect(() => checkSameContract(rows, iatSize)).toThrow(/featureSet: the model expects rows/)
  })
})

describe('checkOnePacketRule', () => {
  it('takes a rule through JSON', () => {
    const rule = { flows: 3, services: ['tcp/443', 'udp/1900'] }
    expect(checkOnePacketRule(JSON.parse(JSON.stringify(rule)))).toEqual(rule)
  })

  it.each([
    ['flows', { flows: -1, services: [] }],
    ['services', { flows: 1, services: 'udp/53' }],
    ['services', { flows: 1, services: new Array(1025).fill('udp/53') }],
    ['services[0]', { flows: 1, services: ['<b>/53'] }],
    ['services[1]', { flows: 1, services: ['udp/53', 'tcp/80'] }],
    ['services[1]', { flows: 1, services: ['udp/53', 'udp/53'] }],
    ['more', { flows: 1, services: [], more: 1 }],
  ])('names %s in %j', (field, rule) => {
    expect(() => checkOnePacketRule(rule)).toThrow(FormatError)
    expect(() => checkOnePacketRule(rule)).toThrow(`onePacketRule.${field}`)
  })
})

it('errors carry a code, a field and an offset', () => {
  const error = new FormatError('npy', 'bad', { offsetBytes: 7, field: 'shape' })
  expect(error).toBeInstanceOf(OddFlowError)
  expect({ ...error, message: error.message }).toMatchObject({
    name: 'FormatError',
    code: 'format.npy',
    message: 'npy: bad (byte 7)',
    offsetBytes: 7,
    field: 'shape',
  })
})
