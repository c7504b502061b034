/** The page of what targets measured: machines, equal bytes and scores, times, memory ceilings. */
import { millisPer100, spread } from '@oddflow/evaluation'
import { isEqualReading, isTimed, type Reading } from '../machines/reading.js'
import { describeWork, sha256 } from '../machines/work.js'
import { fixed, formatSpread, markdownTable, plainText } from './table.js'

const HEAD = `# The same models on other machines

Written by \`oddflow-bench tables\` from [machines.jsonl](machines.jsonl), which \`oddflow-bench machines\` and \`merge\` write; nothing here is
typed in by hand. Models are trained on one machine and tested on all, as the paper does: carried there as files, read
and written again (the same bytes must come of it), and used to score the same rows (the same 64 bits of every score
must come of it). Some rows are also fitted there again, with the same seed: the bytes of the model must be the same.`

export function renderMachinesPage(readings: readonly Reading[]): string {
  const parts = [
    HEAD,
    '## Machines',
    machineTable(readings),
    '## Equal bytes, equal scores',
    equalityTable(readings),
    ...differences(readings),
    ...times(readings),
    ...ceilings(readings),
    `${readings.length} readings, SHA-256 ${sha256(readings.map((r) => `${JSON.stringify(r)}\n`).join(''))}.`,
  ]
  return `${parts.join('\n\n')}\n`
}

const REACH_NAMES = {
  local: 'this machine',
  ssh: 'over ssh',
  emulated: 'emulated (qemu-user)',
  carried: 'bundle carried by hand',
} as const

const unknown = 'not told'

function machineTable(readings: readonly Reading[]): string {
  const rows = groups(readings).map(([target, own]) => {
    const { machine: m, reach, memoryCeilingBytes } = own[0]!
    const ceiling = memoryCeilingBytes === null ? '' : `, ceiling ${memoryCeilingBytes / 2 ** 20} MB`
    return [
      `${target}`,
      `${REACH_NAMES[reach]}${ceiling}`,
      `${m.cpu}, ${m.logicalCpus} CPUs${m.emulated ? ' (of the machine under the emulator)' : ''}`,
      `${fixed(m.memoryBytes / 1e9, 1)} GB`,
      `${m.operatingSystem}, ${m.libc ?? 'another C library'}`,
      `${m.node} ${m.architecture}`,
      `${m.governor ?? unknown}${m.maximumMegahertz === null ? '' : `, up to ${m.maximumMegahertz} MHz`}`,
      m.throttling ?? unknown,
      `${m.wasmSimd ? 'WebAssembly SIMD' : 'no WebAssembly SIMD'}${m.vectorInstructions.length === 0 ? '' : `; ${m.vectorInstructions.join(' ')}`}`,
      own.some(({ loadAverage }) => loadAverage !== null)
        ? fixed(Math.max(...own.map(({ loadAverage }) => loadAverage ?? 0)), 1)
        : unknown,
    ].map(plainText)
  })
  const head = ['target', 'reached', 'CPU', 'memory', 'system', 'Node', 'governor', 'throttling', 'vectors']
  return markdownTable([...head, 'load'], rows, 0)
}

function equalityTable(readings: readonly Reading[]): string {
  return markdownTable(
    [
      'target',
      'detectors',
      'data sets',
      'models read and written again',
      'scores',
      'models fitted again',
      'failed',
    ],
    groups(readings).map(([target, own]) => {
      const done = own.filter(({ outcome }) => !('failure' in outcome))
      const scores = done.filter(({ work }) => work.kind === 'score')
      const fits = done.filter(({ work }) => work.kind === 'fit')
      const share = (of: readonly Reading[], is: (r: Reading) => boolean): string =>
        of.length === 0 ? 'none' : `${of.filter(is).length} of ${of.length} equal`
      return [
        target,
        `${new Set(own.map(({ work }) => work.detector)).size}`,
        [...new Set(own.map(({ work }) => work.dataset))].sort().join(', '),
        share(scores, ({ outcome, expected }) =>
          'modelSha256' in outcome ? outcome.modelSha256 === expected.modelSha256 : false,
        ),
        share(scores, ({ outcome, expected }) =>
          'scoresSha256' in outcome ? outcome.scoresSha256 === expected.scoresSha256 : false,
        ),
        share(fits, (reading) => isEqualReading(reading) === true),
        `${own.length - done.length}`,
      ]
    }),
    2,
  )
}

