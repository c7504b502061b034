import fc from 'fast-check'
import { DOMParser, parseHTML } from 'linkedom'
import { describe, expect, it } from 'vitest'
import { visibleText } from '../../src/report/format.js'
import { FLAGGED_LIMIT, type ReportData, renderReport, renderRocSvg } from '../../src/report/index.js'
import { hostileReport } from './hostile-report.js'
import { hostileText } from './hostile-text.js'
import { sampleReport } from './sample-report.js'

/** As much of an element as these tests read (the DOM's own types are not loaded for tests). */
interface Element {
  tagName: string
  textContent: string
  getAttributeNames(): string[]
  getAttribute(name: string): string | null
}

const parse = (page: string) => parseHTML(page).document

/** Every element with its attributes' names, in document order: what the template made, free of its data. */
function skeleton(page: string): string[] {
  return Array.from(
    parse(page).querySelectorAll('*'),
    (e: Element) => `${e.tagName} ${e.getAttributeNames().sort().join(' ')}`,
  )
}

const empty: ReportData = {
  title: '',
  subtitle: '',
  oddflowVersion: '',
  verdictLine: '',
  model: [],
  captures: [],
  roc: null,
  scores: { normal: [], novel: [], threshold: Number.NaN },
  flagged: { rows: [], total: 0, ofDevice: {} },
  embedding: null,
  notes: [],
}

