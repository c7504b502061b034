/**
 * hbos: histograms of the columns, each taken by itself.
 */
import { failField } from '../check-parts.js'
import { standalone } from '../families/standalone.js'
import {
  checkHistograms,
  createHistogramViews,
  decodeHistograms,
  encodeHistograms,
  fitHistograms,
  histogramNumbers,
  histogramView,
  MAXIMUM_BINS,
  takeTables,
} from '../histograms.js'
import type { HbosModel } from '../model.js'
import type { HbosParameters } from '../parameters.js'

/** Rows have units of their own, so bins may be as narrow as the column is; a column of one number has none. */
const LEAST_WIDTH = 0

export const hbos = standalone({
  name: 'hbos',
  summary: 'histograms of the columns (HBOS)',
  options: ['bins'],
  field: 'histograms',
  hasMetadata: false,
  checkParameters: (given): HbosParameters => ({
    detector: 'hbos',
    scaler: given.scaler(),
    bins: given.whole('bins', 1, MAXIMUM_BINS),
  }),
  fit(rows, { bins }) {
    const all = Uint32Array.from({ length: rows.rows }, (_, i) => i)
    return { model: takeTables(fitHistograms(rows, [all], [[0]], bins, LEAST_WIDTH), 0, 1), notes: [] }
  },
  wrap: (frame, histograms): HbosModel => ({ ...frame, histograms }),
  partOf: (model: HbosModel) => model.histograms,
  createWorkspace: (part) => createHistogramViews(part, LEAST_WIDTH),
  score(part, rows, out, views) {
    for (let i = 0; i < rows.rows; i++) out[i] = 0 - histogramView(views, 0, rows.data, i * part.low.cols)
    return out
  },
  check(value, { bins }, field) {
    const part = checkHistograms(value, bins, field)
    if (part.rows.length !== 1) failField(`${field}.rows`, 'one table', part.rows.length)
    return part
  },
  dimensionOf: ({ low }) => low.cols,
  encode: (part) => ({ metadata: {}, tensors: encodeHistograms(part, 'histograms.') }),
  decode: (file) => decodeHistograms(file, 'histograms.'),
  spaceNumbers: (part) => Math.ceil(histogramNumbers(part)),
  facts: ({ bins }) => [
    { label: 'histograms', value: `${bins} bins a column, and an open one on each side` },
  ],
  figures: ({ bins }) => ({ bins }),
})
