import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { OWN_MANIFESTS, readManifests } from '../../src/datasets/manifest.js'
import { readTrials } from '../../src/run/trials-file.js'
import { STUDIES } from '../../src/studies/registry.js'
import { readPaperFigures, readReferenceAuc } from '../../src/tables/paper-tables.js'
import { buildReport, renderPages, renderReport } from '../../src/tables/report.js'

const results = fileURLToPath(new URL('../../../../docs/results/', import.meta.url))

it('the committed tables are what the committed trials give', async () => {
  const trials = readTrials(`${results}trials.jsonl`)
  expect(trials.length).toBeGreaterThan(0)
  const report = buildReport([trials], readManifests(OWN_MANIFESTS), readPaperFigures(), readReferenceAuc())
  const pages = await renderPages(results)
  // each file of measurements has its page
  for (const file of readdirSync(results).filter(
    (name) =>
      /^(machines|peers|peers-speed|sweep-.*)\.jsonl$/.test(name) ||
      STUDIES.some((study) => name === `${study.name}.json`),
  )) {
    expect([...pages.keys()]).toContain(file.replace(/\.jsonl?$/, '.md'))
  }
  const written = [...renderReport(report), ...pages]
  // and each page that says it is generated is one of these
  for (const file of readdirSync(results).filter((name) => name.endsWith('.md'))) {
    if (!readFileSync(`${results}${file}`, 'utf8').includes('Written by `oddflow-bench tables`')) continue
    expect(written.map(([name]) => name)).toContain(file)
  }
  for (const [name, content] of written) {
    const committed = readFileSync(`${results}${name}`, 'utf8')
    expect(committed === content, `${name}: run npm run -s oddflow-bench -- tables`).toBe(true)
  }
}, 300_000)
