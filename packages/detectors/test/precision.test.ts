/**
 * Precision f32: what it keeps in a file, what it refuses, and how far its scores may be from those of f64.
 */
import { createRng, decodeSafetensors, encodeSafetensors, matrixOf, type Tensor } from '@oddflow/core'
import { describe, expect, it } from 'vitest'
import {
  checkModel,
  checkParameters,
  checkStoredParameters,
  createScoreWorkspace,
  type DetectorModel,
  type DetectorName,
  decodeModelFile,
  encodeModelFile,
  fitDetector,
  modelSpaceNumbers,
  scoreSamples,
} from '../src/index.js'
import { CHECKSUM_DIGITS, CHECKSUM_OFFSET, modelFileChecksum } from '../src/model-file/layout.js'
import { sampleModel, sampleRows, scores } from './model-file/sample.js'

const SINGLE = ['oc-kjl-qs', 'oc-nystrom', 'oc-kjl-svm', 'ocsvm'] as const
const KEPT = { ocsvm: 'svm.supportVectors' } as Readonly<Record<string, string>>
const keptIn = (detector: DetectorName) => KEPT[detector] ?? 'embedding.landmarks'

const withSeal = (bytes: Uint8Array) => {
  const digits = modelFileChecksum(bytes)
  for (let i = 0; i < CHECKSUM_DIGITS; i++) bytes[CHECKSUM_OFFSET + i] = digits.charCodeAt(i)
  return bytes
}

describe.each(SINGLE)('%s in float32', (detector) => {
  const saved = sampleModel({ detector, precision: 'f32', scaler: 'standard' })
  const double = sampleModel({ detector, scaler: 'standard' })
  const bytes = encodeModelFile(saved)

  it('keeps its rows as F32, and comes back bit for bit, scores too', () => {
    const { tensors } = decodeSafetensors(bytes)
    const single = [...tensors].filter(([, { dtype }]) => dtype === 'F32').map(([name]) => name)
    expect(single).toEqual([keptIn(detector)])
    const again = decodeModelFile(bytes)
    expect(again).toEqual(saved)
    expect(encodeModelFile(again)).toEqual(bytes)
    expect(scores(again.detector, sampleRows(7))).toEqual(scores(saved.detector, sampleRows(7)))
  })

  it('needs half the space for them', () => {
    const rows = decodeSafetensors(bytes).tensors.get(keptIn(detector))!.data.length
    expect(modelSpaceNumbers(saved.detector)).toBe(modelSpaceNumbers(double.detector) - rows / 2)
  })

  it('scores as float64 does, to six digits, and not with the same bits', () => {
    const rows = sampleRows(7, 200)
    const a = scores(saved.detector, rows)
    const b = scores(double.detector, rows)
    expect(a).not.toEqual(b)
    const off = a.map((score, i) => Math.abs(score - b[i]!) / (1 + Math.abs(b[i]!)))
    expect(Math.max(...off)).toBeLessThan(2e-5)
  })

  it('is refused with the other type of tensor, or with numbers that are not float32', () => {
    const file = decodeSafetensors(bytes)
    const name = keptIn(detector)
    const { shape, data } = file.tensors.get(name)!
    const wide: Tensor = { dtype: 'F64', shape, data: Float64Array.from(data) }
    const wrong = withSeal(encodeSafetensors({ ...file, tensors: new Map([...file.tensors, [name, wide]]) }))
    expect(() => decodeModelFile(wrong)).toThrow(`${name}: expected dtype F32, found F64`)
    const model = structuredClone(saved.detector) as unknown as Record<
      string,
      Record<string, { data: Float64Array }>
    >
    const [part, field] = name.split('.') as [string, string]
    model[part]![field]!.data[0] = 0.1
    expect(() => checkModel(model)).toThrow(`${name}: expected float32 numbers, found 0.1`)
  })
})

describe('precision', () => {
  it('is f64 unless asked for, and so in files that do not speak of it', () => {
    const saved = sampleModel()
    expect(saved.detector.parameters).toMatchObject({ precision: 'f64' })
    const { precision: _, ...older } = saved.detector.parameters as { precision?: string }
    expect(checkModel({ ...saved.detector, parameters: older })).toEqual(saved.detector)
  })

  it('is refused where there are no kernel rows, and when it is neither', () => {
    expect(() => checkParameters({ detector: 'gmm', precision: 'f32' })).toThrow(/does not apply to gmm/)
    const linear = { ...checkParameters({ detector: 'ocsvm', precision: 'f32' }), kernel: 'linear' }
    expect(() => checkStoredParameters(linear)).toThrow(/precision: expected none, since a linear kernel/)
    expect(() => checkParameters({ precision: 'f16' as 'f32' })).toThrow(/precision: expected f64 or f32/)
  })

  it('refuses rows that float32 cannot hold, with what to do', () => {
    const rows = sampleRows(1)
    const train = (scale: number): DetectorModel =>
      fitDetector(
        matrixOf(
          rows.rows,
          rows.cols,
          rows.data.map((v) => v * scale),
        ),
        checkParameters({ detector: 'ocsvm', precision: 'f32' }),
        createRng(1),
      )
    expect(() => train(1e60)).toThrow(/out of float32's range; take precision f64/)
    expect(() => train(1e-25)).toThrow(/square is in float32's range.*take precision f64/)
    const model = train(1)
    const far = matrixOf(1, 3, Float64Array.of(1e300, -1e300, 1e39))
    const out = scoreSamples(model, far, new Float64Array(1), createScoreWorkspace(model))
    expect(Number.isFinite(out[0])).toBe(true)
  })
})
