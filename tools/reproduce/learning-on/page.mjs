/** The page and the pictures of learning-on.mjs, from its figures. */
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { checkout } from './shared.mjs'

const fraction = (value) => value.toFixed(3).replace(/^0/, '')
const percent = (value) => `${(100 * value).toFixed(1)} %`

export async function writePage(figures, out) {
  const chart = await chartMaker()
  const folder = dirname(out)
  const name = basename(out)
  const picture = (kind, svg) => {
    writeFileSync(join(folder, `${name}-${kind}.svg`), svg)
    return `![${kind}](${name}-${kind}.svg)`
  }
  const parts = [
    `# Models that learn on

What \`oddflow update\` and \`createLearner\` do, on real rows. OC-KJL-QS with the guard and everything else by default,
n rows of which a fifth calibrates the threshold at \`--fpr 0.01\`; the numbers behind each table and picture are in
[${name}.json](${name}.json).
`,
    figures.plan
      ? planPart(figures.plan, chart, picture)
      : 'Online against batch, arrival by arrival, is not among these figures yet: `node tools/reproduce/learning-on.mjs plan`.\n',
    figures.mode && modePart(figures.mode),
    figures.drift && driftPart(figures.drift, chart, picture),
    figures.poison && poisonPart(figures.poison, chart, picture),
    figures.million && millionPart(figures.million),
  ]
  writeFileSync(`${out}.md`, parts.filter(Boolean).join('\n'))
}

/** `note`: what has changed since, where figures were not measured again; a new measurement has none. */
function madeBy({ command, machine, node, loadAverage, seconds, note }) {
  return `${note === undefined ? '' : `\n${note}\n`}\n\`${command}\`: ${seconds} s at a load average of ${loadAverage} (${machine}; Node ${node}).\n`
}

function planPart({ setting, sets, first, seeds }, chart, picture) {
  const curves = sets.flatMap(({ set, batch, online }) => [
    ...batch.map(({ n, auc, millis }) => ({ set, way: 'batch: trained anew', n, auc, millis })),
    ...online.flatMap(({ name, points }) =>
      points.map(({ n, auc, millis }) => ({ set, way: `online: ${name}`, n, auc, millis })),
    ),
  ])
  const last = (points) => points[points.length - 1]
  /** Over the last 500 rows. */
  const perArrival = (points) => {
    const recent = points.filter(({ n }) => n > last(points).n - 500)
    return recent.reduce((sum, { millis }) => sum + millis / recent.length, 0)
  }
  const rows = sets.flatMap(({ set, batch, online, method2Millis }) => [
    ...online.map(
      ({ name, points, refusedRounds, rounds }) =>
        `| ${set} | ${name} | ${fraction(points[0].auc)} | ${fraction(last(points).auc)} | ${fraction(last(batch).auc)} | ${signed(last(points).auc - last(batch).auc)} | ${perArrival(points).toFixed(2)} | ${last(batch).millis.toFixed(0)} | ${(last(batch).millis / perArrival(points)).toFixed(0)} | ${refusedRounds} of ${rounds} |`,
    ),
    `| ${set} | one by one, Method 2 (first 300) | | | | | ${method2Millis.toFixed(2)} | ${last(batch).millis.toFixed(0)} | ${(last(batch).millis / method2Millis).toFixed(0)} | |`,
  ])
  return `## Online against batch

The plan in the paper's source: both models begin with ${first} rows; the online one takes in what arrives, said to be
normal, as training rows are; the batch one is trained anew, here at every 500 rows. AUC on the whole test set, mean of seeds
${seeds.join(', ')}; processor time per arrival (the last 500) against one training at n = 5,000, medians. The text's loop keeps every row,
projects all of them again, and has no guard; the other ways are bounded. Where U grows, it is by ten rows a batch.

| set | online | AUC at ${first} | AUC at 5,000 | batch | difference | ms per arrival | ms of a training | ratio | rounds refused |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}

${picture('auc', chart.lines(curves, { x: 'n', y: 'auc', series: 'way', facet: 'set', xLabel: 'rows', yLabel: 'AUC' }))}

Where nothing but the mixture learns, AUC stays what it was; training anew changes landmarks too, and on these sets loses AUC with
more rows. A sketch that grows each round once lost .2 on sfrig in one round, the one in which a row came that was said to be
normal and equals some 170 of the novelties to the last digit (three of the set's normal rows do): as a landmark it vouched for
all of them. Now a row becomes one only where ten like it are there: sfrig at 5,000 with seeds 1, 2, 3: .958, .942, .957,
and before .841, .948, .909.
By default landmarks come only when something new is to be learnt or the rows learnt have moved.

${picture(
  'time',
  chart.lines(
    curves.filter(({ millis }) => millis > 0),
    {
      x: 'n',
      y: 'millis',
      series: 'way',
      facet: 'set',
      xLabel: 'rows',
      yLabel: 'ms per arrival (batch: per training)',
      log: true,
    },
  ),
)}
${madeBy(setting)}`
}

