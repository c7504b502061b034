/** python/oddflow.py reads what is written here, and scores to the bit. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decodeNpyMatrix, encodeNpy } from '@oddflow/core'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { encodeModelFile, predict } from '../../src/index.js'
import { DEFAULT_CASE, firstDifference, forgedCases, portCases, signed } from '../port-cases.js'
import { sampleModel } from './sample.js'

const source = fileURLToPath(new URL('../../../../python', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'oddflow-python-'))
afterAll(() => rmSync(folder, { recursive: true }), 60_000)

const hasNumpy = spawnSync('python3', ['-c', 'import numpy']).status === 0
beforeEach((context) => {
  if (!hasNumpy) context.skip('no python3 with numpy')
})

/** What the program prints, which begins with `import numpy, oddflow, sys`. */
function python(program: string, ...args: string[]): string {
  const text = `import sys\nsys.path.insert(0, ${JSON.stringify(source)})\nsys.dont_write_bytecode = True\nimport numpy, oddflow\n${program}`
  return execFileSync('python3', ['-W', 'error', '-c', text, ...args], { encoding: 'utf8' })
}

/** Loads each file given and prints what it says of it, a line each. */
const LOAD_EACH = `
for path in sys.argv[1:]:
    try:
        oddflow.load(path)
        print("read")
    except oddflow.ModelError as error:
        print(error)
`

describe('oddflow.py', () => {
  it('scores to the bit, with all detectors, scalers and precisions', { timeout: 300_000 }, () => {
    const cases = portCases()
    const paths = cases.map(({ bytes, rows }, i) => {
      const path = join(folder, `${i}`)
      writeFileSync(path, bytes)
      writeFileSync(`${path}.npy`, encodeNpy(rows))
      return path
    })
    python(
      `
for path in sys.argv[1:]:
    model, rows = oddflow.load(path), numpy.load(path + ".npy")
    numpy.save(path + ".out.npy", numpy.stack([model.score(rows), model.predict(rows)]))
`,
      ...paths,
    )
    cases.forEach((one, i) => {
      const { data, cols } = decodeNpyMatrix(readFileSync(`${paths[i]}.out.npy`))
      expect(firstDifference(one, data.slice(0, cols))).toBeUndefined()
      const verdicts = Array.from(one.scores, (score) => predict(score, one.saved.threshold))
      expect([...data.slice(cols)], one.name).toEqual(verdicts)
    })
  })

  it('gives a row the same bits in any batch', () => {
    const one = portCases().find(({ name }) => name === DEFAULT_CASE)!
    const path = join(folder, 'batch')
    writeFileSync(path, one.bytes)
    writeFileSync(`${path}.npy`, encodeNpy(one.rows))
    const same = python(
      `
model, rows = oddflow.load(sys.argv[1]), numpy.load(sys.argv[1] + ".npy")
all_at_once = model.score(rows)
model._batch = 7
print((model.score(rows) == all_at_once).all())
`,
      path,
    )
    expect(same.trim()).toBe('True')
  })

  it('refuses rows that are not finite or not as wide as in training', () => {
    const path = join(folder, 'rows')
    writeFileSync(path, encodeModelFile(sampleModel()))
    const said = python(
      `
model = oddflow.load(sys.argv[1])
print(model.score(numpy.empty((0, 3))).shape)
for rows in ([[1, 2]], [1, 2, 3], [[1, 2, numpy.nan]], [[1, 2, numpy.inf]], [[1, 2, 10**400]]):
    try:
        model.score(rows)
    except ValueError as error:
        print(error)
`,
      path,
    )
    expect(said.trim().split('\n')).toEqual([
      '(0,)',
      'rows: expected 3 columns as in training, found shape (1, 2)',
      'rows: expected 3 columns as in training, found shape (3,)',
      'rows: expected finite numbers',
      'rows: expected finite numbers',
      'rows: expected finite numbers, found an integer beyond the range of float64',
    ])
  })
})

/** The file with its header's text changed. */
function withHeader(file: Uint8Array, change: (header: string) => string): Uint8Array {
  const end = 8 + new DataView(file.buffer, file.byteOffset).getUint32(0, true)
  const text = Buffer.from(change(Buffer.from(file.subarray(8, end)).toString()).trimEnd())
  const head = Buffer.alloc(8 + 8 * Math.ceil(text.length / 8), ' ')
  head.writeBigUInt64LE(BigInt(head.length - 8))
  text.copy(head, 8)
  return signed(Buffer.concat([head, file.subarray(end)]))
}

