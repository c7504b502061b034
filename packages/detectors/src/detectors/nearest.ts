/**
 * nearest: the distance to the nearest of m landmarks, cheaper than every method of the paper.
 */
import { sizeUpTo } from '../check-parts.js'
import { standalone } from '../families/standalone.js'
import type { NearestModel } from '../model.js'
import { matrixTensor } from '../model-file/parts.js'
import {
  checkNearestLandmarkModel,
  createNearestLandmarkWorkspace,
  fitNearestLandmark,
  scoreNearestLandmark,
} from '../nearest-landmark/nearest-landmark.js'
import type { NearestParameters } from '../parameters.js'

export const nearest = standalone({
  name: 'nearest',
  summary: 'distance to the nearest of m landmarks',
  options: ['m', 'landmarks'],
  field: 'nearestLandmark',
  hasMetadata: false,
  checkParameters: (given): NearestParameters => ({
    detector: 'nearest',
    scaler: given.scaler(),
    m: given.whole('m', 1, 2000),
    landmarks: given.landmarks(),
  }),
  fit: fitNearestLandmark,
  wrap: (frame, nearestLandmark): NearestModel => ({ ...frame, nearestLandmark }),
  partOf: (model: NearestModel) => model.nearestLandmark,
  createWorkspace: createNearestLandmarkWorkspace,
  score: scoreNearestLandmark,
  check(value, { m }, field) {
    const part = checkNearestLandmarkModel(value, field)
    sizeUpTo(part.landmarks.rows, m, `${field}.landmarks.rows`)
    return part
  },
  dimensionOf: ({ landmarks }) => landmarks.cols,
  encode: ({ landmarks }) => ({
    metadata: {},
    tensors: { 'nearestLandmark.landmarks': matrixTensor(landmarks) },
  }),
  decode: (file) => ({ kind: 'nearest-landmark', landmarks: file.matrix('nearestLandmark.landmarks') }),
  spaceNumbers: ({ landmarks }) => landmarks.data.length,
  facts: ({ landmarks }) => [{ label: 'landmarks', value: `${landmarks.rows}` }],
  figures: ({ landmarks }) => ({ landmarks: landmarks.rows }),
})
