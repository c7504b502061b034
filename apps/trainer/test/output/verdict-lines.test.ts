import type { SavedModel } from '@oddflow/detectors'
import type { FlowExplanation } from '@oddflow/program'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { InputKind } from '../../src/inputs.js'
import { createVerdictWriter, timeText, verdictJson } from '../../src/output/verdict-lines.js'
import type { InputVerdict } from '../../src/pipeline/verdict-store.js'
import { flowVerdict, rowVerdict, smallModel } from '../small-model.js'

function written(
  format: 'table' | 'json' | 'csv',
  kind: InputKind,
  verdicts: readonly InputVerdict[],
  explained: SavedModel | null = null,
): string[] {
  const lines: string[] = []
  const writer = createVerdictWriter(
    format,
    kind,
    { line: (text) => lines.push(text), flush() {} },
    explained,
  )
  for (const verdict of verdicts) writer.write(verdict)
  return lines
}

/** A reader of RFC 4180 records, of its own. */
function readCsv(line: string): string[] {
  const fields: string[] = []
  const field = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y
  for (;;) {
    const match = field.exec(line)
    if (match === null) throw new Error(`not CSV at ${field.lastIndex}: ${line}`)
    fields.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
    if (match[3] === '') return fields
  }
}

describe('verdicts that are explained', () => {
  const { saved } = smallModel()
  const { bound: atMost, rows: flows } = saved.threshold.calibration
  const explain = (): FlowExplanation => ({
    reason: 'features',
    reasons: ['sent 1.2 MB (usually under 4 kB)', 'lasted 3 h (usually under 20 s)'],
    mode: null,
    features: [],
    nearestBytes: null,
  })
  const one = { score: null, decision: null, rule: 'one-packet' } as const
  const verdicts = [
    flowVerdict({ explain }),
    flowVerdict({ novel: false }),
    flowVerdict(one),
    flowVerdict({ explain: () => ({ ...explain(), reason: 'whole', reasons: [] }) }),
  ]

  it('have their reasons in a line under each novel one', () => {
    const lines = written('table', 'capture', verdicts, saved)
    expect(lines).toHaveLength(8)
    expect(lines[2]).toMatch(
      /^ {9}sent 1\.2 MB \(usually under 4 kB\); lasted 3 h \(usually under 20 s\); rarer than 1 flow in \d+$/,
    )
    expect(lines[3]).toMatch(/^normal/)
    expect(lines[5]).toBe('         training had no single-packet flow to this service')
    expect(lines[7]).toMatch(/^ {9}unlike normal flows as a whole; rarer than 1 flow in \d+$/)
  })

  it('count rows where the input holds rows', () => {
    const lines = written('table', 'rows', [rowVerdict({ novel: true, explain })], saved)
    expect(lines[2]).toMatch(/; rarer than 1 row in \d+$/)
  })

  it('have them as a list in JSON, and joined in CSV', () => {
    const json = written('json', 'capture', verdicts, saved).map((line) => JSON.parse(line))
    expect(json.map(({ reasons }) => reasons)).toEqual([
      explain().reasons,
      [],
      ['training had no single-packet flow to this service'],
      ['unlike normal flows as a whole'],
    ])
    expect(json.map(({ rarity }) => rarity)).toEqual([{ atMost, flows }, null, null, { atMost, flows }])
    const csv = written('csv', 'capture', verdicts, saved).map(readCsv)
    expect(csv[0].slice(-2)).toEqual(['reasons', 'rarity'])
    expect(csv[1].slice(-2)).toEqual([explain().reasons.join('; '), String(atMost)])
    expect(csv[2].slice(-2)).toEqual(['', ''])
  })
})

