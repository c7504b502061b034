import { matrixFromRows } from '@oddflow/core'
import { gaussianKernel } from '@oddflow/linalg'
import { describe, it } from 'vitest'
import { embedRows, kjlProjection, nystromProjection } from '../src/embedding/embedding.js'
import { expectClose } from './close.js'
import { goldenAbsent, readGolden } from './shared.js'

describe.skipIf(goldenAbsent)('golden 02: Nyström (scipy)', () => {
  it('has the projection and the embedding', () => {
    const g = readGolden<{
      S: number[][]
      T: number[][]
      P: number[][]
      phi: number[][]
      sigma: number
      d: number
    }>('02_nystrom')
    const landmarks = matrixFromRows(g.S)
    const projection = nystromProjection(gaussianKernel(landmarks, landmarks, g.sigma), g.d)
    expectClose(projection.data, g.P.flat(), 1e-10)
    const embedded = embedRows(
      { kind: 'nystrom', bandwidth: g.sigma, landmarks, projection },
      matrixFromRows(g.T),
    )
    expectClose(embedded.data, g.phi.flat(), 1e-10)
  })
})

interface Golden03 {
  S: number[][]
  T: number[][]
  Z: number[][]
  sigma: number
  P_paper: number[][]
  P_centred: number[][]
  phi_paper: number[][]
  phi_centred: number[][]
}

describe.skipIf(goldenAbsent)('golden 03: KJL (numpy)', () => {
  for (const rule of ['paper', 'centred'] as const) {
    it(`has the projection and the embedding: ${rule}`, () => {
      const g = readGolden<Golden03>('03_kjl')
      const landmarks = matrixFromRows(g.S)
      const gram = gaussianKernel(landmarks, landmarks, g.sigma)
      const projection = kjlProjection(gram, matrixFromRows(g.Z), rule === 'centred')
      expectClose(projection.data, g[`P_${rule}`].flat(), 1e-12)
      const embedded = embedRows(
        { kind: 'kjl', bandwidth: g.sigma, landmarks, projection },
        matrixFromRows(g.T),
      )
      expectClose(embedded.data, g[`phi_${rule}`].flat(), 1e-12)
    })
  }
})
