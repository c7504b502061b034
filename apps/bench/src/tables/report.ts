/** All tables of one set of trials, with what was run where: what every format is made from. */
import { findDisagreements, mergeTrials, type Trial } from '@oddflow/evaluation'
import type { Manifest } from '../datasets/manifest.js'
import { aucTables, referenceTables } from './auc-tables.js'
import { costTables } from './cost-tables.js'
import { disturbance } from './disturbance.js'
import { paperTables } from './paper-tables.js'
import type { PaperFigures, ReferenceAuc } from './published.js'
import { hashTrials, type Table } from './table.js'

export interface Report {
  readonly tables: readonly Table[]
  /** A sentence each: machines, versions, differences between machines. */
  readonly about: readonly string[]
  readonly trials: readonly Trial[]
}

export function buildReport(
  runs: readonly (readonly Trial[])[],
  manifests: readonly Manifest[],
  paper: PaperFigures,
  reference: ReferenceAuc,
): Report {
  const trials = mergeTrials(...runs)
  return {
    trials,
    tables: [
      ...aucTables(trials),
      ...referenceTables(reference, trials),
      ...paperTables(paper, manifests, trials),
      ...costTables(trials),
    ],
    about: [...describeMachines(trials), ...differences(trials), total(trials)],
  }
}

function describeMachines(trials: readonly Trial[]): string[] {
  const names = [...new Set(trials.map(({ machine }) => machine.name))].sort()
  return names.map((name) => {
    const own = trials.filter(({ machine }) => machine.name === name)
    const machines = unique(
      own.map(
        ({ machine: m }) =>
          `${m.cpu}, ${m.logicalCpus} logical CPUs, ${(m.memoryBytes / 1e9).toFixed(1)} GB, ${m.operatingSystem}, ${m.architecture}`,
      ),
    )
    const versions = unique(
      own.map(({ versions: v }) =>
        Object.entries(v)
          .map(([key, version]) => `${key} ${version}`)
          .join(', '),
      ),
    )
    const busy = disturbance(own)
    return `Machine ${name}: ${machines.join('; ')}. Versions: ${versions.join('; ')}.${busy === '' ? '' : ` ${busy}`}`
  })
}

function differences(trials: readonly Trial[]): string[] {
  return findDisagreements(trials).map(
    ({ work, machines, aucs }) =>
      `Results differ between machines: ${work}: ${machines.map((m, i) => `${m} ${aucs[i]}`).join(', ')}.`,
  )
}

function total(trials: readonly Trial[]): string {
  const { trials: count, trialsSha256 } = hashTrials(trials)
  return trialsSha256 === null ? 'There are no trials.' : `All ${count} trials: SHA-256 ${trialsSha256}.`
}

const unique = (values: readonly string[]): string[] => [...new Set(values)].sort()
