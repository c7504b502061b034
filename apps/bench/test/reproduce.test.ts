import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRng } from '@oddflow/core'
import { afterAll, describe, expect, it } from 'vitest'
import { encodeTrial, type Trial, trialKey } from '../src/run/trial.js'
import { readTrials } from '../src/run/trials-file.js'
import { runBench } from './support/run-bench.js'
import { sampleTrial } from './support/sample-trial.js'
import { encodeLabels, writeSmallData } from './support/small-data.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const { data, manifests } = writeSmallData(folder, ['blue', 'green'], 3)
const oneTrial = join(folder, 'one.jsonl')
writeFileSync(oneTrial, `${encodeTrial(sampleTrial())}\n`)
const emptyTrials = join(folder, 'empty.jsonl')
writeFileSync(emptyTrials, '')
const noManifests = join(folder, 'no-manifests')
mkdirSync(noManifests)

const command = (trials: string, ...more: string[]): string[] =>
  ['reproduce', '--data', data, '--manifests', manifests, '--trials', trials, '--test-runs', '2'].concat(
    '--detectors',
    'oc-kjl-qs,oc-nystrom-qs,oc-kjl,oc-nystrom',
    more,
  )

/** What data, seed and parameters decide: all but times. */
function decided(trials: readonly Trial[]): Map<string, unknown> {
  return new Map(
    trials.map((trial) => [
      trialKey(trial),
      {
        ...trial,
        trainMillis: 0,
        tuneMillis: trial.tuneMillis === null ? null : 0,
        testMillis: trial.testMillis.length,
        loadAverage: 0,
      },
    ]),
  )
}

