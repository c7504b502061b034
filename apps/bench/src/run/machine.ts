/** The machine and the versions that a trial says it was run on. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { dirname, join } from 'node:path'
import type { TrialMachine } from '@oddflow/evaluation'

/** Of this package. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version

export function describeMachine(name: string, concurrency: number): TrialMachine {
  return {
    name,
    cpu: (cpus()[0]?.model ?? 'unknown').trim().slice(0, 200),
    logicalCpus: availableParallelism(),
    memoryBytes: totalmem(),
    operatingSystem: `${type()} ${release()}`.slice(0, 200),
    architecture: process.arch,
    concurrency,
  }
}

export function describeVersions(): Record<string, string> {
  const entry = createRequire(import.meta.url).resolve('@oddflow/detectors')
  const { version } = JSON.parse(readFileSync(join(dirname(entry), '../package.json'), 'utf8')) as {
    version: string
  }
  return { 'oddflow-bench': VERSION, 'oddflow-detectors': version, node: process.versions.node }
}
