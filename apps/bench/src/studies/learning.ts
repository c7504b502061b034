/** What the studies of mixtures that learn on share: rows of the authors, models and pictures of curves. */
import * as Plot from '@observablehq/plot'
import { createRng, type Matrix, takeRows } from '@oddflow/core'
import {
  calibrateThreshold,
  checkParameters,
  type DetectorOptions,
  fitDetector,
  type SavedModel,
} from '@oddflow/detectors'
import type { Command } from 'commander'
import { whole } from '../commands/options.js'
import { PALETTE, renderFigure } from '../tables/figures.js'
import { VERSION } from '../version.js'
import { scoresOf } from './judge.js'
import { publishedRows } from './published-rows.js'

export const INTRODUCTION = `What \`oddflow update\` and \`createLearner\` do, on real rows. OC-KJL-QS with the guard and everything else by default,
n rows of which a fifth calibrates the threshold at \`--fpr 0.01\`.`

export interface SeedOptions {
  readonly seeds: number
}

export const withSeeds = (command: Command): Command =>
  command.option('--seeds <count>', 'seeds of models and streams', whole(1, 100), 3)

export const seedList = (seeds: number): number[] => Array.from({ length: seeds }, (_, i) => i + 1)

export interface LearningRows {
  readonly set: string
  readonly train: Matrix
  /** Test rows. */
  readonly normal: Matrix
  readonly novel: Matrix
}

/** Of one of the authors' sets, by its folder: the first repeat. */
export function loadRows(paper: string, set: string): LearningRows {
  const { train, test, isNovel } = publishedRows(paper)
    .find(({ folder }) => folder === set)!
    .load(0)
  const ofLabel = (label: number): Matrix =>
    takeRows(
      test,
      Array.from({ length: test.rows }, (_, i) => i).filter((i) => isNovel[i] === label),
    )
  return { set, train, normal: ofLabel(0), novel: ofLabel(1) }
}

export function part(rows: Matrix, from: number, to: number): Matrix {
  return takeRows(
    rows,
    Array.from({ length: to - from }, (_, i) => from + i),
  )
}

/** A fifth of the rows, the first, calibrates it at --fpr 0.01. */
export function modelOf(rows: Matrix, seed: number, options: DetectorOptions = {}): SavedModel {
  const calibration = Math.floor(rows.rows / 5)
  const parameters = checkParameters(options)
  const fitted = part(rows, calibration, rows.rows)
  const detector = fitDetector(fitted, parameters, createRng(seed).fork('fit'))
  return {
    detector,
    contract: {
      featureSet: 'rows',
      featureSetVersion: 1,
      dimension: rows.cols,
      scaler: parameters.scaler,
    },
    threshold: calibrateThreshold(scoresOf(detector, part(rows, 0, calibration)), 0.01),
    onePacketRule: null,
    provenance: { oddflowVersion: VERSION, seed, dataSha256: '0'.repeat(64), rows: rows.rows },
  }
}

interface CurvePoint {
  readonly panel: string
  readonly curve: string
  readonly x: number
  readonly y: number
}

export function curvesPicture(
  title: string,
  points: readonly CurvePoint[],
  [xLabel, yLabel]: readonly [string, string],
  isLogarithmic = false,
): string {
  const panels = [...new Set(points.map(({ panel }) => panel))]
  const curves = [...new Set(points.map(({ curve }) => curve))]
  const colours = curves.map((_, i) => PALETTE[i % PALETTE.length]!)
  const channels = { x: 'x', y: 'y', fx: 'panel' } as const
  return renderFigure({
    title,
    description: `${yLabel} by ${xLabel}, for ${panels.join('; ')}: ${curves.join('; ')}`,
    width: 340 * panels.length,
    height: 360,
    legend: curves.map((curve, i) => [curve, colours[i]!]),
    plot: {
      marginTop: 34,
      marginLeft: 54,
      marginRight: 20,
      x: { label: xLabel },
      y: { label: yLabel, grid: true, ...(isLogarithmic ? { type: 'log' } : {}) },
      fx: { domain: panels, label: null },
      color: { domain: curves, range: colours },
      marks: [
        Plot.frame({ stroke: '#ccc' }),
        Plot.line(points, { ...channels, z: 'curve', stroke: 'curve', strokeWidth: 1.6 }),
        Plot.dot(points, { ...channels, fill: 'curve', r: 1.8 }),
      ],
    },
  })
}
