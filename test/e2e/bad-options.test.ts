/** A command line that is wrong: exit code 2, one line that names the option and says what it takes. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { lab, oddflow, refuses, temporaryFolder } from './support/oddflow.js'

const folder = temporaryFolder()
const good = lab('novel-firmware.pcap').path
const expectUsage = (args: readonly string[], says: RegExp): Promise<void> =>
  refuses(args, { code: 2, says, folder })

beforeAll(() => {
  writeFileSync(join(folder, 'rows.csv'), '1,2\n3,4\n')
  const forty = Array.from({ length: 40 }, (_, i) => `${i},${(i * i) % 17},${(i * 7) % 11}`)
  writeFileSync(join(folder, 'forty.csv'), `${forty.join('\n')}\n`)
})

describe('train', () => {
  it.each([
    ['--fpr 2', /--fpr 2: expected/],
    ['--fpr 0', /--fpr 0: expected/],
    ['--fpr x', /--fpr/],
    ['--m 0', /--m: expected a whole number from 1/],
    ['--m 1e99', /--m/],
    ['--m 2.5', /--m/],
    ['--detector oc-kjl --d 0', /--d: expected/],
    ['--detector oc-kjl --bandwidth-quantile 0', /--bandwidth-quantile: expected/],
    ['--detector oc-kjl --bandwidth-quantile 1.1', /--bandwidth-quantile: expected/],
    ['--bandwidth-quantile nan', /--bandwidth-quantile/],
    ['--seed -1', /--seed/],
    ['--seed 1.5', /--seed/],
    ['--calibration-share 1', /--calibration-share 1: expected/],
    ['--idle-timeout 0', /--idle-timeout 0: expected/],
    ['--active-timeout -3', /--active-timeout -3: expected/],
    ['--k 3', /--k: does not apply to ensemble/],
    ['--features iat-size --k 3', /--k: does not apply to oc-kjl-qs/],
    ['--detector oc-nystrom-qs --centre', /--centre: does not apply to oc-nystrom-qs/],
    ['--detector oc-nystrom --no-centre', /--centre: does not apply to oc-nystrom/],
    ['--detector ensemble --members nearest,no-such', /--members: expected some of .*nearest.*, each once/],
    ['--detector ensemble --members hbos,hbos', /--members: expected some of .*, each once/],
    ['--detector ensemble --members ensemble', /--members: expected some of/],
    ['--detector ensemble --members gmm,kde --m 9', /--m: expected a member with landmarks, found gmm,kde/],
    ['--detector ensemble --members nearest --bins 9', /--bins: expected the member hbos, found nearest/],
    [
      '--detector ensemble --calibration-share 0.1',
      /--calibration-share: does not apply to --detector ensemble/,
    ],
    ['--detector hbos --bins 0', /--bins: expected a whole number from 1 to 1000/],
    ['--detector oc-kjl-qs --members nearest', /--members: does not apply to oc-kjl-qs/],
    ['--detector no-such', /--detector: expected one of .*oc-kjl-qs.*found no-such/],
    ['--recipe no-such', /--recipe.*default, paper, authors/],
    ['--recipe authors --truncation split', /--truncation split: --recipe authors cuts flows at idle gaps/],
    ['--recipe authors --active-timeout 9', /--active-timeout: --recipe authors cuts flows at idle gaps/],
    ['--recipe authors --end-on-close', /--end-on-close: --recipe authors cuts flows at idle gaps/],
    ['--recipe authors --features flow-summary', /--features flow-summary: --recipe authors cuts flows at/],
    ['--features flow-summary --size frame', /--size: does not apply to --features flow-summary/],
    ['--features flow-summary --truncation split', /--truncation: does not apply to --features flow-summary/],
    ['--features flow-summary --iat-unit us', /--iat-unit: does not apply to --features flow-summary/],
    ['--features no-such', /--features.*iat-size, iat, size, stats-header/],
    ['--features size --iat-unit us', /--iat-unit: does not apply to --features size; leave it out/],
    ['--protocols tcp,gre', /--protocols.*tcp,udp,icmp,sctp, found "gre"/],
    ['--decap innermost', /--decap.*outer, inner/],
    ['--scaler no-such', /--scaler.*none, standard/],
    ['--iat-unit ms', /--iat-unit.*s, us/],
    ['--size bits', /--size.*frame, ip, payload, captured/],
    ['--format csv', /--format.*text, json/],
    ['--sed 1', /unknown option '--sed' \(Did you mean --seed\?\); try: oddflow train --help/],
    ['--no-such', /unknown option '--no-such'/],
    ['--m', /--m.*argument missing/],
  ])('%s', (options, says) => expectUsage(['train', good, '-o', 'x', ...options.split(' ')], says))

  it.each([
    ['host 192.0.2.1 andd tcp', /--filter: column 16: .*"andd"/],
    ['', /--filter: column 1: /],
    ['tcp and (udp', /--filter: column 13: /],
    ['port 70000', /--filter: column 6: .*70000/],
    ['tcp[13] & 2 != 0', /--filter: column 1: /],
  ])('--filter %j names the column', (filter, says) =>
    expectUsage(['train', good, '-o', 'x', '--filter', filter], says),
  )

  it.each([
    [
      '--m 33',
      /^oddflow: --m: expected at most 32, the number of training rows, found 33; .*--calibration-share/,
    ],
    ['--detector nearest --m 33', /--m: expected at most 32, the number of training rows, found 33/],
    ['--d 101', /^oddflow: --d: expected at most 100, the number of landmarks, found 101\n$/],
    ['--m 20 --d 21', /--d: expected at most 20, the number of landmarks, found 21/],
    ['--detector oc-kjl --k 33', /--k: expected at most 32, the number of training rows, found 33/],
    ['--detector gmm --k 33', /--k: expected at most 32/],
  ])('%s is more than 40 rows of 3 columns allow', async (options, says) => {
    await expectUsage(['train', 'forty.csv', '-o', 'x', ...options.split(' ')], says)
  })

  it.each([
    ['0.9999', /--calibration-share: 0\.9999 leaves 1 of 40 rows to learn from, at least 2 are needed/],
    ['0.0001', /--calibration-share: 0\.0001 keeps none of 40 rows to set the threshold by/],
  ])('--calibration-share %s leaves one side without rows', async (share, says) => {
    await expectUsage(['train', 'forty.csv', '-o', 'x', '--calibration-share', share], says)
  })

  it('an input that is given twice is warned of, and the share that whole inputs came to is told', async () => {
    const args = ['train', 'forty.csv', './forty.csv', '-o', join(folder, 'twice')]
    const twice = await oddflow(args, { cwd: folder })
    expect(twice.code).toBe(0)
    expect(twice.stderr).toMatch(/warning: \.\/forty\.csv: is a copy of forty\.csv; .*leave one out/)
    expect(twice.stdout).toContain('rows drawn at random: 16 of 80 rows, 20 % (asked: 20 %)\n')
    const six = Array.from({ length: 6 }, (_, i) => `six-${i}.csv`)
    six.forEach((name, i) => {
      const lines = Array.from({ length: 20 }, (_, j) => `${j + i},${(j * j) % (17 + i)},${(j * 7) % 11}`)
      writeFileSync(join(folder, name), `${lines.join('\n')}\n`)
    })
    const whole = await oddflow(['train', ...six, '-o', join(folder, 'six')], { cwd: folder })
    expect(whole.stderr).not.toContain('is a copy of')
    expect(whole.stdout).toContain('2 whole inputs: 40 of 120 rows, 33.3 % (asked: 20 %)\n')
  })

  it('a default that 40 rows are too few for is lowered aloud, and not among the settings', async () => {
    const args = ['train', 'forty.csv', '-o', join(folder, 'lowered'), '--detector', 'oc-kjl-qs']
    const { stderr } = await oddflow(args, { cwd: folder })
    expect(stderr).toContain('m lowered from 100 to the 32 training rows')
    const { stdout } = await oddflow(['inspect', join(folder, 'lowered')])
    expect(stdout).toMatch(/settings .* --d 5/)
    expect(stdout).not.toContain(' --m ')
  })

  it('rows get the detector that suits them, of those that take the options given', async () => {
    const model = join(folder, 'suited')
    const trained = async (...options: string[]) => {
      const run = await oddflow(['train', 'forty.csv', '-o', model, ...options], { cwd: folder })
      expect(run.code).toBe(0)
      const { stdout } = await oddflow(['inspect', model, '--format', 'json'])
      return [(JSON.parse(stdout) as { kind: string }).kind, run.stderr.includes('suits these rows')]
    }
    expect(await trained()).toEqual(['oc-nystrom-qs', true])
    expect(await trained('--m', '20')).toEqual(['oc-nystrom-qs', false])
    expect(await trained('--k', '3')).toEqual(['gmm', false])
    expect(await trained('--bins', '9')).toEqual(['hbos', false])
    expect(await trained('--detector', 'nearest')).toEqual(['nearest', false])
    expect(await trained('--recipe', 'paper')).toEqual(['oc-kjl-qs', false])
    const none = (options: string, says: RegExp) =>
      expectUsage(['train', 'forty.csv', '-o', 'x', ...options.split(' ')], says)
    await none('--centre', /^oddflow: --centre: none of the detectors .* takes it; name one/)
    await none('--m 9 --k 3', /^oddflow: --m, --k: none of the detectors .* takes all of these/)
  })

  it('options for captures do not apply to rows', async () => {
    const of = (option: string): string[] => ['train', 'rows.csv', '-o', 'x', ...option.split(' ')]
    for (const option of [
      '--filter tcp',
      '--iat-unit s',
      '--size ip',
      '--truncation split',
      '--idle-timeout 9',
      '--active-timeout 9',
      '--features size',
      '--protocols tcp',
      '--decap inner',
      '--join-fragments',
      '--continuous',
    ]) {
      await expectUsage(
        of(option),
        new RegExp(`^oddflow: ${option.split(' ')[0]}: does not apply to feature rows`),
      )
    }
  })

  it('needs an input and an output', async () => {
    await expectUsage(['train', '-o', 'x'], /missing required argument 'input'/)
    await expectUsage(['train', good], /-o, --output <model>' not specified/)
  })
})

describe('inputs', () => {
  it('of two kinds are refused together', async () => {
    const mixed = /captures and feature rows cannot be mixed/
    await expectUsage(['train', good, 'rows.csv', '-o', 'x'], mixed)
    await expectUsage(['score', 'm', 'rows.csv', good], mixed)
    await expectUsage(['evaluate', 'm', '--normal', good, '--novel', 'rows.csv'], mixed)
  })

  it('standard input is one', async () => {
    await expectUsage(['train', '-', '-', '-o', 'x'], /standard input can be read once/)
    await expectUsage(['evaluate', 'm', '--normal', '-', '--novel', '-'], /standard input can be read once/)
  })

  it('rows are nothing to info and extract', async () => {
    await expectUsage(['info', 'rows.csv'], /rows\.csv: info reads captures/)
    await expectUsage(['extract', 'rows.csv', '-o', 'x.npy'], /rows\.csv: extract reads captures/)
  })
})

describe('the other commands', () => {
  it('refuse what does not go together', async () => {
    await expectUsage(
      ['extract', good, '-o', 'rows.txt'],
      /rows\.txt: expected a name that ends in \.npy or \.csv/,
    )
    await expectUsage(['extract', good, '-o', 'x.npy', '--model', 'm', '--size', 'ip'], /--size: the model's/)
    await expectUsage(['extract', good, '-o', 'x.npy', '--features', 'no-such'], /--features.*iat-size/)
    await expectUsage(['score', 'm', 'rows.csv', '--filter', 'tcp'], /--filter: does not apply/)
    await expectUsage(['score', 'm', 'rows.csv', '--continuous'], /--continuous: does not apply/)
    await expectUsage(['score', 'm', good, '--features', 'size'], /unknown option '--features'/)
    await expectUsage(
      ['extract', good, '-o', 'x.npy', '--model', 'm', '--recipe', 'paper'],
      /--recipe: the model's/,
    )
    await expectUsage(['info', good, '--filter', 'tpc'], /--filter: column 1/)
    await expectUsage(['score', 'm', good, '--format', 'xml'], /--format.*table, json, csv/)
    const evaluation = ['evaluate', 'm', '--normal', good, '--novel', good]
    await expectUsage(
      [...evaluation, '--filter', 'tcp', '--normal-filter', 'udp'],
      /--filter and --normal-filter/,
    )
    await expectUsage([...evaluation, '--novel-filter', 'tpc'], /--novel-filter: column 1: .*"tpc"/)
    await expectUsage(['evaluate', 'm', '--normal', good], /--novel <input\.\.\.>' not specified/)
    await expectUsage(['demo', 'extra'], /too many arguments/)
    await expectUsage(['inspect'], /missing required argument 'model'/)
  })

  it('and a command that does not exist', () =>
    expectUsage(['trian'], /unknown command 'trian' \(Did you mean train\?\); try: oddflow --help/))

  it('no command at all is answered with the help, on standard error', async () => {
    const run = await oddflow([])
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toContain('Usage: oddflow')
  })
})
