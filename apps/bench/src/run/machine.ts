/** The machine and the versions that a trial says it was run on. */
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { packagePath } from '../files.js'
import type { TrialMachine } from './trial.js'

/** Of this package. */
export const VERSION: string = (
  JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as { version: string }
).version

/** Of the detectors in the bundle: the bundler writes it in. */
declare const ODDFLOW_DETECTORS_VERSION: string

export const cpuName = (): string => (cpus()[0]?.model ?? 'unknown').trim().slice(0, 200)

export function describeMachine(name: string, concurrency: number): TrialMachine {
  return {
    name,
    cpu: cpuName(),
    logicalCpus: availableParallelism(),
    memoryBytes: totalmem(),
    operatingSystem: `${type()} ${release()}`.slice(0, 200),
    architecture: process.arch,
    concurrency,
  }
}

/** Processor time of this process since an earlier `process.cpuUsage()`. */
export function processorSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1e6
}

export function describeVersions(): Record<string, string> {
  return {
    'oddflow-bench': VERSION,
    'oddflow-detectors': ODDFLOW_DETECTORS_VERSION,
    node: process.versions.node,
  }
}
