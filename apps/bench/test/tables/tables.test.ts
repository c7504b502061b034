import { describe, expect, it } from 'vitest'
import { OWN_MANIFESTS, readManifests } from '../../src/datasets/manifest.js'
import type { Trial } from '../../src/run/trial.js'
import { readPaperFigures, readReferenceAuc } from '../../src/tables/paper-tables.js'
import { buildReport, type Report, renderReport } from '../../src/tables/report.js'
import { escapeLatex, renderCsv, renderLatex, renderMarkdown } from '../../src/tables/table.js'
import { sampleTrial } from '../support/sample-trial.js'

const manifests = readManifests(OWN_MANIFESTS)
const report = (...runs: Trial[][]): Report =>
  buildReport(runs, manifests, readPaperFigures(), readReferenceAuc())

function trial(
  detector: string,
  repeat: number,
  auc: number,
  ms: number,
  changes: Partial<Trial> = {},
): Trial {
  const [all, protocol] = sampleTrial().results
  return sampleTrial({
    detector,
    repeat,
    results: [
      { ...all!, auc },
      { ...protocol!, auc },
    ],
    testMillis: [6 * ms],
    spaceNumbers: detector === 'ocsvm' ? 60_000 : 3000,
    ...changes,
  })
}

/** The paper, untuned CTU: OC-KJL-QS retains and is faster by what stands in its tables. */
const trials = [
  trial('ocsvm', 0, 0.6, 20),
  trial('ocsvm', 1, 0.6, 20),
  trial('oc-kjl-qs', 0, 0.62, 1),
  trial('oc-kjl-qs', 1, 0.64, 1),
]
const table = (id: string, of = report(trials)) => of.tables.find((found) => found.id === id)!
const cell = (id: string, label: RegExp, column: string, of = report(trials)) => {
  const found = table(id, of)
  const row = found.rows.find((candidate) => label.test(candidate.label))!
  return row.cells[found.columns.indexOf(column)]!
}

describe('tables', () => {
  it('set measured beside published, with ratio and agreement', () => {
    const auc = cell('iat-size-default-ocsvm-baseline', /^AUC$/, 'CTU')
    expect(auc.measured).toEqual({ mean: 0.6, sd: 0, n: 2 })
    expect(auc.ratio).toBeCloseTo(0.6 / auc.published!.mean, 14)
    expect(auc.agrees).toBe(Math.abs(0.6 - auc.published!.mean) <= auc.published!.sd)
    const faster = cell('iat-size-default-oc-kjl-qs', /detection speed-up \(server\)/, 'CTU')
    expect(faster.measured).toEqual({ mean: 20, sd: 0, n: 2 })
    const retained = cell('iat-size-default-retained', /^oc-kjl-qs: AUC retained/, 'CTU')
    expect(retained.measured!.mean).toBeCloseTo(0.63 / 0.6, 14)
    const space = cell('iat-size-default-ocsvm-baseline', /^space, kB/, 'CTU')
    expect(space.measured!.mean).toBe(480)
  })

  it('agree within the two standard deviations together, and not beyond', () => {
    const { published } = cell('iat-size-default-ocsvm-baseline', /^AUC$/, 'CTU')
    const around = (offset: number) =>
      [offset - 0.01, offset + 0.01].map((by, repeat) => trial('ocsvm', repeat, published!.mean + by, 20))
    const sd = Math.SQRT2 / 100
    const near = report(around(published!.sd + sd - 1e-6))
    const far = report(around(published!.sd + sd + 1e-6))
    expect(cell('iat-size-default-ocsvm-baseline', /^AUC$/, 'CTU', near).agrees).toBe(true)
    expect(cell('iat-size-default-ocsvm-baseline', /^AUC$/, 'CTU', far).agrees).toBe(false)
    expect(renderMarkdown(far)).toMatch(/Disagree:\n\n- AUC, CTU: /)
  })

  it('say what is missing and fill nothing', () => {
    const of = (label: RegExp, column: string, from?: Report) =>
      cell('iat-size-default-oc-kjl-qs', label, column, from).missing
    expect(of(/server/, 'MAWI')).toBe('no data')
    expect(of(/rspi/, 'CTU')).toBe('no rspi')
    expect(of(/server/, 'CTU', report(trials.slice(2)))).toBe('no ocsvm')
    expect(of(/server/, 'CTU', report(trials.slice(0, 2)))).toBe('not run')
    const nothing = report([])
    for (const { rows, trialsSha256 } of nothing.tables) {
      expect(trialsSha256).toBeNull()
      for (const { cells } of rows) for (const { measured } of cells) expect(measured).toBeNull()
    }
    expect(nothing.tables.length).toBe(readPaperFigures().tables.length)
    expect(renderMarkdown(nothing)).toContain('There are no trials.')
  })

  it('merge machines, and tell when results differ between them', () => {
    const nano = trials.map((t) => ({
      ...t,
      testMillis: [10 * t.testMillis[0]!],
      machine: { ...t.machine, name: 'nano' },
    }))
    const both = report(trials, nano)
    expect(cell('iat-size-default-oc-kjl-qs', /nano/, 'CTU', both).measured!.mean).toBe(20)
    expect(cell('iat-size-default-ocsvm-baseline', /^AUC$/, 'CTU', both).measured!.n).toBe(2)
    expect(both.about.join(' ')).not.toContain('differ')
    const [first, ...rest] = nano
    const odd = { ...first!, spaceNumbers: 1 }
    expect(report(trials, [odd, ...rest]).about.join(' ')).toMatch(/Results differ .* ocsvm/)
  })

  it('do not depend on the order of trials, and change their hash with any of them', () => {
    expect(renderReport(report([...trials].reverse()))).toEqual(renderReport(report(trials)))
    const slower = trials.map((t, i) => (i === 0 ? { ...t, trainMillis: (t.trainMillis ?? 0) + 1 } : t))
    const id = 'iat-size-default-oc-kjl-qs'
    expect(table(id, report(slower)).trialsSha256).not.toBe(table(id).trialsSha256)
    expect(table('stats-header-best-retained').trialsSha256).toBeNull()
  })

  it('take AUC and space from the machine that trained, whatever others are called and say', () => {
    for (const name of ['aaa', 'zzz']) {
      const liar = trials.map((t) => ({
        ...t,
        trainMillis: null,
        spaceNumbers: 1,
        results: t.results.map((r) => ({ ...r, auc: 0.999 })),
        machine: { ...t.machine, name },
      }))
      const row = [/^AUC$/, 'CTU'] as const
      expect(cell('iat-size-default-ocsvm-baseline', ...row, report(trials, liar))).toEqual(
        cell('iat-size-default-ocsvm-baseline', ...row),
      )
    }
  })

  it('do not judge times that spread over more than half their mean, nor print what is no number', () => {
    const id = 'iat-size-default-oc-kjl-qs'
    const wild = trials.map((t) => ({ ...t, testMillis: [t.repeat === 0 ? 1 : 1000] }))
    const found = cell(id, /server/, 'CTU', report(wild))
    expect(found.measured).not.toBeNull()
    expect(found.agrees).toBeNull()
    expect(renderReport(report(wild)).get('paper-tables.md')).toMatch(/spread too far to be judged/)
    const still = trials.map((t) => ({
      ...t,
      testMillis: [0],
      trainMillis: t.trainMillis === null ? null : 0,
    }))
    for (const page of renderReport(report(still)).values()) expect(page).not.toMatch(/NaN|Infinity/)
  })

  it('show time and space of every detector, the baselines among them', () => {
    const labels = table('costs-iat-size-none').rows.map((row) => row.label)
    for (const detector of new Set(trials.filter((t) => t.tuning === 'none').map((t) => t.detector))) {
      expect(labels).toContain(`${detector}: detection, ms per 100 rows`)
      expect(labels).toContain(`${detector}: space reduction`)
    }
  })

  it('say when the machine was busy', () => {
    expect(report(trials).about[0]).not.toContain('Other work')
    // one trial whose passes take 1, 1 and 4: mean twice the fastest, the middle one as long as it
    const busy = trials.map((t) => ({ ...t, loadAverage: 7.5, testMillis: [1, 4, 1] }))
    expect(report(busy).about[0]).toContain('load average up to 7.5, 1 trial at a time')
    expect(report(busy).about[0]).toContain('the mean pass takes 2.00 times as long (median of the trials')
    expect(report(busy).about[0]).toContain('the median pass 1.00 times as long')
    const once = trials.map((t) => ({ ...t, loadAverage: 7.5, testMillis: [1] }))
    expect(report(once).about[0]).toMatch(/load average up to 7\.5.*times do\./)
  })

  it('hold the reference to its own rule', () => {
    const found = cell('reference-none', /^oc-kjl-qs/, 'ctu-rows')
    // 0.63 ± 0.0141 of 2 runs beside .634 ± .007 of 5
    expect(found.allowed).toBeCloseTo(2.5 * Math.sqrt(0.0002 / 2 + 0.000049 / 5), 6)
    expect(found.agrees).toBe(true)
  })
})