function signed(value) {
  return `${value < 0 ? '−' : '+'}${fraction(Math.abs(value))}`
}

function modePart({ setting, cases, seeds }) {
  const groups = [...new Set(cases.map(({ set, mode }) => `${set} ${mode}`))].map((key) =>
    cases.filter(({ set, mode }) => `${set} ${mode}` === key),
  )
  const mean = (group, kind, key) => group.reduce((sum, one) => sum + one[kind][key] / group.length, 0)
  const rows = groups.map((group) => {
    const { set, mode, modeShare } = group[0]
    const auc = (kind) => mean(group, kind, 'auc')
    return `| ${set}, ${mode} | ${percent(modeShare)} | ${fraction(auc('frozen'))} | ${fraction(auc('updated'))} | ${fraction(auc('byItself'))} | ${fraction(auc('whole'))} | ${percent(mean(group, 'frozen', 'modeNovel'))} | ${percent(mean(group, 'updated', 'modeNovel'))} | ${percent(mean(group, 'byItself', 'modeNovel'))} |`
  })
  const lost = groups.filter((group) => mean(group, 'whole', 'auc') - mean(group, 'frozen', 'auc') >= 0.05)
  const regained = lost.filter(
    (group) => mean(group, 'updated', 'auc') - mean(group, 'frozen', 'auc') >= 0.05,
  )
  return `## A mode that training lacked

One of four clusters of the normal rows is taken out of training (1,250 rows) and comes later: 1,000 rows, half of them
of the mode. *Whole* had it from the beginning. AUC, and the share of the mode's own test rows that are called novel;
means of seeds ${seeds.join(', ')}.

| set, mode | share of rows | frozen | updated, said to be normal | by itself, confirmed | whole | mode novel: frozen | updated | by itself |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}

In ${lost.length} of ${groups.length} cases the frozen model is .05 or more below the whole one; in ${regained.length} of these the update gains .05 or more.
An update that changes nothing is the frozen column.
${madeBy(setting)}`
}

