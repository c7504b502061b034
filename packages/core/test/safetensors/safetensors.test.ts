import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  ArgumentError,
  decodeSafetensors,
  encodeSafetensors,
  FormatError,
  type Safetensors,
  type Tensor,
} from '../../src/index.js'
import { hasPython, hasPythonSafetensors, python } from '../python.js'
import { safetensors } from './arbitrary.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-safetensors-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A file put together here from the format's description alone. */
function build(header: string, data: number[] | Uint8Array = [], length?: number): Uint8Array {
  const text = new TextEncoder().encode(header)
  const out = new Uint8Array(8 + text.length + data.length)
  new DataView(out.buffer).setBigUint64(0, BigInt(length ?? text.length), true)
  out.set(text, 8)
  out.set(data, 8 + text.length)
  return out
}

function refusal(bytes: Uint8Array): FormatError {
  try {
    decodeSafetensors(bytes)
  } catch (error) {
    if (error instanceof FormatError) return error
    throw error
  }
  throw new Error('it was read')
}

const small: Safetensors = {
  tensors: new Map<string, Tensor>([
    ['labels', { dtype: 'U16', shape: [3], data: Uint16Array.of(1, 2, 65535) }],
    ['means', { dtype: 'F64', shape: [2, 2], data: Float64Array.of(1.5, -0, Number.MIN_VALUE, 1 / 3) }],
    ['weights', { dtype: 'F32', shape: [2], data: Float32Array.of(0.25, 0.75) }],
  ]),
  metadata: new Map([
    ['kind', 'oc-kjl'],
    ['formatVersion', '1'],
  ]),
}

describe('encodeSafetensors', () => {
  it('writes the layout that the format describes', () => {
    const bytes = encodeSafetensors({
      tensors: new Map([['a', { dtype: 'U16', shape: [2], data: Uint16Array.of(258, 3) }]]),
      metadata: new Map([['k', 'v']]),
    })
    const header = '{"__metadata__":{"k":"v"},"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}}'
    expect(Buffer.from(bytes)).toEqual(
      Buffer.from(build(header.padEnd(Math.ceil(header.length / 8) * 8), [2, 1, 3, 0])),
    )
  })

  it('aligns every tensor to its element', () => {
    fc.assert(
      fc.property(safetensors, (file) => {
        const bytes = encodeSafetensors(file)
        const headerBytes = new DataView(bytes.buffer).getUint32(0, true)
        const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerBytes))) as Record<
          string,
          { data_offsets: [number, number] }
        >
        for (const [name, tensor] of file.tensors) {
          const begin = 8 + headerBytes + header[name]!.data_offsets[0]
          expect(begin % tensor.data.BYTES_PER_ELEMENT).toBe(0)
        }
        expect(headerBytes % 8).toBe(0)
      }),
    )
  })

  it('gives the same bytes whatever the order of insertion', () => {
    fc.assert(
      fc.property(safetensors, (file) => {
        const turned = {
          tensors: new Map([...file.tensors].reverse()),
          metadata: new Map([...file.metadata].reverse()),
        }
        expect(Buffer.from(encodeSafetensors(turned))).toEqual(Buffer.from(encodeSafetensors(file)))
      }),
    )
  })

  const one = (name: string, tensor: unknown): Safetensors => ({
    tensors: new Map([[name, tensor as Tensor]]),
    metadata: new Map(),
  })
  it.each([
    ['the metadata key', one('__metadata__', { dtype: 'U8', shape: [0], data: new Uint8Array(0) })],
    ['half a surrogate pair', one('\ud800', { dtype: 'U8', shape: [0], data: new Uint8Array(0) })],
    ['another array type', one('a', { dtype: 'F64', shape: [1], data: new Float32Array(1) })],
    ['a shape that does not fit', one('a', { dtype: 'F64', shape: [2], data: new Float64Array(1) })],
    ['a negative shape', one('a', { dtype: 'F64', shape: [-1, -1], data: new Float64Array(1) })],
    ['metadata that is no text', { tensors: new Map(), metadata: new Map([['a', 1 as unknown as string]]) }],
    ['a header without end', { tensors: new Map(), metadata: new Map([['a', 'x'.repeat(9_000_000)]]) }],
  ])('refuses %s', (_, file) => {
    expect(() => encodeSafetensors(file)).toThrow(ArgumentError)
  })
})