describe('oddflow-bench reproduce', () => {
  it('makes the same trials when it is killed at random points, and none twice', async () => {
    const undisturbed = join(folder, 'undisturbed.jsonl')
    const whole = await runBench(command(undisturbed, '--workers', '2'))
    expect(whole).toMatchObject({ code: 0, stdout: '' })
    const expected = readTrials(undisturbed)
    // 2 sets × 3 repeats × 4 detectors × 2 tunings
    expect(expected.length).toBe(48)

    const killed = join(folder, 'killed.jsonl')
    const rng = createRng(11)
    const counts: number[] = []
    let kills = 0
    const planned = sampleCount(10, 0.2)
    for (let kill = 0; kill < planned; kill++) {
      // some trials later, and then anywhere in the work on the next one
      const enough = lineCount(killed) + Math.floor(6 * rng.nextFloat())
      const delayMillis = 60 * rng.nextFloat()
      let watch: NodeJS.Timeout | undefined
      const outcome = await runBench(command(killed, '--workers', '2'), (child) => {
        watch = setInterval(() => {
          if (lineCount(killed) < enough) return
          clearInterval(watch)
          setTimeout(() => child.kill('SIGKILL'), delayMillis)
        }, 5)
      })
      clearInterval(watch)
      if (outcome.signal === 'SIGKILL') kills++
      else expect(outcome).toMatchObject({ code: 0, signal: null })
      counts.push(lineCount(killed))
    }
    // kills came, and in the middle of the work, or this would have shown nothing
    expect(kills).toBeGreaterThanOrEqual(planned / 2)
    expect(counts.some((count) => count > 0 && count < 48)).toBe(true)
    expect(await runBench(command(killed, '--workers', '2'))).toMatchObject({ code: 0 })
    const found = readTrials(killed)
    expect(found.length).toBe(48)
    expect(decided(found)).toEqual(decided(expected))
  }, 300_000)

  it('does nothing when all is there, and says so; another machine is other work', async () => {
    const trials = join(folder, 'again.jsonl')
    const few = command(trials, '--tuning', 'none', '--repeats', '1')
    await runBench(few)
    const before = readFileSync(trials)
    const again = await runBench(few)
    expect(again.stderr).toContain('8 trials requested, 8 already there, 0 new')
    expect(readFileSync(trials).equals(before)).toBe(true)
    const other = await runBench([...few, '--machine', 'nano'])
    expect(other.stderr).toContain('8 trials requested, 0 already there, 8 new')
  }, 60_000)

  it('makes a trial once when a name is given twice', async () => {
    const trials = join(folder, 'twice.jsonl')
    const args = command(trials, '--tuning', 'none', '--repeats', '1', '--datasets', 'blue,blue')
    args[args.indexOf('--detectors') + 1] = 'pca,nearest,pca'
    const twice = await runBench(args)
    expect(twice).toMatchObject({ code: 0 })
    expect(twice.stderr).toContain('2 trials requested, 0 already there, 2 new')
    expect((await runBench(args)).stderr).toContain('2 trials requested, 2 already there, 0 new')
  }, 60_000)

  it('fails of a test set of one class that data set alone, and verify finds it', async () => {
    const place = writeSmallData(join(folder, 'one-class'), ['blue', 'green'], 1)
    const labels = join(place.data, 'blue', 'y_test.npy')
    writeFileSync(labels, encodeLabels(Array(40).fill(0)))
    const trials = join(folder, 'one-class.jsonl')
    const args = command(trials, '--tuning', 'none', '--repeats', '1')
    args[args.indexOf('--data') + 1] = place.data
    const { code, stderr } = await runBench(args)
    expect(code).toBe(1)
    expect(stderr).toContain(`${labels}: expected normal rows (0) and novel ones (1), found no novel one\n`)
    expect(stderr).toContain('8 trials requested, 0 already there, 4 new, 4 failed')
    expect(readTrials(trials).map(({ dataset }) => dataset)).toEqual(Array(4).fill('green'))
    writeFileSync(join(place.data, 'green', 'y_val_r0.npy'), encodeLabels(Array(32).fill(1)))
    const verified = await runBench(['data', 'verify', place.data, '--manifests', place.manifests])
    expect(verified.code).toBe(1)
    expect(verified.stdout.split('\n').slice(0, 2)).toEqual([
      expect.stringMatching(/^blue: .*y_test\.npy: expected .* no novel one$/),
      expect.stringMatching(/^green: .*y_val_r0\.npy: expected .* no normal one$/),
    ])
  }, 60_000)

  it('refuses to add to trials of other rows', async () => {
    const trials = join(folder, 'other-rows.jsonl')
    await runBench(command(trials, '--tuning', 'none', '--repeats', '1', '--datasets', 'blue'))
    const before = readFileSync(trials)
    const changed = writeSmallData(join(folder, 'changed'), ['blue'], 3)
    const place = join(changed.data, 'blue')
    copyFileSync(join(place, 'X_train_r1.npy'), join(place, 'X_train_r0.npy'))
    const args = command(trials, '--tuning', 'minimal', '--repeats', '1', '--datasets', 'blue')
    args[args.indexOf('--data') + 1] = changed.data
    const outcome = await runBench(args)
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toBe(
      `oddflow-bench: blue: the rows differ from those of the trials in ${trials}; give another --trials\n`,
    )
    expect(readFileSync(trials).equals(before)).toBe(true)
  }, 60_000)

  it('trains on fewer rows when told to, and keeps those trials to a file of their own', async () => {
    const trials = join(folder, 'fewer.jsonl')
    const args = (...more: string[]): string[] => {
      const all = command(trials, '--tuning', 'none', '--repeats', '1', ...more)
      all[all.indexOf('--detectors') + 1] = 'nearest'
      return all
    }
    expect(await runBench(args('--train-rows', '40'))).toMatchObject({ code: 0 })
    expect(readTrials(trials).map(({ trainRows }) => trainRows)).toEqual([40, 40])
    expect((await runBench(args('--train-rows', '40'))).stderr).toContain('2 already there, 0 new')
    const before = readFileSync(trials)
    for (const [more, asked] of [
      [['--train-rows', '30'], 30],
      [[], 60],
    ] as const) {
      const outcome = await runBench(args(...more))
      expect(outcome.code).toBe(1)
      expect(outcome.stderr).toBe(
        `oddflow-bench: ${trials}: has trials of blue with 40 training rows, and ${asked} are requested; give another --trials\n`,
      )
    }
    expect(readFileSync(trials).equals(before)).toBe(true)
    const many = await runBench([...args('--train-rows', '61'), '--trials', join(folder, 'many.jsonl')])
    expect(many.code).toBe(1)
    expect(many.stderr).toMatch(/blue\/X_train_r0\.npy: expected 61 training rows, found 60\n/)
  }, 60_000)

  it('says once what fails every trial of a data set', async () => {
    const damaged = writeSmallData(join(folder, 'damaged'), ['blue'], 3)
    copyFileSync(join(damaged.manifests, 'blue.json'), join(damaged.data, 'blue', 'X_test.npy'))
    const trials = join(folder, 'damaged.jsonl')
    const args = command(trials, '--tuning', 'none', '--datasets', 'blue')
    args[args.indexOf('--data') + 1] = damaged.data
    const { code, stderr } = await runBench(args)
    expect(code).toBe(1)
    expect(stderr.match(/X_test\.npy/g)?.length).toBe(1)
    expect(stderr).toContain('12 trials requested, 0 already there, 0 new, 12 failed')
  }, 60_000)

  it('gives the same results whatever the number of workers', async () => {
    const results = []
    for (const workers of ['1', '3']) {
      const trials = join(folder, `workers-${workers}.jsonl`)
      await runBench(command(trials, '--tuning', 'none', '--workers', workers))
      const made = readTrials(trials).map((trial) => ({
        ...trial,
        machine: { ...trial.machine, concurrency: 0 },
      }))
      results.push([...decided(made)].sort())
    }
    expect(results[1]).toEqual(results[0])
  }, 60_000)

  it('keeps to the small sets what it can: all test rows, no sample of 300 + 300', async () => {
    const [trial] = readTrials(join(folder, 'again.jsonl'))
    expect(trial!.results.map(({ sample, normal, novel }) => [sample, normal, novel])).toEqual([
      ['all', 20, 20],
    ])
    expect(trial!.trainRows).toBe(60)
    expect(trial!.testMillis.length).toBe(2)
    // m(d + D) + k(1 + d + d²) with m lowered to the rows there are
    expect(trial!.spaceNumbers).toBeGreaterThan(60 * (trial!.dimension + 1))
  })
})