function driftPart({ setting, cases, periods, change, rows, bursts, seeds }, chart, picture) {
  const mean = (runs, value) => runs.reduce((sum, run) => sum + value(run) / runs.length, 0)
  const curves = cases.flatMap(({ name, runs }) =>
    runs[0].periods.flatMap(({ period }) =>
      ['frozen', 'updating'].map((way) => ({
        name,
        period,
        share: 100 * mean(runs, (run) => run.periods[period][way]),
        way,
      })),
    ),
  )
  const each = (runs, value) => runs.map(value).join(', ')
  const lines = cases.map(({ name, runs }) => {
    const both = (when) =>
      `${percent(mean(runs, (run) => run[when].frozen))}, ${percent(mean(runs, (run) => run[when].updating))}`
    const auc = (value) => span(runs.map(value), fraction)
    return `| ${name} | ${both('before')} | ${both('during')} | ${both('after')} | ${each(runs, (run) => run.recoveryPeriods ?? 'never')} | ${each(runs, (run) => (run.alarmPeriod === null ? 'never' : run.alarmPeriod - change))} | ${auc((run) => run.end.frozen.auc)} | ${auc((run) => run.aucAfter)} | ${auc((run) => run.end.anew.auc)} | ${each(runs, (run) => `${run.counters.confirmed} of ${run.counters.held}`)} |`
  })
  const novelties = cases.flatMap(({ name, runs }) =>
    runs.map((run) => {
      const { normalToFrozen, learntAsNormal, confirmed, rows: came } = run.novelties
      const { updating, withoutNovelties, withNormalRows } = run.end
      const detected = (a) => points(a.detected - withoutNovelties.detected)
      const auc = (a) => signed(a.auc - withoutNovelties.auc)
      return `| ${name} | ${run.seed} | ${normalToFrozen} of ${came} | ${learntAsNormal} | ${confirmed} | ${percent(updating.detected)}, ${percent(withoutNovelties.detected)} | ${detected(updating)} | ${detected(withNormalRows)} | ${fraction(updating.auc)}, ${fraction(withoutNovelties.auc)} | ${auc(updating)} | ${auc(withNormalRows)} |`
    }),
  )
  return `## Drift

${periods} periods of ${rows} rows; the traffic changes at period ${change}. Shifted: interarrival times half as long again, packets a tenth
longer, at once or over ten periods. Replaced: another device's captures under the first one's contract. True novelties
(the test set's; a SYN flood for the devices) come five at a time in periods ${bursts.join(', ')}. The updating model holds
novel rows until ten like them came in three periods, at least every second one, and forgets by half in 1,000 rows; nobody
tells it anything. Seeds ${seeds.join(', ')} of model and stream. False positives: frozen, updating; means. Recovered: false positives of
5 % or less for three periods in a row. AUC on rows of the changed traffic that no model has seen: the updating model's is the mean
of the periods from ten after the change on, anew is trained on as many rows of the changed traffic; spans of the seeds.

| case | before | ten periods from the change | after | recovered after | first drift alarm after | AUC: frozen | updating | anew | rows confirmed of held |
|---|---|---|---|--:|--:|---|---|---|---|
${lines.join('\n')}

${picture('drift', chart.lines(curves, { x: 'period', y: 'share', series: 'way', facet: 'name', xLabel: 'period', yLabel: 'false positives, %' }))}

A gradual change is learnt row by row, and nothing is ever novel enough to be confirmed. While landmarks came only with what was
confirmed, they stayed where the traffic had been, and on sfrig novelties that were no farther from them passed with the normal
rows: AUC .633, .876 and .774 over the same periods and seeds. Landmarks now follow when the rows that were learnt lie farther
from them than landmarks lie from one another. The price is in the abrupt sfrig case, which had .876, .865 and .893.
Weakest is the replaced device: its false positives stay above 5 % in some of any three periods, and AUC below that of training anew.

### Learnt from the true novelties

The same stream with the same seeds, with the ${bursts.length * 5} novelties and without them: detection and AUC at the end, with − without. Any
rows change something (another draw for the reservoir), so the last columns say by how much as many normal rows in their place
do. Beside it what became of the novelties: normal to the frozen model too, found normal as they came and learnt, and
found novel but confirmed later.

| case | seed | normal to the frozen model | found normal, learnt | confirmed | detected: with, without | difference | normal rows instead | AUC: with, without | difference | normal rows instead |
|---|--:|--:|--:|--:|---|--:|--:|---|--:|--:|
${novelties.join('\n')}

The share of novelties that is detected at so few false positives is a step: these sets' novelties stand close together, all a
little above the threshold or all a little below it, so it moves by tens of points where AUC moves by hundredths.
In the mean of all cases and seeds the novelties change AUC by ${meanDifference(cases, 'updating')}, as many normal rows in their place by ${meanDifference(cases, 'withNormalRows')}.

Nothing tells a novelty that the model finds normal from a normal row, without labels. Those confirmed in the aecho cases came in a
stretch of normal rows of a rare kind, which lie as far from one another as from the novelties (0.4 to 0.8 of a bandwidth; most
rows that are confirmed have their like within 0.1). A closer reach would be chosen for this case, so there is none.
A row on hold goes only when it has enough near itself, which keeps out some of them.
${madeBy(setting)}`
}

function meanDifference(cases, way) {
  const differences = cases.flatMap(({ runs }) =>
    runs.map(({ end }) => end[way].auc - end.withoutNovelties.auc),
  )
  return signed(differences.reduce((sum, value) => sum + value / differences.length, 0))
}

function points(value) {
  return `${value < 0 ? '−' : '+'}${(100 * Math.abs(value)).toFixed(1)}`
}

function span(values, format) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(format)
  return low === high ? low : `${low} to ${high}`
}

function poisonPart({ setting, sets, days, flowsADay, poisonADay }, chart, picture) {
  const curves = sets.flatMap(({ set, runs }) =>
    runs.flatMap(({ name, days: points }) =>
      points.map(({ day, detected }) => ({ set, way: name, day, detected: 100 * detected })),
    ),
  )
  const rows = sets.flatMap(({ set, frozen, runs }) =>
    runs.map((run) => {
      const detected = run.days.map((d) => d.detected)
      const lowest = Math.min(...detected)
      const reached = Math.max(...run.days.map((d) => d.reached))
      return `| ${set} | ${run.name} | ${percent(lowest)} | ${percent(detected[detected.length - 1])} | ${percent(reached)} | ${percent(run.days[run.days.length - 1].falsePositives)} (frozen: ${percent(frozen.falsePositives)}) | ${run.refusedRounds} of ${run.rounds} |`
    }),
  )
  return `## A slow poisoner

${days} days of ${flowsADay} flows, ${poisonADay} of them a poisoner's who knows the model: each as far on the way from a normal row to the target (30 novel
rows that the model flags) as the model of that day lets pass. Share of the target that is detected.

| set | | lowest | at the end | farthest that a poisoned row got | false positives at the end | rounds refused |
|---|---|--:|--:|--:|---|--:|
${rows.join('\n')}

${picture('poison', chart.lines(curves, { x: 'day', y: 'detected', series: 'way', facet: 'set', xLabel: 'day', yLabel: 'target detected, %' }))}
${madeBy(setting)}`
}

