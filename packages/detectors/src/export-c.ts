/**
 * A model as one C99 header: constant tables and functions, no allocation and no state. Scores have the bits that
 * `scoreSamples` gives: the same operations in the same order, with core's exp and log.
 *
 * Only numbers of the model reach the header, no text, so a hostile model cannot put code into it.
 *
 * Here are the header and the ensemble. What other detectors are in C is in their own files, what they call in
 * export-c/c-text.ts.
 */
import { ArgumentError, columnLabel, featureColumns, type Matrix } from '@oddflow/core'
import type { SurpriseCurve } from './calibration/held-out.js'
import type { MemberName } from './detector.js'
import { type EnsembleMember, LARGEST_STANDARDISED } from './ensemble/ensemble-part.js'
import { writeHbosMember } from './ensemble/hbos-member.js'
import { viewWeights } from './ensemble/members.js'
import { writeNearestMember } from './ensemble/nearest-member.js'
import { CWriter, double } from './export-c/c-text.js'
import type { DetectorModel, EnsembleModel } from './model.js'
import type { SavedModel } from './model-file/saved-model.js'
import { C_WRITERS } from './registry.js'
import { scaledWidth, writeScaler } from './scaler.js'

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

// ---- the detector

/** Writes $detector(x, service), of a scaled row, which it may change. */
function writeDetector(c: CWriter, model: DetectorModel, width: number): void {
  if (model.kind === 'ensemble') {
    writeEnsemble(c, model, width)
    return
  }
  writeScore(c, model, '')
  c.code(`static inline double $detector(double *x, double service) {
  (void)service;
  return $score_scaled(x);
}
`)
}

/** Writes $PREFIXscore_scaled(x). */
function writeScore(c: CWriter, model: DetectorModel, prefix: string): void {
  const write = C_WRITERS[model.kind as MemberName]
  if (write === undefined) {
    throw new ArgumentError(
      `detector: ${model.kind} cannot be exported to C; train another detector`,
      'detector',
    )
  }
  write(c, model, prefix)
}

function writeEnsemble(c: CWriter, { ensemble, scaler }: EnsembleModel, width: number): void {
  const hasServices = scaler.categoryColumn !== undefined
  c.need('surprise')
  const centre = c.table('centre', 'double', ensemble.centre)
  const scale = c.table('scale_of', 'double', ensemble.scale)
  const sums = ensemble.members.flatMap((member) => {
    const views = writeMember(c, member, width, hasServices)
    const weights = viewWeights(member.name, hasServices)
    return views.map((view, k) =>
      surpriseText(c, member.surprises[k]!, weights[k]!, view, `${member.name}_${k}`),
    )
  })
  c.code(`static inline double $detector(double *x, double service) {
  double sum = 0.0;
  int j;
  (void)service;
  for (j = 0; j < ${width}; j++) {
    const double value = (x[j] - ${centre}[j]) / ${scale}[j];
    x[j] = value > ${double(LARGEST_STANDARDISED)} ? ${double(LARGEST_STANDARDISED)} : value < -${double(LARGEST_STANDARDISED)} ? -${double(LARGEST_STANDARDISED)} : value;
  }
${sums.map((text) => `  sum += ${text};\n`).join('')}  return 0.0 - sum;
}
`)
}

function surpriseText(
  c: CWriter,
  { body, meanExcess }: SurpriseCurve,
  { body: bodyWeight, tail: tailWeight }: { readonly body: number; readonly tail: number },
  view: string,
  name: string,
): string {
  const prefix = cName(name)
  const values = c.table(`${prefix}_knots`, 'double', columnOf(body, 0))
  const surprises = c.table(`${prefix}_surprises_of`, 'double', columnOf(body, 1))
  return `$surprise(${view}, ${values}, ${surprises}, ${body.rows}, ${double(meanExcess)}, ${double(bodyWeight)}, ${double(tailWeight)})`
}

const columnOf = ({ rows, cols, data }: Matrix, column: number): Float64Array =>
  Float64Array.from({ length: rows }, (_, i) => data[i * cols + column]!)

const cName = (name: string): string => name.replaceAll('-', '_')

/** C texts of a member's views of the standardized row x. */
function writeMember(c: CWriter, member: EnsembleMember, width: number, hasServices: boolean): string[] {
  if (member.name === 'nearest') return writeNearestMember(c, member, width, hasServices)
  if (member.name === 'hbos') return writeHbosMember(c, member, hasServices)
  const prefix = `${cName(member.name)}_`
  writeScore(c, member.model, prefix)
  return [`0.0 - $${prefix}score_scaled(x)`]
}