describe('decodeSafetensors', () => {
  it('takes 1,024 tensors, and refuses more at the first too many', () => {
    const table = (count: number): Uint8Array =>
      build(
        `{${Array.from({ length: count }, (_, i) => `"t${i}":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`).join(',')}}`,
      )
    expect(decodeSafetensors(table(1024)).tensors.size).toBe(1024)
    expect(() => decodeSafetensors(table(1025))).toThrow(/at most 1024 tensors, found 1025/)
    // 7 MB of header; the offset tells that the rest of it was not looked at
    const error = refusal(table(120_000))
    expect(error.message).toMatch(/more than 1025 entries/)
    expect(error.offsetBytes).toBeLessThan(70_000)
    const many = new Map(
      Array.from({ length: 1025 }, (_, i) => [
        `t${i}`,
        { dtype: 'U8', shape: [0], data: new Uint8Array(0) } as const,
      ]),
    )
    expect(() => encodeSafetensors({ tensors: many, metadata: new Map() })).toThrow(
      /tensors: expected at most 1024/,
    )
    const notes = new Map(Array.from({ length: 1025 }, (_, i) => [`m${i}`, '']))
    expect(() => encodeSafetensors({ tensors: new Map(), metadata: notes })).toThrow(
      /metadata: expected at most 1024/,
    )
  })

  it('gives back what was written, bit for bit', () => {
    fc.assert(
      fc.property(safetensors, (file) => {
        const back = decodeSafetensors(encodeSafetensors(file))
        expect(new Map(back.metadata)).toEqual(new Map(file.metadata))
        expect([...back.tensors.keys()].sort()).toEqual([...file.tensors.keys()].sort())
        for (const [name, tensor] of file.tensors) {
          const found = back.tensors.get(name)!
          expect(found.dtype).toBe(tensor.dtype)
          expect(found.shape).toEqual(tensor.shape)
          // as bytes: NaN payloads and negative zeros count
          expect(Buffer.from(found.data.buffer as ArrayBuffer)).toEqual(
            Buffer.from(tensor.data.buffer as ArrayBuffer),
          )
        }
      }),
      { numRuns: sampleCount(300) },
    )
  })

  it('reads from a view at an odd offset and from a Buffer, and copies', () => {
    const bytes = encodeSafetensors(small)
    const shifted = Buffer.concat([Buffer.of(0), bytes]).subarray(1)
    const back = decodeSafetensors(shifted)
    shifted.fill(0)
    expect(back.tensors.get('means')).toEqual(small.tensors.get('means'))
    expect([...back.tensors.keys()]).toEqual(['means', 'weights', 'labels'])
  })

  it('reads headers that others write: any key order, spaces, escapes, no metadata', () => {
    const header =
      '{"b":{"data_offsets":[2,4], "shape":[2,1],"dtype":"U8"},"\\u0061":{"dtype":"U16","shape":[],"data_offsets":[0,2]}}\n '
    const back = decodeSafetensors(build(header, [1, 2, 3, 4]))
    expect([...back.tensors]).toEqual([
      ['a', { dtype: 'U16', shape: [], data: Uint16Array.of(513) }],
      ['b', { dtype: 'U8', shape: [2, 1], data: Uint8Array.of(3, 4) }],
    ])
    expect(back.metadata.size).toBe(0)
    expect(decodeSafetensors(build('{}')).tensors.size).toBe(0)
  })

  const u8 = (name: string, begin: number, end: number): string =>
    `"${name}":{"dtype":"U8","shape":[${end - begin}],"data_offsets":[${begin},${end}]}`
  it.each<[string, Uint8Array, RegExp, number, string]>([
    ['nothing', new Uint8Array(0), /found 0/, 0, 'header length'],
    [
      'text',
      new TextEncoder().encode('hello, world: no tensors'),
      /not a safetensors file/,
      0,
      'header length',
    ],
    ['a header of 2^63 bytes', build('{}', [], 2 ** 62), /at most 2 are possible/, 0, 'header length'],
    ['a header of one byte', build('{}', [], 1), /header of 1 bytes/, 0, 'header length'],
    ['an array', build('[]'), /start with \{/, 8, 'header'],
    ['bad UTF-8', build('{"', [0xff, 0x22]).fill(4, 0, 1), /UTF-8/, 8, 'header'],
    ['no JSON', build('{"a" 1}'), /is not JSON/, 13, 'header'],
    ['a repeated tensor', build(`{${u8('é', 0, 1)},${u8('é', 0, 1)}}`, [1]), /repeats the key/, 62, 'header'],
    ['metadata of numbers', build('{"__metadata__":{"a":1}}'), /__metadata__."a"/, 9, '__metadata__.a'],
    ['metadata that is a list', build('{"__metadata__":[]}'), /object of strings/, 9, '__metadata__'],
    ['a tensor that is null', build('{"a":null}'), /expected an object/, 9, 'a'],
    [
      'a hole in front',
      build(`{${u8('a', 1, 2)}}`, [1, 2]),
      /hole before it: expected it to begin at 0, found 1/,
      9,
      'a',
    ],
    ['a hole between', build(`{${u8('a', 0, 1)},${u8('b', 2, 3)}}`, [1, 2, 3]), /"b" leaves a hole/, 61, 'b'],
    ['an overlap', build(`{${u8('a', 0, 2)},${u8('b', 1, 3)}}`, [1, 2, 3]), /"b" overlaps/, 61, 'b'],
    ['one inside another', build(`{${u8('a', 0, 3)},${u8('b', 1, 2)}}`, [1, 2, 3]), /"b" overlaps/, 61, 'b'],
    ['a tensor past the end', build(`{${u8('a', 0, 3)}}`, [1, 2]), /ends at 3, but only 2/, 9, 'a'],
    ['bytes after the last', build(`{${u8('a', 0, 1)}}`, [1, 2]), /1 bytes follow/, 62, 'data_offsets'],
    [
      'a shape too large',
      build('{"a":{"dtype":"F64","shape":[9007199254740991,9],"data_offsets":[0,8]}}', new Uint8Array(8)),
      /shape/,
      9,
      'a',
    ],
    [
      'a shape that is not whole',
      build('{"a":{"dtype":"U8","shape":[0.5],"data_offsets":[0,1]}}', [1]),
      /shape/,
      9,
      'a',
    ],
    [
      'a negative shape',
      build('{"a":{"dtype":"U8","shape":[-1,-1],"data_offsets":[0,1]}}', [1]),
      /shape/,
      9,
      'a',
    ],
    [
      'offsets turned round',
      build('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}', [1]),
      /data_offsets 1 to 0/,
      9,
      'a',
    ],
    [
      'three offsets',
      build('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}', [1]),
      /data_offsets/,
      9,
      'a',
    ],
    [
      'too few bytes',
      build('{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,7]}}', new Uint8Array(7)),
      /expected 8 bytes/,
      9,
      'a',
    ],
    [
      'an unknown field',
      build('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}', [1]),
      /unknown field "x"/,
      9,
      'a',
    ],
    [
      'BF16, by name',
      build('{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}', [1, 2]),
      /found "BF16"/,
      9,
      'a',
    ],
    ['I64, by name', build('{"a":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}'), /found "I64"/, 9, 'a'],
    [
      'a dtype from the prototype',
      build('{"a":{"dtype":"constructor","shape":[0],"data_offsets":[0,0]}}'),
      /found "constructor"/,
      9,
      'a',
    ],
    ['no dtype', build('{"a":{}}'), /found nothing/, 9, 'a'],
    [
      'half a surrogate pair',
      build('{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
      /well-formed/,
      9,
      '\ud800',
    ],
  ])('refuses %s', (_, bytes, message, offsetBytes, field) => {
    const error = refusal(bytes)
    expect(error.message).toMatch(message)
    expect([error.offsetBytes, error.field]).toEqual([offsetBytes, field])
  })

  it('refuses a large hostile header in time that grows with its length', () => {
    const names = Array.from({ length: 60_000 }, (_, i) => u8(`t${i}`, 1, 1)).join()
    const before = process.cpuUsage()
    expect(refusal(build(`{${names}}`)).message).toMatch('more than 1025 entries')
    expect(process.cpuUsage(before).user).toBeLessThan(5e6)
  })

  it('keeps __proto__ a name like any other', () => {
    const proto = {
      tensors: new Map([['__proto__', small.tensors.get('labels')!]]),
      metadata: new Map([['__proto__', 'x']]),
    }
    const back = decodeSafetensors(encodeSafetensors(proto))
    expect(back.tensors.get('__proto__')).toEqual(small.tensors.get('labels'))
    expect(back.metadata.get('__proto__')).toBe('x')
    expect(({} as Record<string, unknown>).dtype).toBeUndefined()
  })

  it('answers every truncation with a FormatError', () => {
    const bytes = encodeSafetensors(small)
    for (let length = 0; length < bytes.length; length++) refusal(bytes.subarray(0, length))
  })

  it('answers every changed byte with a value or a FormatError', () => {
    const bytes = encodeSafetensors(small)
    for (let i = 0; i < bytes.length; i++) {
      for (const mask of [1, 2, 4, 8, 16, 32, 64, 128, 255]) {
        const bad = bytes.slice()
        bad[i]! ^= mask
        try {
          decodeSafetensors(bad)
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError)
        }
      }
    }
  })
})

describe.skipIf(!hasPython)('an independent reader in Python', () => {
  it('reads the same tensors and metadata', () => {
    const path = join(folder, 'small.safetensors')
    writeFileSync(path, encodeSafetensors(small))
    const reader = fileURLToPath(
      new URL('../../../../tools/independent-readers/read_safetensors.py', import.meta.url),
    )
    const found = JSON.parse(python(reader, path)) as Record<string, Record<string, Record<string, unknown>>>
    expect(found.metadata).toEqual({ kind: 'oc-kjl', formatVersion: '1' })
    expect(found.tensors!.means).toMatchObject({
      shape: [2, 2],
      aligned: true,
      values: ['0x1.8000000000000p+0', '-0x0.0p+0', '0x0.0000000000001p-1022', '0x1.5555555555555p-2'],
    })
    expect(found.tensors!.labels).toMatchObject({ aligned: true, values: [1, 2, 65535] })
    expect(found.tensors!.weights).toMatchObject({ aligned: true, shape: [2] })
  })
})

describe.skipIf(!hasPythonSafetensors)("Hugging Face's safetensors", () => {
  it('reads what we write, and we read what it writes', () => {
    const ours = join(folder, 'ours.safetensors')
    const theirs = join(folder, 'theirs.safetensors')
    writeFileSync(ours, encodeSafetensors(small))
    const script = `
import sys, safetensors, safetensors.numpy as sn
with safetensors.safe_open(sys.argv[1], 'numpy') as f: metadata = f.metadata()
sn.save_file(sn.load_file(sys.argv[1]), sys.argv[2], metadata)
import base64; print(base64.b64encode(open(sys.argv[2], 'rb').read()).decode())`
    const back = decodeSafetensors(Buffer.from(python('-c', script, ours, theirs), 'base64'))
    expect(new Map([...back.tensors].sort())).toEqual(new Map([...small.tensors].sort()))
    expect(new Map([...back.metadata].sort())).toEqual(new Map([...small.metadata].sort()))
  })
})
