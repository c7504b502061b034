/** Models in C and in Python: whether each score has the same bits, and what it costs. Needs gcc and numpy. */

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DataError, encodeNpy, type Matrix } from '@oddflow/core'
import {
  createScoreWorkspace,
  DETECTOR_NAMES,
  type DetectorName,
  encodeCHeader,
  encodeModelFile,
  type SavedModel,
  scoreSamples,
} from '@oddflow/detectors'
import { extractMatrix } from '@oddflow/flows'
import { openScratchFolder } from '@oddflow/program'
import { z } from 'zod'
import { publishedRows } from '../datasets/load-repeat.js'
import { count, list, text } from '../files.js'
import { note } from '../output.js'
import { processorSeconds } from '../run/machine.js'
import { fixed, tableOf } from '../tables/table.js'
import { pairsIn, readPair } from './attacks.js'
import {
  type Capture,
  collectFlows,
  DEFAULT_VARIANT,
  trainOn,
  trainOnRows,
  variantNamed,
  wholeCapture,
} from './flows.js'
import { defineStudy, unique } from './study.js'
import { readDevices } from './watch.js'
import { daysOf } from './week.js'

/** Of the authors' rows. */
const DETECTORS: readonly DetectorName[] = [
  'oc-kjl',
  'oc-kjl-qs',
  'oc-nystrom',
  'oc-nystrom-qs',
  'oc-kjl-svm',
  'oc-nystrom-svm',
  'ocsvm',
  'gmm',
  'hbos',
  'nearest',
]
/** Rows that are scored for a time, at least. */
const TIMED_ROWS = 20_000
const SEED = 1

const nanos = z.number().positive()
const figures = z.strictObject({
  models: list({
    set: text,
    detector: z.enum(DETECTOR_NAMES),
    rows: count,
    /** Scores that differ in a bit. */
    differentInC: count,
    differentInPython: count,
    modelBytes: count,
    /** Code and tables, compiled for little size. */
    compiledBytes: count,
    /** Frames of all functions. */
    stackBytes: count,
    nanosHere: nanos,
    nanosInC: nanos,
    nanosInPython: nanos,
  }).min(1),
})
type ExportFigures = z.infer<typeof figures>
type Comparison = Omit<ExportFigures['models'][number], 'set' | 'detector'>

const MAIN = `#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "model.h"
double score_of(const double *row);
double score_of(const double *row) { return oddflow_score(row); }
#ifdef WITH_MAIN
int main(int count, char **arguments) {
  const size_t rows = count == 3 ? strtoul(arguments[1], NULL, 10) : 0;
  const long rounds = count == 3 ? atol(arguments[2]) : 0;
  double *row = malloc(rows * ODDFLOW_COLUMNS * sizeof *row), *score = malloc(rows * sizeof *score);
  clock_t before;
  double nanos;
  size_t i;
  long round;
  if (row == NULL || score == NULL || fread(row, ODDFLOW_COLUMNS * sizeof *row, rows, stdin) != rows) return 1;
  before = clock();
  for (round = 0; round < rounds; round++) {
    for (i = 0; i < rows; i++) score[i] = score_of(row + i * ODDFLOW_COLUMNS);
  }
  nanos = 1e9 * (double)(clock() - before) / CLOCKS_PER_SEC / (double)rounds / (double)rows;
  return fwrite(&nanos, sizeof nanos, 1, stdout) != 1 || fwrite(score, sizeof *score, rows, stdout) != rows;
}
#endif
`

const PYTHON = `
import sys, time
import numpy
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import oddflow
model, rows = oddflow.load("model.oddflow"), numpy.load("rows.npy")
before = time.process_time()
scores = model.score(rows)
numpy.append(1e9 * (time.process_time() - before) / len(rows), scores).tofile("python.f64")
`

