import { DataError } from '@oddflow/core'
import { CommanderError } from 'commander'
import { expect, it, vi } from 'vitest'
import { OutputClosed, oneLineErrors, reportFailure, UsageError } from '../src/index.js'

const line = (text: string): string => {
  let written = ''
  oneLineErrors('oddflow train --help').outputError?.(text, (part) => {
    written += part
  })
  return written
}

it('makes one line of a complaint and its suggestion', () => {
  expect(line("error: unknown option '--sed'\n(Did you mean --seed?)\n")).toBe(
    "oddflow: unknown option '--sed' (Did you mean --seed?); try: oddflow train --help\n",
  )
})

it.each([
  [
    "error: option '--seed <number>' argument '-1' is invalid. expected a whole number of 0 or more.\n",
    '--seed -1: expected a whole number of 0 or more',
  ],
  [
    "error: option '-o, --output <file>' argument 'it's' is invalid. expected another.\n",
    "--output it's: expected another",
  ],
  [
    "error: option '--group <kind>' argument 'host' is invalid. Allowed choices are capture, device.\n",
    '--group host: expected one of capture, device',
  ],
  [
    "error: option '--to <language>' argument 'rust' is invalid. Allowed choices are c.\n",
    '--to rust: expected c',
  ],
  [
    "error: command-argument value 'tcsh' is invalid for argument 'kind'. Allowed choices are bash, man.\n",
    'kind tcsh: expected one of bash, man',
  ],
])('says of a wrong value what was expected, as for every other option: %s', (text, said) => {
  expect(line(text)).toBe(`oddflow: ${said}; try: oddflow train --help\n`)
})

it('shows control characters of what was typed', () => {
  expect(line("error: unknown command 'a\n\u001b[2Jb'\n")).toBe(
    "oddflow: unknown command 'a\\u000a\\u001b[2Jb'; try: oddflow train --help\n",
  )
})

it('gives the error that ended a program its line and its exit code', () => {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const reported = (error: unknown): readonly [number, string] => {
    write.mockClear()
    return [reportFailure('oddflow', error), write.mock.calls.map(([text]) => text).join('')]
  }
  try {
    expect(reported(new UsageError('--fpr 2: expected less'))).toEqual([
      2,
      'oddflow: --fpr 2: expected less\n',
    ])
    expect(reported(new DataError('a.pcap: no\u0007 flows'))).toEqual([
      1,
      'oddflow: a.pcap: no\\u0007 flows\n',
    ])
    expect(reported(new OutputClosed())).toEqual([0, ''])
    expect(reported(new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)'))).toEqual([0, ''])
    expect(reported(new CommanderError(1, 'commander.unknownOption', 'x'))).toEqual([2, ''])
    const [code, text] = reported(new TypeError('x is not a function'))
    expect(code).toBe(1)
    expect(text).toMatch(
      /^oddflow: a bug in OddFlow; please report it .*\nTypeError: x is not a function\n {4}at /,
    )
    expect(reported(undefined)[1]).toMatch(/a bug in OddFlow.*\nundefined\n$/)
  } finally {
    write.mockRestore()
  }
})
