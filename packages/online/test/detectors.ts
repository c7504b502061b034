/** What these tests share with the tests of @oddflow/detectors, and the batch fits that they compare with. */
// @boundaries-ignore tests alone use it
export { fitTailTable } from '../../detectors/src/calibration/tail-probability.js'
// @boundaries-ignore tests alone use it
export { kMeans } from '../../detectors/src/clustering/k-means.js'
// @boundaries-ignore tests alone use it
export { fitEmbedding } from '../../detectors/src/embedding/embedding.js'
// @boundaries-ignore tests alone use it
export { momentsOf } from '../../detectors/src/mixture/covariance-types.js'
// @boundaries-ignore tests alone use it
export { expectation, runEm } from '../../detectors/src/mixture/fit-mixture.js'
// @boundaries-ignore tests alone use it
export { maximiseFull } from '../../detectors/src/mixture/gaussian-mixture.js'
// @boundaries-ignore tests alone use it
export { CHECKSUM_OFFSET, modelFileChecksum } from '../../detectors/src/model-file/layout.js'
// @boundaries-ignore tests alone use it
export { fitScaler } from '../../detectors/src/scaler.js'
// @boundaries-ignore tests alone use it
export { sampleModel, sampleRows, scores } from '../../detectors/test/model-file/sample.js'
// @boundaries-ignore tests alone use it
export { clusteredRows } from '../../detectors/test/rows.js'
// @boundaries-ignore tests alone use it
export { sharedFolder } from '../../detectors/test/shared.js'