describe('the command line', () => {
  it.each<[string, string[], number, RegExp]>([
    ['an unknown command', ['measure'], 2, /^oddflow-bench: unknown command 'measure'.*; try: /],
    [
      'an unknown option',
      ['tables', '--colour'],
      2,
      /^oddflow-bench: unknown option '--colour'.*; try: oddflow-bench tables --help/,
    ],
    [
      'an unknown data set',
      ['reproduce', '--datasets', 'iris'],
      2,
      /^oddflow-bench: iris: no such data set; there are aecho, /,
    ],
    [
      'an unknown detector',
      ['reproduce', '--detectors', 'lof'],
      2,
      /^oddflow-bench: lof: no such detector; there are /,
    ],
    [
      'workers that are no number',
      ['reproduce', '--workers', 'two'],
      2,
      /expected a whole number from 1 to 256/,
    ],
    ['a machine with a strange name', ['reproduce', '--machine', 'My PC'], 2, /expected a short name/],
    [
      'tuning a detector that has nothing to tune',
      ['reproduce', '--detectors', 'ocsvm,pca', '--tuning', 'minimal'],
      2,
      /^oddflow-bench: pca: nothing to tune; /,
    ],
    [
      'features that no data set has',
      command(join(folder, 'none.jsonl'), '--features', 'iat-size,samp-size'),
      1,
      /^oddflow-bench: .*data: holds no rows of samp-size for blue, green\n/,
    ],
    [
      'a detector that is not in the sweep',
      ['sweep', 'nu', '--data', data, '--manifests', manifests, '--datasets', 'blue', '--detectors', 'pca'],
      2,
      /^oddflow-bench: pca: is not in sweep nu; there are ocsvm, oc-kjl, oc-nystrom\n/,
    ],
    [
      'a bundle of a data set that no trial is of',
      ['bundle', join(folder, 'work'), '--trials', oneTrial, '--datasets', 'ctu-rows,typo'],
      2,
      /^oddflow-bench: typo: no trial in .* has it \(--datasets\); there are ctu-rows\n/,
    ],
    [
      'a bundle of a detector that no trial is of',
      ['bundle', join(folder, 'work'), '--trials', oneTrial, '--detectors', 'nope'],
      2,
      /^oddflow-bench: nope: no trial in .* has it \(--detectors\); there are oc-kjl-qs\n/,
    ],
    ['an option of another comparison', ['peers', 'svm', '--rounds', '3'], 2, /--rounds: does not apply to/],
    ['options of the other way', ['peers', 'speed', '--repeats', '1'], 2, /--repeats: does not apply to/],
    ...['list', 'verify', 'prepare'].map((name): [string, string[], number, RegExp] => [
      `manifests in a folder without one, data ${name}`,
      ['data', name, ...(name === 'list' ? [] : [folder]), '--manifests', noManifests],
      2,
      /^oddflow-bench: .*no-manifests: holds no manifests \(NAME\.json\)\n/,
    ]),
    [
      'data sets of which none is to be prepared',
      ['data', 'prepare', folder, '--manifests', manifests],
      2,
      /^oddflow-bench: all data sets have feature rows already/,
    ],
    [
      'trials of which there are none',
      ['tables', '--trials', emptyTrials, '--out', join(folder, 'out')],
      1,
      /^oddflow-bench: .*empty\.jsonl: holds no trials/,
    ],
    [
      'a folder without data',
      ['reproduce', '--data', '/nowhere', '--datasets', 'ctu-rows'],
      1,
      /^oddflow-bench: no data of ctu-rows in \/nowhere/,
    ],
    [
      'trials that are not there',
      ['tables', '--trials', '/nowhere.jsonl'],
      1,
      /^oddflow-bench: \/nowhere\.jsonl: cannot read it: no such file/,
    ],
    [
      'manifests that are not there',
      ['data', 'list', '--manifests', '/nowhere'],
      1,
      /^oddflow-bench: \/nowhere: cannot read it: no such file/,
    ],
  ])('refuses %s in one line', async (_, args, code, message) => {
    const outcome = await runBench(args)
    expect(outcome.code).toBe(code)
    expect(outcome.stdout).toBe('')
    expect(outcome.stderr).toMatch(message)
    expect(outcome.stderr.trimEnd()).not.toContain('\n')
  })

  it('lists the data sets, as text and as JSON', async () => {
    const text = await runBench(['data', 'list'])
    expect(text).toMatchObject({ code: 0, stderr: '' })
    expect(text.stdout).toContain('normal: 21970 flows of 192.168.1.196')
    const json = await runBench(['data', 'list', '--format', 'json'])
    expect(json.stdout.trimEnd().split('\n').length).toBe(12)
    for (const line of json.stdout.trimEnd().split('\n'))
      expect(JSON.parse(line)).toHaveProperty('paperDataset')
  })

  it.each([[['--help']], [['reproduce', '--help']], [['data', 'verify', '--help']], [['tables', '--help']]])(
    'has help with examples: %s',
    async (args) => {
      const outcome = await runBench(args)
      expect(outcome).toMatchObject({ code: 0, stderr: '' })
      expect(outcome.stdout).toMatch(/Examples?:\n {2}oddflow-bench /)
    },
  )

  it('prints its version alone', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    expect(await runBench(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' })
  })
})

function lineCount(path: string): number {
  try {
    return readFileSync(path, 'utf8').split('\n').length - 1
  } catch {
    return 0 // killed before the file was made
  }
}
