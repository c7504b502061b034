/** The page of what targets measured: machines, equal bytes and scores, times, memory ceilings. */
import { millisPer100, spread } from '@oddflow/evaluation'
import { groupBy, jsonLines } from '../files.js'
import { countEqual, isEqualReading, isTimed, type Reading } from '../machines/reading.js'
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
    `${readings.length} readings, SHA-256 ${sha256(jsonLines(readings))}.`,
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
      const { models, scores, fits, failed } = countEqual(own)
      const share = ({ equal, of }: { readonly equal: number; readonly of: number }): string =>
        of === 0 ? 'none' : `${equal} of ${of} equal`
      return [
        target,
        `${new Set(own.map(({ work }) => work.detector)).size}`,
        [...new Set(own.map(({ work }) => work.dataset))].sort().join(', '),
        ...[models, scores, fits].map(share),
        `${failed}`,
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
  const scores = timed.flatMap(({ target, work, outcome }) => {
    if (work.kind !== 'score' || 'failure' in outcome) return []
    const { testMillis, testRows } = outcome
    if (testMillis === null || testRows === null) return []
    return [
      {
        target,
        setting: [work.dataset, work.detector, work.tuning],
        millis: millisPer100(testMillis, testRows),
      },
    ]
  })
  const keyOf = ({ setting: [dataset, detector, tuning] }: (typeof scores)[number]): string =>
    JSON.stringify([dataset, tuning, detector])
  const rows = [...groupBy(scores, keyOf)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, same]) => [
      ...same[0]!.setting,
      ...targets.map((name) => {
        const found = spread(same.filter(({ target }) => target === name).map(({ millis }) => millis))
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

const groups = (readings: readonly Reading[]): [string, Reading[]][] =>
  [...groupBy(readings, ({ target }) => target)].sort(([a], [b]) => (a < b ? -1 : 1))