describe('formats', () => {
  it('Markdown shows what trials say of a machine, and does nothing else with it', () => {
    const page = renderMarkdown(
      report(
        trials.map((t) => ({ ...t, machine: { ...t.machine, cpu: '<img src=x> [l](javascript:1) **b**' } })),
      ),
    )
    expect(page).not.toMatch(/<img|\[l\]\(/)
    expect(page).toContain('&lt;img src=x&gt; \\[l\\](javascript:1) \\*\\*b\\*\\*')
  })

  it('LaTeX escapes what it must, and has as many columns in each line as it says', () => {
    expect(escapeLatex('a_b & 50 % {x} \\ ± −')).toBe('a\\_b \\& 50 \\% \\{x\\} \\textbackslash{} $\\pm$ $-$')
    const text = renderLatex(report(trials))
    for (const body of text.split('\\begin{tabular}{').slice(1)) {
      const columns = body.indexOf('}')
      const lines = body.split('\n').filter((line) => line.endsWith('\\\\'))
      expect(lines.length).toBeGreaterThan(1)
      for (const line of lines) expect(line.split(' & ').length).toBe(columns)
    }
  })

  it('CSV has a line for each cell, with all digits', () => {
    const lines = renderCsv(report(trials)).trimEnd().split('\r\n')
    const cells = report(trials).tables.flatMap(({ rows }) => rows.flatMap((row) => row.cells))
    expect(lines.length).toBe(cells.length + 1)
    expect(lines.some((line) => line.includes(',1.05,'))).toBe(true)
  })

  it('Markdown tables have as many cells in each line as in their header', () => {
    const blocks = renderMarkdown(report(trials))
      .split('\n\n')
      .filter((block) => block.startsWith('|'))
    for (const block of blocks) {
      const widths = new Set(block.split('\n').map((line) => line.split('|').length))
      expect(widths.size).toBe(1)
    }
    expect(blocks.length).toBe(report(trials).tables.length)
  })
})