/** Of one model and rows for it, at least one. `python`: the folder of oddflow.py. Throws DataError where a tool is absent. */
export function compareExports(saved: SavedModel, rows: Matrix, python: string): Comparison {
  if (rows.rows === 0) throw new DataError('rows: expected at least one to score', 'rows')
  const { path: folder, remove } = openScratchFolder('oddflow-exports')
  const run = (command: string, args: readonly string[], input?: Uint8Array): Buffer => {
    try {
      return execFileSync(command, args, { cwd: folder, maxBuffer: 2 ** 30, ...(input && { input }) })
    } catch (error) {
      throw new DataError(`${command}: ${(error as Error).message}`)
    }
  }
  try {
    const { detector } = saved
    const scores = new Float64Array(rows.rows)
    const workspace = createScoreWorkspace(detector)
    const rounds = Math.ceil(TIMED_ROWS / rows.rows)
    const score = (): void => {
      for (let i = 0; i < rounds; i++) scoreSamples(detector, rows, scores, workspace)
    }
    score()
    const before = process.cpuUsage()
    score()
    const nanosHere = (1e9 * processorSeconds(before)) / (rounds * rows.rows)

    const file = encodeModelFile(saved)
    writeFileSync(join(folder, 'model.oddflow'), file)
    writeFileSync(join(folder, 'rows.npy'), encodeNpy(rows))
    writeFileSync(join(folder, 'model.h'), encodeCHeader(saved).text)
    writeFileSync(join(folder, 'main.c'), MAIN)
    const flags = ['-std=c99', '-Wall', '-Wextra', '-Werror', '-pedantic', '-ffp-contract=off']
    run('gcc', [...flags, '-O2', '-DWITH_MAIN', '-o', 'main', 'main.c', '-lm'])
    const bytes = new Uint8Array(rows.data.buffer, rows.data.byteOffset, rows.data.byteLength)
    const [nanosInC, ...inC] = doublesOf(run(join(folder, 'main'), [`${rows.rows}`, `${rounds}`], bytes))
    run('gcc', [...flags, '-Os', '-fstack-usage', '-c', '-o', 'main.o', 'main.c'])
    const sizes = run('size', ['main.o']).toString().split('\n')[1]!
    const frames = readFileSync(join(folder, 'main.su'), 'utf8').trim().split('\n')
    run('python3', ['-c', PYTHON, python])
    const [nanosInPython, ...inPython] = doublesOf(readFileSync(join(folder, 'python.f64')))
    return {
      rows: rows.rows,
      differentInC: countDifferent(scores, inC),
      differentInPython: countDifferent(scores, inPython),
      modelBytes: file.length,
      compiledBytes: Number(sizes.trim().split(/\s+/)[0]),
      stackBytes: frames.reduce((sum, line) => sum + Number(line.split('\t')[1]), 0),
      nanosHere,
      nanosInC: nanosInC!,
      nanosInPython: nanosInPython!,
    }
  } finally {
    remove()
  }
}

function doublesOf(bytes: Buffer): Float64Array {
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
}

function countDifferent(scores: Float64Array, found: readonly number[]): number {
  const lacking = Math.abs(found.length - scores.length)
  return scores.reduce((sum, score, i) => sum + (Object.is(score, found[i]) ? 0 : 1), lacking)
}

interface ExportSet {
  readonly set: string
  readonly detector: DetectorName
  readonly train: () => Promise<{ readonly saved: SavedModel; readonly rows: Matrix }>
}

/** Every set of a data folder, with each detector that is tried on it. */
export function exportSets(data: string): ExportSet[] {
  const recipe = variantNamed(DEFAULT_VARIANT)
  const ofCaptures = (set: string, train: readonly Capture[], others: readonly Capture[]): ExportSet => ({
    set,
    detector: 'ensemble',
    async train() {
      const saved = await trainOn(train, recipe, SEED)
      const { contract } = saved
      if (contract.featureSet === 'rows') throw new DataError(`${set}: a model of captures has rows of flows`)
      return { saved, rows: extractMatrix(await collectFlows([...train, ...others], recipe), contract) }
    },
  })
  const halves = (set: string, paths: readonly string[]): ExportSet => {
    const captures = paths.map(wholeCapture)
    const half = Math.ceil(captures.length / 2)
    return ofCaptures(set, captures.slice(0, half), captures.slice(half))
  }
  const watch = join(data, 'watch')
  const week = join(data, 'week')
  const pairs = join(data, 'pairs')
  const isThere = (folder: string): boolean => existsSync(folder)
  return [
    ...(isThere(watch) ? Object.entries(readDevices(watch)) : []).map(([name, { starts }]) =>
      halves(
        `watch/${name}`,
        Object.keys(starts)
          .map((capture) => join(watch, name, capture))
          .sort(),
      ),
    ),
    ...(isThere(week) ? readdirSync(week).sort() : []).map((name) =>
      halves(
        `week/${name}`,
        daysOf(join(week, name)).map((day) => join(week, name, day)),
      ),
    ),
    ...(isThere(pairs) ? pairsIn(pairs) : []).map((name) => {
      const { train, normal, novel } = readPair(join(pairs, name))
      return ofCaptures(`pairs/${name}`, train, [...normal, ...novel])
    }),
    ...(isThere(join(data, 'paper')) ? publishedRows(join(data, 'paper')) : []).flatMap(({ folder, load }) =>
      DETECTORS.map((detector) => ({
        set: `paper/${folder}`,
        detector,
        async train() {
          const { train, test } = load(0)
          return { saved: trainOnRows(train, { detector }, SEED), rows: test }
        },
      })),
    ),
  ]
}

