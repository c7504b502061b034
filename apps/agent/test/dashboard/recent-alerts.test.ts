import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { encodeNotice } from '../../src/alerts/eve.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { createAlertFeed, createRecentAlerts, readRecentAlerts } from '../../src/web/alerts.js'
import { temporaryFolder } from '../support/folder.js'
import { sampleAlertEvent } from '../support/sample-dashboard.js'

const log = { info: () => undefined, warn: () => undefined }
const encode = (text: string): Uint8Array => new TextEncoder().encode(JSON.stringify(sampleAlertEvent(text)))
const summaries = (json: string): string[] =>
  (JSON.parse(json) as { oddflow: { summary: string } }[]).map(({ oddflow }) => oddflow.summary)

/** Keeps alerts in a folder as a run does, and gives what the next run finds. */
async function keptAfter(folder: string, change: (file: string) => void = () => undefined) {
  const feed = createAlertFeed()
  const recent = createRecentAlerts(nodeFileSystem, folder, feed, log)
  for (let i = 0; i < 150; i++) feed.add(encode(`story ${i}`))
  await recent.save()
  change(join(folder, 'recent-alerts.json'))
  const warnings: string[] = []
  const lines = await readRecentAlerts(nodeFileSystem, folder, { warn: (text) => warnings.push(text) })
  return { lines, warnings }
}

describe('alerts of an earlier run', () => {
  it('are those that the page had, in order, and the next run goes on behind them', async () => {
    const { lines, warnings } = await keptAfter(temporaryFolder())
    expect(warnings).toEqual([])
    const feed = createAlertFeed(lines)
    const { json, next } = feed.since(0)
    expect(summaries(json)).toEqual(Array.from({ length: 100 }, (_, i) => `story ${50 + i}`))
    feed.add(encode('a new one'))
    expect(summaries(feed.since(next).json)).toEqual(['a new one'])
  })

  it("include the agent's own notices", async () => {
    const folder = temporaryFolder()
    const feed = createAlertFeed()
    const recent = createRecentAlerts(nodeFileSystem, folder, feed, log)
    const notice = {
      rule: 'degraded',
      atMicros: 1_700_000_000_000_000,
      summary: 'nothing is recorded',
    } as const
    feed.add(encode('story'))
    feed.add(encodeNotice(notice, 'eth0'))
    await recent.save()
    const warnings: string[] = []
    const lines = await readRecentAlerts(nodeFileSystem, folder, { warn: (text) => warnings.push(text) })
    expect(warnings).toEqual([])
    expect(summaries(createAlertFeed(lines).since(0).json)).toEqual(['story', 'nothing is recorded'])
  })

  it('are written when there are new ones, at most twice a minute', async () => {
    const folder = temporaryFolder()
    const feed = createAlertFeed()
    const recent = createRecentAlerts(nodeFileSystem, folder, feed, log)
    for (let i = 0; i < 100; i++) recent.tick()
    await recent.save()
    expect(readdirSync(folder)).toEqual([])
    feed.add(encode('one'))
    for (let i = 0; i < 29; i++) recent.tick()
    expect(readdirSync(folder)).toEqual([])
    recent.tick()
    await expect.poll(() => readdirSync(folder)).toEqual(['recent-alerts.json'])
  })

  it.each([
    ['cut short', (file: string) => writeFileSync(file, readFileSync(file).subarray(0, 2000))],
    ['of another kind', (file: string) => writeFileSync(file, '{"kind":"oddflow-devices","version":1}')],
    [
      'with a field that the page could not show',
      (file: string) =>
        writeFileSync(file, readFileSync(file, 'utf8').replace('"signature":"', '"signature":5,"other":"')),
    ],
  ])('are none where the file is %s, which is told', async (_, change) => {
    const { lines, warnings } = await keptAfter(temporaryFolder(), change)
    expect(lines).toEqual([])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('recent-alerts.json')
  })
})