function differences(readings: readonly Reading[]): string[] {
  const odd = readings.filter((reading) => isEqualReading(reading) === false)
  const failed = readings.filter(
    ({ outcome, memoryCeilingBytes }) => 'failure' in outcome && memoryCeilingBytes === null,
  )
  const lines = [
    ...odd.map(({ target, work }) => `- ${target}: ${describeWork(work)}: not equal`),
    ...failed.map(
      ({ target, work, outcome }) =>
        `- ${target}: ${describeWork(work)}: ${'failure' in outcome ? plainText(outcome.failure) : ''}`,
    ),
  ]
  return lines.length === 0 ? ['Nothing differs.'] : [`Differences and failures:\n\n${lines.join('\n')}`]
}

/** ms per 100 rows. Emulators and ceilings have no times that mean anything. */
function times(readings: readonly Reading[]): string[] {
  const timed = readings.filter(isTimed)
  if (timed.length === 0) return []
  const targets = groups(timed).map(([target]) => target)
  const rows = settings(timed).map(([dataset, tuning, detector]) => [
    dataset,
    detector,
    tuning,
    ...targets.map((target) => {
      const values = timed.flatMap(({ target: of, work, outcome }) =>
        of === target &&
        work.kind === 'score' &&
        [work.dataset, work.tuning, work.detector].join() === [dataset, tuning, detector].join() &&
        'testMillis' in outcome &&
        outcome.testMillis !== null &&
        outcome.testRows !== null
          ? [millisPer100(outcome.testMillis, outcome.testRows)]
          : [],
      )
      const found = spread(values)
      return found === null ? '' : formatSpread(found, 3)
    }),
  ])
  return [
    '## Detection, ms per 100 rows',
    'Mean ± standard deviation over training repeats. Emulated machines and those under a ceiling have no times here. Where the load stands above the number of CPUs, other work shared the machine.',
    markdownTable(['data set', 'detector', 'tuning', ...targets], rows, 3),
  ]
}

/** What the whole process took at most, item by item. */
function ceilings(readings: readonly Reading[]): string[] {
  const under = readings.filter(({ memoryCeilingBytes }) => memoryCeilingBytes !== null)
  if (under.length === 0) return []
  const columns = groups(under)
  const works = [...new Set(under.map(({ work }) => describeWork(work)))].sort()
  const rows = works.map((name) => [
    name,
    ...columns.map(([, own]) => {
      const reading = own.find(({ work }) => describeWork(work) === name)
      if (reading === undefined) return 'not run'
      if ('failure' in reading.outcome) return reading.outcome.failure
      return reading.peakMemoryBytes === null ? 'fits' : `${fixed(reading.peakMemoryBytes / 2 ** 20, 0)} MB`
    }),
  ])
  return [
    '## Under a ceiling of memory',
    'The most that the process had in memory at a time: engine, code, model, rows. Code counts under the ceiling as well, but the system may drop it and read it again, so a process can have had a little more. An item that was killed is a result too.',
    markdownTable(
      ['', ...columns.map(([target, own]) => `${target} (${own[0]!.memoryCeilingBytes! / 2 ** 20} MB)`)],
      rows,
      1,
    ),
  ]
}

function settings(readings: readonly Reading[]): [string, string, string][] {
  const found = readings.flatMap(({ work }) =>
    work.kind === 'score' ? [JSON.stringify([work.dataset, work.tuning, work.detector])] : [],
  )
  return [...new Set(found)].sort().map((text) => JSON.parse(text) as [string, string, string])
}

function groups(readings: readonly Reading[]): [string, Reading[]][] {
  const found = new Map<string, Reading[]>()
  for (const reading of readings) {
    const key = `${reading.target}`
    found.set(key, [...(found.get(key) ?? []), reading])
  }
  return [...found.entries()].sort(([a], [b]) => (a < b ? -1 : 1))
}