describe('renderReport', () => {
  it('shows verdict, figures, charts, tables and notes', () => {
    const document = parse(renderReport(sampleReport()))
    expect(document.documentElement.getAttribute('lang')).toBe('en')
    expect(document.querySelector('meta[name=viewport]')).not.toBeNull()
    expect(document.querySelector('title')!.textContent).toContain('Sample evaluation')
    expect(document.querySelector('.verdict')!.textContent).toMatch(
      /^OddFlow flagged \d+ of 536 flows as new\.$/,
    )
    expect(Array.from(document.querySelectorAll('h2'), (h: Element) => h.textContent)).toEqual([
      'Scores',
      'ROC curve',
      'Embedding and mixture',
      'Captures',
      'Notes',
      'Model',
      'Flows flagged as new',
    ])
    for (const svg of document.querySelectorAll('svg[role=img]')) {
      expect(svg.querySelector('title')!.textContent).not.toBe('')
      expect(svg.querySelector('desc')!.textContent).not.toBe('')
    }
    expect(document.querySelectorAll('.ellipse-2 path').length).toBe(4)
  })

  it('gives the same bytes for the same data, however many pages came before', () => {
    expect(renderReport(sampleReport())).toBe(renderReport(sampleReport()))
  })

  it('uses no id twice and refers to none that is not there', () => {
    const page = renderReport(sampleReport())
    const document = parse(page)
    const ids = Array.from(document.querySelectorAll('[id]'), (e: Element) => e.getAttribute('id')!)
    expect(new Set(ids).size).toBe(ids.length)
    const referred = [
      ...Array.from(page.matchAll(/url\(#([^)]+)\)/g), (m) => m[1]!),
      ...Array.from(page.matchAll(/href="#([^"]+)"/g), (m) => m[1]!),
      ...Array.from(page.matchAll(/aria-labelledby="([^"]+)"/g), (m) => m[1]!.split(' ')).flat(),
    ]
    expect(referred.length).toBeGreaterThan(5)
    for (const id of referred) expect(ids).toContain(id)
  })

  it('loads nothing: no script, no address, a policy that forbids both', () => {
    const page = renderReport(sampleReport())
    const document = parse(page)
    expect(page).not.toMatch(/https?:|\/\/[a-z]|@import|javascript:/i)
    expect(
      document.querySelectorAll('script, link, img, iframe, object, embed, base, form, video, audio').length,
    ).toBe(0)
    expect(document.querySelectorAll('[src], [srcset], [action], [data]').length).toBe(0)
    for (const a of document.querySelectorAll('[href]')) expect(a.getAttribute('href')).toMatch(/^#/)
    expect(document.querySelector('meta[http-equiv]')!.getAttribute('content')).toMatch(
      /^default-src 'none';/,
    )
  })

  it('makes the same elements and attributes whatever the names hold', () => {
    const tame = skeleton(renderReport(hostileReport('x')))
    fc.assert(
      fc.property(hostileText, (text) => {
        // Two lengths of name have two shapes (a cut name says so); compare like with like.
        const bounded = text.slice(0, 100)
        const page = renderReport(hostileReport(bounded))
        expect(skeleton(page)).toEqual(tame)
        expect(parse(page).querySelector('.verdict')!.textContent).toBe(visibleText(bounded))
        expect(page).not.toMatch(/[\u202a-\u202e\u2066-\u2069]|(?!\n)\p{Cc}/u)
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('groups flagged flows by device, the most surprising first, with the reasons of each', () => {
    const data = sampleReport()
    const [a, b] = ['02:00:00:00:00:0a', '192.0.2.7']
    const rows = data.flagged.rows.slice(0, 5).map((row, i) => ({
      ...row,
      device: i === 1 || i === 4 ? b : a,
      reasons: [`sent ${i} MB (usually none)`, 'lasted 3 h (usually under 20 s)'],
    }))
    const document = parse(
      renderReport({ ...data, flagged: { rows, total: 9, ofDevice: { [a]: 7, [b]: 2 } } }),
    )
    const section = document.querySelector('section[aria-labelledby=h-flagged]')!
    expect(Array.from(section.querySelectorAll('h3'), (h: Element) => h.textContent)).toEqual([
      `Device ${a}: 3 of 7 flows`,
      `Device ${b}: 2 flows`,
    ])
    const tables = Array.from(section.querySelectorAll('table')) as {
      querySelectorAll(s: string): Element[]
    }[]
    const reasons = tables.map((table) =>
      Array.from(table.querySelectorAll('tr.why td'), (td: Element) => td.textContent.trim()),
    )
    const why = (i: number) => `sent ${i} MB (usually none); lasted 3 h (usually under 20 s)`
    expect(reasons).toEqual([
      [why(0), why(2), why(3)],
      [why(1), why(4)],
    ])
  })

  it('speaks of flows of one packet where a rule judged some', () => {
    const data = sampleReport()
    const shown = /<dt>One-packet flows|data-label="One-packet"|One packet/
    expect(renderReport(data)).toMatch(shown)
    const captures = data.captures.map((capture) => ({ ...capture, onePacketFlows: 0 }))
    const rows = data.flagged.rows.filter(({ rule }) => rule === 'score')
    const page = renderReport({ ...data, captures, flagged: { rows, total: rows.length, ofDevice: {} } })
    expect(shown.test(page)).toBe(false)
  })

  it('states the total when it shows only the first rows', () => {
    const data = sampleReport({ normal: 400, novel: 1000 })
    const document = parse(renderReport(data))
    expect(data.flagged.total).toBeGreaterThan(FLAGGED_LIMIT)
    expect(document.querySelectorAll('table')[1]!.querySelectorAll('tbody tr').length).toBe(FLAGGED_LIMIT)
    expect(document.querySelector('section[aria-labelledby=h-flagged] p')!.textContent).toBe(
      `${FLAGGED_LIMIT} of ${data.flagged.total} flagged flows.`,
    )
  })

  it('stays below 1.5 MB for 10,000 flows', () => {
    expect(Buffer.byteLength(renderReport(sampleReport({ normal: 8000, novel: 2000 })))).toBeLessThan(
      1_500_000,
    )
  })

  it('makes a page of nothing at all', () => {
    const text = parse(renderReport(empty)).body.textContent!
    expect(text).toContain('No flow has a score to draw.')
    expect(text).toContain('No flow was flagged as new.')
    expect(text).toContain('No capture was scored.')
  })

  it('makes a page of one class, of one flow, and of equal scores', () => {
    for (const scores of [
      { normal: [1, 2, 3], novel: [], threshold: 1 },
      { normal: [], novel: [-4], threshold: 0 },
      { normal: [7], novel: [], threshold: 7 },
      { normal: [0, 0, 0], novel: [0, 0], threshold: 0 },
    ]) {
      const page = renderReport({ ...empty, scores })
      expect(page).toContain('<svg')
      expect(page).not.toMatch(/NaN|Infinity|undefined/)
    }
  })

  it('makes a page of any numbers, with none that SVG cannot read', () => {
    const wild = fc.oneof(
      fc.double(),
      fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1.7e308, -1.7e308, 0),
    )
    fc.assert(
      fc.property(fc.array(wild, { maxLength: 12 }), wild, (values, threshold) => {
        const at = (i: number): number => values[i % Math.max(values.length, 1)] ?? 0
        const page = renderReport({
          ...sampleReport({ normal: 5, novel: 3 }),
          roc: {
            fpr: values,
            tpr: [...values].reverse(),
            auc: at(0),
            tprAtFpr: [{ fpr: at(1), tpr: at(2) }],
            threshold: { fpr: at(3), tpr: at(4) },
          },
          scores: { normal: values, novel: [...values].reverse(), threshold },
          embedding: {
            points: values.map((x, i) => ({ x, y: at(i + 1), group: i % 2 === 0 ? 'normal' : 'novel' })),
            ellipses: values.map((x, i) => ({
              mean: [x, at(i + 1)],
              covariance: [at(i), at(i + 2), at(i + 3)],
              weight: at(i),
            })),
            dimensions: at(5),
          },
        })
        expect(page.trimEnd().endsWith('</html>')).toBe(true)
        expect(page).not.toMatch(/="[^"]*(?:NaN|Infinity|undefined)/)
      }),
      { numRuns: sampleCount(150) },
    )
  }, 60_000)

  it('takes 100,000 scores with heavy tails', () => {
    const scores = Float64Array.from({ length: 100_000 }, (_, i) => (i % 3 === 0 ? -(i ** 1.01) : i % 30))
    const page = renderReport({
      ...empty,
      scores: { normal: scores, novel: scores.map((s) => s - 5), threshold: 1 },
    })
    expect(page.length).toBeLessThan(100_000)
  })
})

describe('renderRocSvg', () => {
  it('is well-formed XML with a title, a description and both colour schemes', () => {
    const svg = renderRocSvg(sampleReport().roc!)
    const document = new DOMParser().parseFromString(svg, 'text/xml')
    expect(document.documentElement.getAttribute('xmlns')).toBe('http://www.w3.org/2000/svg')
    expect(document.querySelector('title')!.textContent).toBe('ROC curve')
    expect(document.querySelector('desc')!.textContent).toContain('Area under the curve')
    expect(svg).toContain('prefers-color-scheme: dark')
    expect(document.querySelectorAll('.roc-line').length).toBe(1)
  })
})
