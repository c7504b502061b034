/**
 * A model as one C99 header: constant tables and functions, no allocation and no state. Scores have the bits that
 * `scoreSamples` gives: the same operations in the same order, with core's exp and log.
 *
 * Only numbers of the model reach the header, no text, so a hostile model cannot put code into it.
 *
 * Here is the header; export-c/ has the functions.
 */
import { ArgumentError, columnLabel, featureColumns } from '@oddflow/core'
import { CWriter, double } from './export-c/c-text.js'
import { writeDetector, writeScaler } from './export-c/detectors.js'
import type { SavedModel } from './model-file/saved-model.js'
import { scaledWidth } from './scaler.js'

/** Options of `encodeCHeader`. */
export interface CHeaderOptions {
  /** Prefix of all names in the header; in capitals, of its macros. Default `oddflow`. */
  readonly name?: string
}

/** A model as a C99 header, and the memory that it needs. */
export interface CHeader {
  readonly text: string
  /** Of all constant tables. */
  readonly tableBytes: number
  /** Of the arrays that are on the stack at once. */
  readonly stackBytes: number
}

/** The same model gives the same text. Throws ArgumentError where the name is no identifier. */
export function encodeCHeader(saved: SavedModel, { name = 'oddflow' }: CHeaderOptions = {}): CHeader {
  if (!/^[A-Za-z][A-Za-z0-9_]{0,39}$/.test(name)) {
    throw new ArgumentError(
      `name: expected at most 40 letters, digits and underscores, a letter first, found ${JSON.stringify(name).slice(0, 60)}`,
      'name',
    )
  }
  const { detector, contract, threshold } = saved
  const c = new CWriter(name)
  const cols = detector.fitReport.dimension
  const width = scaledWidth(detector.scaler, cols)
  // embeddings take infinities for what they are
  writeScaler(c, detector.scaler, width, !('embedding' in detector))
  writeDetector(c, detector, width)
  const category = detector.scaler.categoryColumn
  c.stackBytes += 8 * width
  const upper = name.toUpperCase()
  const labels = contract.featureSet === 'rows' || cols > 64 ? [] : featureColumns(contract).map(columnLabel)
  const columns = labels.map((label, i) => ` *   ${String(i).padStart(2)}  ${label}\n`).join('')
  const text = `/*
 * An OddFlow model as C99: detector ${detector.kind}, ${cols} columns.
 *
 *   double row[${upper}_COLUMNS];               one row of features
 *   double score = ${name}_score(row);          higher = more normal; not a number where the row is not finite
 *   if (${name}_is_novel(score)) ...            score <= ${upper}_THRESHOLD
 *
 * ${c.tableBytes} bytes of constant tables, ${c.stackBytes} bytes of arrays on the stack, no allocation, no state.
 * Compile with -std=c99 -ffp-contract=off and without -ffast-math: scores then have the bits of OddFlow's. Link
 * with -lm (floor, sqrt).
${columns === '' ? '' : ` *\n * Columns:\n${columns}`} */
#ifndef ${upper}_MODEL_H
#define ${upper}_MODEL_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "double arithmetic has excess precision here; on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif
#ifdef __FAST_MATH__
#error "-ffast-math changes the scores"
#endif

#define ${upper}_COLUMNS ${cols}
#define ${upper}_THRESHOLD (${double(threshold.value)})

${c.render()}
static inline double ${name}_score(const double row[${upper}_COLUMNS]) {
  double x[${width}];
  int i;
  for (i = 0; i < ${cols}; i++) {
    if (!(row[i] - row[i] == 0.0)) return row[i] - row[i];
  }
  ${name}_scale(row, x);
  return ${name}_detector(x, ${category === undefined ? '0.0' : `row[${category}]`});
}

static inline int ${name}_is_novel(double score) {
  return !(score > ${upper}_THRESHOLD);
}

#endif
`
  return { text, tableBytes: c.tableBytes, stackBytes: c.stackBytes }
}
