/** train --help is one screen; --help all has every option, from the same tables. */
import { CommanderError } from 'commander'
import { describe, expect, it } from 'vitest'
import { createProgram } from '../../src/run.js'

function helpOf(...args: string[]): string {
  let text = ''
  const program = createProgram()
  for (const command of [program, ...program.commands]) {
    command.configureOutput({ ...command.configureOutput(), writeOut: (part) => (text += part) })
  }
  try {
    program.parse(['node', 'oddflow', ...args])
  } catch (error) {
    if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error
  }
  return text
}

const flagsIn = (text: string): string[] =>
  [...text.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag)

describe('train --help', () => {
  const short = helpOf('train', '--help')
  const whole = helpOf('train', '--help', 'all')
  const all = createProgram()
    .commands.find((command) => command.name() === 'train')!
    .options.flatMap(({ long }) => long ?? [])

  it('fits a screen and shows what most need', () => {
    expect(short.split('\n').length).toBeLessThanOrEqual(60)
    for (const flag of [
      '--output',
      '--fpr',
      '--filter',
      '--continuous',
      '--recipe',
      '--detector',
      '--help',
    ]) {
      expect(flagsIn(short)).toContain(flag)
    }
    expect(short).toMatch(/Examples:\n {2}oddflow train/)
    expect(short).not.toMatch(/--bins|--quantile-compat/)
  })

  it('says how many more there are and how they are shown', () => {
    const more = Number(/--help all lists (\d+) more options: /.exec(short)?.[1])
    expect(flagsIn(short).length + more).toBe(all.length)
  })

  it('has all with --help all, and the same text for those of both', () => {
    expect(flagsIn(whole).sort()).toEqual([...all].sort())
    expect(whole).not.toMatch(/more options with/)
    expect(helpOf('train', '-h')).toBe(short)
    expect(helpOf('help', 'train')).toBe(short)
  })

  it('needs no input beside it, and goes before the other arguments', () => {
    expect(helpOf('train', 'a.pcap', '--help')).toBe(short)
    expect(helpOf('train', '--help', 'a.pcap')).toBe(short)
  })
})
