/** The C header of a model gives the bits of `scoreSamples`, compiled with all warnings as errors. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { encodeCHeader, isNovel, type SavedModel } from '../src/index.js'
import { C_WRITERS } from '../src/registry.js'
import { sampleModel } from './model-file/sample.js'
import { firstDifference, forgedCases, type PortCase, portCases } from './port-cases.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-c-'))
afterAll(() => rmSync(folder, { recursive: true }))

const FLAGS = ['-std=c99', '-Wall', '-Wextra', '-Werror', '-pedantic', '-ffp-contract=off']

/** Compilers, and what runs their programs. In Debian: gcc-arm-linux-gnueabihf, gcc-aarch64-linux-gnu, qemu-user-static. */
const MACHINES = [
  { machine: 'this machine', compiler: 'gcc', emulator: null, flags: ['-O2'] },
  {
    machine: 'this machine, with sanitizers',
    compiler: 'gcc',
    emulator: null,
    flags: ['-O1', '-fsanitize=address,undefined,float-cast-overflow', '-fno-sanitize-recover=all'],
  },
  {
    machine: '32-bit ARM',
    compiler: 'arm-linux-gnueabihf-gcc',
    emulator: 'qemu-arm-static',
    flags: ['-O2', '-static'],
  },
  {
    machine: '64-bit ARM',
    compiler: 'aarch64-linux-gnu-gcc',
    emulator: 'qemu-aarch64-static',
    flags: ['-O2', '-static'],
  },
] as const

const runs = (program: string): boolean => spawnSync(program, ['--version']).status === 0