async function measureExports(data: string, python: string): Promise<ExportFigures> {
  if (!existsSync(join(python, 'oddflow.py'))) {
    throw new DataError(`${python}: expected oddflow.py in it; name its folder with --python`)
  }
  const models: ExportFigures['models'] = []
  for (const { set, detector, train } of exportSets(data)) {
    const { saved, rows } = await train()
    const compared = compareExports(saved, rows, python)
    models.push({ set, detector, ...compared })
    note(
      `${set}, ${detector}: of ${rows.rows} scores ${compared.differentInC} differ in C, ${compared.differentInPython} in Python`,
    )
  }
  if (models.length === 0) throw new DataError(`${data}: expected watch, week, pairs or paper in it`)
  return { models }
}

function page({ models }: ExportFigures): string {
  const total = (of: 'rows' | 'differentInC' | 'differentInPython'): number =>
    models.reduce((sum, model) => sum + model[of], 0)
  const kilobytes = (bytes: number): string => fixed(bytes / 1000, 1)
  const whole = (value: number): string => fixed(value, 0)
  return `\`oddflow export MODEL --to c\` and [python/oddflow.py](../../python/oddflow.py) beside OddFlow's own scores: ${models.length} models of ${unique(models.map(({ set }) => set)).length} sets.
Compared bit by bit, of ${total('rows')} scores ${total('differentInC')} differ in C and ${total('differentInPython')} in Python.

Captures train the default on their first half (pairs: on the captures of odd numbers) and all of them are scored. Of the
rows of the paper's authors each detector learns X_train_r0 and scores X_test.

${tableOf(models, 1, [
  ['set, detector', ({ set, detector }) => `${set}, ${detector}`],
  ['rows', ({ rows }) => `${rows}`],
  ['differ in C', ({ differentInC }) => `${differentInC}`],
  ['in Python', ({ differentInPython }) => `${differentInPython}`],
  ['model, kB', ({ modelBytes }) => kilobytes(modelBytes)],
  ['compiled, kB', ({ compiledBytes }) => kilobytes(compiledBytes)],
  ['stack, bytes', ({ stackBytes }) => `${stackBytes}`],
  ['ns a row here', ({ nanosHere }) => whole(nanosHere)],
  ['in C', ({ nanosInC }) => whole(nanosInC)],
  ['in Python', ({ nanosInPython }) => whole(nanosInPython)],
])}

*Compiled* is code and tables (gcc -Os). *Stack* is the frames of all functions together. *ns* is processor time on one core: here
with SIMD kernels in batches, in C row by row (gcc -O2), in Python all rows in one array. Every detector, scaler and
precision is compared in the same way on made rows, and C on 32-bit and 64-bit ARM too: \`npm run -s slow:tests -- packages/detectors/test/export-c\`.`
}

interface ExportOptions {
  readonly python: string
}

export const exportsStudy = defineStudy<ExportOptions, ExportFigures>({
  name: 'exports',
  title: 'Models in C and in Python',
  description: 'scores of exported models in C and in Python, compared bit by bit; sizes and times',
  configure: (command) => command.option('--python <dir>', 'folder of oddflow.py', 'python'),
  figures,
  run: ({ data, python }) => measureExports(data, resolve(python)),
  page,
})