function millionPart({ setting, updates, batch, models }) {
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`
  const whole = (number) => number.toLocaleString('en')
  const lines = models.map((m) => {
    const memory = m.samples.map((s) => s.heapUsed + s.arrayBuffers)
    return `| ${m.name} | ${m.microsPerUpdate.toFixed(0)} | ${megabytes(memory[0])}, ${megabytes(memory[memory.length - 1])}, ${megabytes(Math.max(...memory))} | ${m.componentsAdded}, ${m.componentsRemoved}, ${m.componentsMerged} | ${m.notPositiveDefinite} | ${m.sameBytes ? 'the same bytes' : 'OTHER BYTES'} (the first ${whole(m.replayed)}) | ${whole(m.fileBytes)} |`
  })
  return `## A million rows

${whole(updates)} rows, ${batch} an arrival (Method 1, a reservoir of 200, forgetting by half in 2,000 rows, components added for what is
novel). Heap and buffers after garbage collection: after ${whole(models[0].samples[0].updates)}, at the end, at most.

| model | µs a row | memory | components that came, died, were merged | covariances not positive definite | again | bytes of the file |
|---|--:|---|---|--:|---|--:|
${lines.join('\n')}
${madeBy(setting)}`
}

/** Charts as SVG, drawn by the library that the report uses. */
async function chartMaker() {
  const require = createRequire(join(checkout, 'apps/trainer/package.json'))
  const load = (name) => import(pathToFileURL(require.resolve(name)).href)
  const Plot = await load('@observablehq/plot')
  const { parseHTML } = await load('linkedom')
  return {
    lines(data, { x, y, series, facet, xLabel, yLabel, log = false }) {
      const { document } = parseHTML('<html><body></body></html>')
      const facets = [...new Set(data.map((d) => d[facet]))]
      const figure = Plot.plot({
        document,
        width: 340 * facets.length,
        height: 360,
        marginTop: 34,
        marginLeft: 54,
        marginRight: 14,
        style: { background: 'white', fontSize: '11px' },
        x: { label: xLabel },
        y: { label: yLabel, grid: true, ...(log ? { type: 'log' } : {}) },
        fx: { domain: facets, label: null },
        color: { legend: false, domain: [...new Set(data.map((d) => d[series]))], scheme: 'Observable10' },
        marks: [
          Plot.frame({ stroke: '#ccc' }),
          Plot.line(data, { x, y, stroke: series, fx: facet, strokeWidth: 1.6 }),
          Plot.dot(data, { x, y, fill: series, fx: facet, r: 1.8 }),
        ],
      })
      return withLegend(figure, [...new Set(data.map((d) => d[series]))], document)
    },
  }
}

/** The names of the colours under the picture, in the same SVG. */
function withLegend(figure, names, document) {
  const scale = figure.scale('color')
  const width = Number(figure.getAttribute('width'))
  const height = Number(figure.getAttribute('height'))
  const perRow = Math.max(1, Math.floor(width / 320))
  const rows = Math.ceil(names.length / perRow)
  const total = height + 8 + 18 * rows
  figure.setAttribute('height', String(total))
  figure.setAttribute('viewBox', `0 0 ${width} ${total}`)
  figure.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  names.forEach((name, i) => {
    const left = 20 + (i % perRow) * 320
    const top = height + 14 + 18 * Math.floor(i / perRow)
    const swatch = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
    for (const [key, value] of Object.entries({
      x: left,
      y: top - 8,
      width: 18,
      height: 4,
      fill: scale.apply(name),
    })) {
      swatch.setAttribute(key, String(value))
    }
    const label = document.createElementNS('http://www.w3.org/2000/svg', 'text')
    for (const [key, value] of Object.entries({
      x: left + 26,
      y: top,
      'text-anchor': 'start',
      'font-size': 11,
      fill: '#222',
    })) {
      label.setAttribute(key, String(value))
    }
    label.textContent = name
    figure.append(swatch, label)
  })
  return `${figure.outerHTML}\n`
}