/** Of each model a score and a verdict for each of its rows, as doubles. */
function program(count: number): string {
  const numbers = Array.from({ length: count }, (_, i) => i)
  return `#include <stdio.h>
${numbers.map((i) => `#include "m${i}.h"\n`).join('')}
int main(void) {
  static double row[64];
  double score[2];
${numbers
  .map(
    (i) => `  {
    double rows;
    if (fread(&rows, 8, 1, stdin) != 1) return 1;
    while (rows-- > 0) {
      if (fread(row, 8, M${i}_COLUMNS, stdin) != M${i}_COLUMNS) return 1;
      score[0] = m${i}_score(row);
      score[1] = m${i}_is_novel(score[0]);
      fwrite(score, 8, 2, stdout);
    }
  }
`,
  )
  .join('')}  return 0;
}
`
}

type Machine = (typeof MACHINES)[number]

function skipWithout({ compiler, emulator }: Machine, context: TestContext): void {
  const needed = emulator === null ? [compiler] : [compiler, emulator]
  if (!needed.every(runs)) context.skip(`no ${needed.join(' or ')}`)
}

/** Of the models in one program: each score that differs in a bit, each verdict that differs. */
function differencesOf(
  cases: readonly Omit<PortCase, 'bytes'>[],
  { compiler, emulator, flags }: Machine,
): string[] {
  cases.forEach(({ saved }, i) => {
    writeFileSync(join(folder, `m${i}.h`), encodeCHeader(saved, { name: `m${i}` }).text)
  })
  writeFileSync(join(folder, 'main.c'), program(cases.length))
  const out = join(folder, 'main')
  execFileSync(compiler, [...FLAGS, ...flags, '-o', out, join(folder, 'main.c'), '-lm'])
  const input = cases.map(({ rows }) => Buffer.from(Float64Array.of(rows.rows, ...rows.data).buffer))
  const options = { input: Buffer.concat(input), maxBuffer: 2 ** 28 }
  const answer = emulator === null ? execFileSync(out, options) : execFileSync(emulator, [out], options)
  const numbers = new Float64Array(answer.buffer.slice(answer.byteOffset, answer.byteOffset + answer.length))
  expect(numbers.length).toBe(cases.reduce((sum, { rows }) => sum + 2 * rows.rows, 0))
  let at = 0
  return cases.flatMap((one) => {
    const pairs = numbers.slice(at, at + 2 * one.rows.rows)
    at += pairs.length
    const verdicts = pairs.filter((_, i) => i % 2 === 1)
    const isAsHere = one.scores.every(
      (score, i) => verdicts[i] === Number(isNovel(score, one.saved.threshold)),
    )
    const difference = firstDifference(
      one,
      pairs.filter((_, i) => i % 2 === 0),
    )
    return [...(difference === undefined ? [] : [difference]), ...(isAsHere ? [] : [`${one.name}: verdicts`])]
  })
}

/** Whether a header can hold the model, and each member of an ensemble. */
const isExported = ({ saved: { detector } }: PortCase): boolean => {
  const names = detector.kind === 'ensemble' ? detector.parameters.members : [detector.kind]
  return names.every((name) => C_WRITERS[name] !== undefined)
}

describe('models as C', () => {
  it.for(MACHINES)('score to the bit on $machine', { timeout: 600_000 }, (machine, context) => {
    skipWithout(machine, context)
    const all = portCases().filter(isExported)
    // the compilers of other machines and the sanitizers take most of the time
    expect(differencesOf(machine === MACHINES[0] ? all : sampleOf(all, 0.25), machine)).toEqual([])
  })

  it('score as here though the file was forged, without a fault', { timeout: 600_000 }, (context) => {
    const machine = MACHINES[1]
    skipWithout(machine, context)
    const cases = forgedCases().flatMap(({ name, rows, read }) =>
      read === null ? [] : [{ name, rows, ...read }],
    )
    expect(cases.length).toBeGreaterThan(0)
    expect(differencesOf(cases, machine)).toEqual([])
  })

  it('give no score of a row that is not finite, which is novel', (context) => {
    if (!runs('gcc')) context.skip('no gcc')
    writeFileSync(join(folder, 'm0.h'), encodeCHeader(sampleModel(), { name: 'm0' }).text)
    writeFileSync(join(folder, 'main.c'), program(1))
    const out = join(folder, 'nan')
    execFileSync('gcc', [...FLAGS, '-o', out, join(folder, 'main.c'), '-lm'])
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const answer = execFileSync(out, { input: Buffer.from(Float64Array.of(1, 0, bad, 0).buffer) })
      expect([answer.readDoubleLE(0), answer.readDoubleLE(8)]).toEqual([Number.NaN, 1])
    }
  })
})

describe('the text of a header', () => {
  it('is refused for a detector that has none, by its name', () => {
    const writers = C_WRITERS as { pca?: unknown }
    const { pca } = writers
    delete writers.pca
    try {
      expect(() => encodeCHeader(sampleModel({ detector: 'pca' }))).toThrow(
        'detector: pca cannot be exported to C; train another detector',
      )
    } finally {
      writers.pca = pca
    }
  })

  it('is the same for the same model, and says its sizes', () => {
    const first = encodeCHeader(sampleModel())
    expect(encodeCHeader(sampleModel())).toEqual(first)
    expect(first.text).toContain(`${first.tableBytes} bytes of constant tables`)
    expect(first.text).toContain('#define ODDFLOW_COLUMNS 3')
  })

  it('has no text of the model, however hostile', () => {
    const hostile = '*/\n#include "/etc/passwd"\nint x = system("id"); /*\\\n??/'
    const sample = sampleModel()
    const forged: SavedModel = {
      ...sample,
      onePacketRule: { flows: 1, services: [hostile] },
      provenance: { ...sample.provenance, oddflowVersion: hostile, dataSha256: hostile },
      detector: {
        ...sample.detector,
        fitReport: { ...sample.detector.fitReport, notes: [hostile] },
      } as SavedModel['detector'],
    }
    expect(encodeCHeader(forged).text).toBe(encodeCHeader(sample).text)
  })

  it.each(['', 'a b', '1a', 'a"', 'a*/', 'a\nb', 'é', 'a'.repeat(41), 'a$b'])(
    'refuses the name %j',
    (name) => {
      expect(() => encodeCHeader(sampleModel(), { name })).toThrow(/^name: expected at most 40 letters/)
    },
  )
})
