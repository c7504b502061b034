/**
 * Each shell completes the words of a command line by the script that `completion` prints; the manual page has every option.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Argument, Command, Option } from 'commander'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { completionCommand } from '../src/completion.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-completion-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function createProgram(): Command {
  const program = new Command('odd-test').description("A program: it's for tests.").version('1.0.0')
  program.addCommand(
    new Command('learn')
      .description("learn what's normal: rows (or $HOME, `id`, [x], 100 %)")
      .argument('<input...>')
      .addOption(new Option('-m, --mode <name>', 'how').choices(['fast', 'fair', 'slow']))
      .option('-o, --output <file>', 'the file to write; a\\b')
      .option('--no-guard', 'leave out the guard')
      .addHelpText('after', "\nExamples:\n  odd-test learn a.pcap -o 'b c'\n.starts with a dot"),
  )
  const devices = new Command('devices').description('devices')
  devices.command('list').description('list them').option('--all', 'all of them')
  devices
    .command('drop')
    .description('drop one')
    .addArgument(new Argument('<which>').choices(['oldest', 'newest']))
  program.addCommand(devices)
  program.addCommand(completionCommand(program, '1.0.0'))
  return program
}

function printed(kind: string): string {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  try {
    createProgram().parse(['node', 'odd-test', 'completion', kind])
    return write.mock.calls.map(([text]) => text).join('')
  } finally {
    write.mockRestore()
  }
}

function script(kind: string): string {
  const path = join(folder, kind)
  writeFileSync(path, printed(kind))
  return path
}

/** What is typed before the key, and what a shell then offers. */
const CASES: [string, string[]][] = [
  ['odd-test l', ['learn']],
  ['odd-test ', ['completion', 'devices', 'learn']],
  ['odd-test learn --m', ['--mode']],
  ['odd-test learn --no', ['--no-guard']],
  ['odd-test learn --mode f', ['fair', 'fast']],
  ['odd-test learn x.pcap -m s', ['slow']],
  ['odd-test devices ', ['drop', 'list']],
  ['odd-test devices list --a', ['--all']],
  ['odd-test devices drop ', ['newest', 'oldest']],
  ['odd-test completion f', ['fish']],
]

const has = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0
for (const program of ['bash', 'zsh', 'fish', 'man', 'mandoc']) {
  if (!has(program))
    console.warn(`SKIPPED: completion or the manual page was not tried with ${program}: not installed.`)
}

describe.skipIf(!has('bash'))('bash', () => {
  /** As Readline splits and asks: the function gets the words, and files are added where it answers nothing. */
  function complete(line: string): string[] {
    const words = line.split(/ |(?==)|(?<==)/)
    const code = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _odd_test; printf '%s\\n' "\${COMPREPLY[@]}"`
    const ran = spawnSync('bash', ['-c', code, script('bash'), ...words], { encoding: 'utf8', cwd: folder })
    expect(ran.stderr).toBe('')
    return ran.stdout
      .split('\n')
      .filter((word) => word !== '')
      .sort()
  }

  it.each([
    ...CASES,
    ['odd-test learn --mode=f', ['fair', 'fast']],
    ['odd-test learn --mode=', ['fair', 'fast', 'slow']],
  ])('%s', (line, offered) => expect(complete(line)).toEqual(offered))

  it('leaves files to the shell, as inputs and as the values of options', () => {
    expect(complete('odd-test learn x')).toEqual([])
    expect(complete('odd-test learn -o learn')).toEqual([])
    const ran = spawnSync('bash', ['-c', 'source "$0"; complete -p odd-test', script('bash')], {
      encoding: 'utf8',
    })
    expect(ran.stdout).toBe('complete -o bashdefault -o default -F _odd_test odd-test\n')
  })
})

it.skipIf(!has('fish'))('fish', () => {
  const path = script('fish')
  const code = CASES.map(([line]) => `complete -C '${line}'; echo ==`).join('; ')
  const ran = spawnSync('fish', ['--no-config', '-c', `source ${path}; ${code}`], {
    encoding: 'utf8',
    cwd: folder,
  })
  expect(ran.stderr).toBe('')
  const offered = ran.stdout.split('==\n').map((part) => part.split('\n').map((each) => each.split('\t')[0]))
  for (const [index, [line, words]] of CASES.entries()) {
    expect(offered[index]!.filter((word) => word !== '').sort(), line).toEqual(words)
  }
})

it.skipIf(!has('zsh'))('zsh', () => {
  writeFileSync(join(folder, '_odd-test'), printed('zsh'))
  // a terminal, where the completed word appears
  const code = `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1=ready; fpath=($PWD \\$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump; echo compi''nit"
    zpty -r shell out '*compinit*ready*'
    for line expected in 'odd-test l' '*learn*' '--mo' '*--mode*' 'fas' '*fast*'; do
      zpty -w -n shell "$line"$'\\t'
      zpty -r shell out "$expected" || exit 1
    done
    zpty -d shell
    echo completed`
  const ran = spawnSync('zsh', ['-f', '-c', code], { encoding: 'utf8', cwd: folder, timeout: 60_000 })
  expect(ran.stderr).toBe('')
  expect(ran.stdout).toBe('completed\n')
})

describe('the manual page', () => {
  it('has every command, option and example', () => {
    const page = printed('man')
    for (const text of [
      'learn',
      '\\-m, \\-\\-mode <name>',
      '\\-\\-no\\-guard',
      'DEVICES DROP',
      '"fast", "fair"',
    ]) {
      expect(page).toContain(text)
    }
    expect(page).toContain("odd\\-test learn a.pcap \\-o 'b c'\n\\&.starts with a dot")
    expect(page).toContain('a\\eb')
  })

  it.skipIf(!has('man'))('is laid out without a warning', () => {
    const ran = spawnSync('man', ['--warnings', '-Tutf8', '-P', 'cat', '-l', script('man')], {
      encoding: 'utf8',
      env: { ...process.env, MAN_KEEP_FORMATTING: '' },
    })
    expect(ran).toMatchObject({ status: 0, stderr: '' })
    expect(ran.stdout).toContain('.starts with a dot')
  })

  it.skipIf(!has('mandoc'))('has no fault that mandoc knows', () => {
    const ran = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning', script('man')], { encoding: 'utf8' })
    const faults = ran.stdout.split('\n').filter((line) => line !== '' && !line.includes('missing date'))
    expect(faults).toEqual([])
  })
})