describe('JSON lines', () => {
  it('carry score, decision and novel first, then the flow', () => {
    const [line] = written('json', 'capture', [flowVerdict()])
    expect(line).toMatch(/^\{"score":0.30000000000000004,"decision":-0.3333333333333333,"novel":true,/)
    expect(JSON.parse(line)).toEqual({
      score: 0.1 + 0.2,
      decision: -1 / 3,
      novel: true,
      rule: 'score',
      capture: 'a.pcap',
      protocol: 'tcp',
      source: '192.0.2.1',
      sourcePort: 51324,
      destination: '2001:db8::1',
      destinationPort: 443,
      startMicros: 1_700_000_000_123_456,
      durationMicros: 1_500_000,
      packets: 7,
      bytes: 901,
      piece: 0,
    })
  })

  it('carry input and row for rows', () => {
    expect(verdictJson(rowVerdict())).toEqual({
      score: 1.5,
      decision: 0.5,
      novel: false,
      rule: 'score',
      input: 'r.npy',
      row: 3,
    })
  })
})

describe('CSV', () => {
  it('says the same as JSON, for every finite number and every name', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.string({ unit: 'binary' }),
        (score, capture) => {
          const verdict = flowVerdict({ score }, { capture })
          const [head, line] = written('csv', 'capture', [verdict])
          const json = verdictJson(verdict)
          const fields = readCsv(line)
          const names = head.split(',')
          expect(names).toEqual(Object.keys(json))
          for (const [i, name] of names.entries()) {
            const value = json[name]
            if (typeof value === 'number') expect(Number(fields[i])).toBe(Object.is(value, -0) ? 0 : value)
            else if (name !== 'capture') expect(fields[i]).toBe(String(value))
            else expect(fields[i].replace(/^'(?=[=+\-@\t\r])/, '')).toBe(capture)
          }
        },
      ),
    )
  })

  it.each(['=cmd()', '+1', '-1+2', '@SUM(A1)', '\t=1', '\r=1'])('no name is a formula: %j', (capture) => {
    const fields = readCsv(written('csv', 'capture', [flowVerdict({}, { capture })])[1])
    expect(fields[4]).toBe(`'${capture}`)
  })

  it('quotes as RFC 4180 has it and leaves standard input its name', () => {
    const line = (input: string): string => written('csv', 'rows', [rowVerdict({ input })])[1]
    expect(line('a"b,c\nd')).toBe('1.5,0.5,false,score,"a""b,c\nd",3')
    expect(line('-')).toBe('1.5,0.5,false,score,-,3')
  })

  it('leaves the score empty where another rule decided', () => {
    const verdict = flowVerdict({ score: null, decision: null, rule: 'one-packet' })
    expect(written('csv', 'capture', [verdict])[1]).toMatch(/^,,true,one-packet,/)
  })
})

describe('table', () => {
  it('has a head, and a verdict in words for each rule', () => {
    const lines = written('table', 'capture', [
      flowVerdict(),
      flowVerdict({ novel: false }),
      flowVerdict({ score: null, decision: null, rule: 'one-packet' }),
      flowVerdict({ score: null, decision: null, novel: false, rule: 'not-judged' }),
    ])
    expect(lines.map((line) => line.split(/ {2,}/).slice(0, 2))).toEqual([
      ['verdict', 'score'],
      ['NOVEL', '0.300000'],
      ['normal', '0.300000'],
      ['NOVEL', 'one packet'],
      ['unknown', '–'],
    ])
    expect(lines[1]).toContain('192.0.2.1:51324 → [2001:db8::1]:443')
    expect(lines[1]).toContain('1.500000')
    expect(lines[1]).toContain('2023-11-14 22:13:20.123')
  })

  it('is nothing at all where there is no verdict', () => {
    expect(written('table', 'capture', [])).toEqual([])
  })

  it('shows control characters of a name', () => {
    const lines = written('table', 'rows', [rowVerdict({ input: 'a\u001b[31m.npy' })])
    expect(lines[1]).toContain('a\\u001b[31m.npy')
  })
})

it('timeText shows a time that no calendar has as its number', () => {
  expect(timeText(0)).toBe('1970-01-01 00:00:00.000')
  expect(timeText(9e18)).toBe('9000000000000000000')
})