describe('oddflow.py, of files that are no models', () => {
  const bytes = encodeModelFile(sampleModel({ scaler: 'quantile' }))
  const loaded = (files: readonly Uint8Array[]): string[] => {
    const paths = files.map((file, i) => {
      writeFileSync(join(folder, `bad-${i}`), file)
      return join(folder, `bad-${i}`)
    })
    const lines = python(LOAD_EACH, ...paths)
      .trimEnd()
      .split('\n')
    return lines.map((line, i) => line.replace(`${paths[i]}: `, ''))
  }

  it('says what is wrong, and never more than a line', () => {
    const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const cases: [Uint8Array, string | RegExp][] = [
      [bytes, 'read'],
      [new Uint8Array(0), 'this is no OddFlow model'],
      [Buffer.from('not a model, but a text of some length, and then some more'), 'this is no OddFlow model'],
      [bytes.subarray(0, 900), /^header: expected a length within the file|^checksum: the file is damaged/],
      [
        bytes.map((byte, at) => (at === bytes.length - 9 ? byte ^ 1 : byte)),
        /^checksum: the file is damaged/,
      ],
      [
        withHeader(bytes, (h) => h.replace('"formatVersion":"1"', '"formatVersion":"2"')),
        /^formatVersion: expected 1, found '2'/,
      ],
      [
        withHeader(bytes, (h) => h.replace('"kind":"oc-kjl-qs"', '"kind":"magic"')),
        /^parameters.detector: expected magic/,
      ],
      [
        withHeader(bytes, (h) => h.replaceAll('oc-kjl-qs', 'magic')),
        /^kind: the detector 'magic' is not known/,
      ],
      [
        withHeader(bytes, (h) => h.replace('"fitReport"', '"kind":"x","fitReport"')),
        /^header: expected different keys/,
      ],
      [
        withHeader(bytes, (h) => h.replace(/"shape":\[6,3\]/, '"shape":[6,1e999]')),
        /^embedding.landmarks.shape: expected a whole number/,
      ],
      [
        withHeader(bytes, (h) => h.replace(/"shape":\[6,3\]/, '"shape":[9007199254740993,3]')),
        /^embedding.landmarks.shape: expected a whole number/,
      ],
      [
        withHeader(bytes, (h) => h.replace(/"shape":\[6,3\]/, '"shape":[true,3]')),
        /^embedding.landmarks.shape: expected a whole number/,
      ],
      [withHeader(bytes, (h) => h.replace(/"shape":\[6,3\]/, `"shape":${nested}`)), /^header: expected JSON/],
      [
        withHeader(bytes, (h) => h.replace(/\\"bandwidth\\":[^,}]*/, '\\"bandwidth\\":NaN')),
        /^embedding: expected JSON/,
      ],
      [
        withHeader(bytes, (h) => h.replace(/\\"bandwidth\\":[^,}]*/, '\\"bandwidth\\":0')),
        /^embedding.bandwidth: expected a positive number/,
      ],
      [
        withHeader(bytes, (h) => h.replace('"embedding.landmarks"', '"\\n\\u001b[2J"')),
        /^embedding.landmarks: expected a tensor of F64/,
      ],
    ]
    const said = loaded(cases.map(([file]) => file))
    cases.forEach(([, expected], i) => {
      if (typeof expected === 'string') expect(said[i]).toBe(expected)
      else expect(said[i]).toMatch(expected)
    })
  })

  it('takes no memory beyond what the file needs', () => {
    const path = join(folder, 'small')
    writeFileSync(path, portCases()[0]!.bytes)
    const program = `
import tracemalloc
tracemalloc.start()
oddflow.load(sys.argv[1])
print(tracemalloc.get_traced_memory()[1])
`
    expect(Number(python(program, path))).toBeLessThan(2 ** 24)
  })

  it('refuses whatever was cut or damaged', () => {
    const cuts = Array.from({ length: bytes.length }, (_, at) => at).filter((at) => at % 7 === 0)
    const damaged = sampleOf(cuts).flatMap((at) => [
      bytes.subarray(0, at),
      bytes.map((byte, i) => (i === at ? byte ^ 0x10 : byte)),
    ])
    expect(loaded(damaged).filter((line) => line === 'read')).toEqual([])
  })

  it('refuses a forged tensor, or scores with it as the reader here does', { timeout: 600_000 }, () => {
    const cases = forgedCases().map((one, i) => {
      const path = join(folder, `forged-${i}`)
      writeFileSync(path, one.bytes)
      writeFileSync(`${path}.npy`, encodeNpy(one.rows))
      return { ...one, path }
    })
    const said = python(
      `
for path in sys.argv[1:]:
    try:
        scores = oddflow.load(path).score(numpy.load(path + ".npy"))
        numpy.save(path + ".out.npy", scores[:, None])
        print("read")
    except oddflow.ModelError as error:
        print("refused")
`,
      ...cases.map(({ path }) => path),
    )
    const lines = said.trim().split('\n')
    cases.forEach((one, i) => {
      if (one.read === null) return
      expect(lines[i], one.name).toBe('read')
      const found = decodeNpyMatrix(readFileSync(`${one.path}.out.npy`)).data
      expect(firstDifference({ ...one, ...one.read }, found)).toBeUndefined()
    })
    expect(lines.filter((line) => line === 'refused').length).toBeGreaterThan(lines.length / 2)
  })
})
