/**
 * The default recipe gives a flow the same verdict wherever its packets were recorded, and with WebAssembly or without.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { encodePcap } from '../../packages/capture/src/index.js'
import {
  CAPTURE_POINTS,
  type CapturePoint,
  ipFrames,
} from '../../packages/flows/test/support/capture-points.js'
import { agentOnce, readEve } from './support/agent.js'
import {
  jsonLines,
  lab,
  succeeds,
  temporaryFolder,
  trainingCaptures,
  trainLabModel,
} from './support/oddflow.js'

const folder = temporaryFolder()
const model = join(folder, 'lab.oddflow')
const frames = ipFrames(gunzipSync(readFileSync(lab('novel-bruteforce.pcap.gz').path)))
const PLAIN: CapturePoint = ['Ethernet', 1, (bytes) => bytes]
const WITHOUT_WASM = ['--import', 'data:text/javascript,delete globalThis.WebAssembly']

interface VerdictLine {
  novel: boolean
  score: number
  source: string
  sourcePort: number
  startMicros: number
}

/** The packets as recorded there. */
function capture([name, linkType, rewrite]: CapturePoint): string {
  const path = join(folder, `${name.replaceAll(/\W+/g, '-')}.pcap`)
  const rewritten = frames.map((frame) => ({ ...frame, bytes: rewrite(frame.bytes) }))
  writeFileSync(path, encodePcap(rewritten, { linkType }))
  return path
}

async function verdicts(point: CapturePoint, node: string[] = []): Promise<VerdictLine[]> {
  const path = capture(point)
  const run = await succeeds(['score', model, path, '--format', 'json'], { node })
  return jsonLines<VerdictLine & { capture: string }>(run).map(({ capture: _, ...line }) => line)
}

describe('the same packets', () => {
  let expected: VerdictLine[] = []
  beforeAll(async () => {
    await trainLabModel(model)
    expected = await verdicts(PLAIN)
    expect(expected.filter(({ novel }) => novel).length).toBeGreaterThan(20)
    expect(expected.filter(({ novel }) => !novel).length).toBeGreaterThan(100)
  })

  it.each(CAPTURE_POINTS)('have the same verdicts with %s', async (...point) => {
    expect(await verdicts(point)).toEqual(expected)
  })

  it.each([
    [PLAIN, undefined],
    ...CAPTURE_POINTS.filter(([name]) => name.endsWith('version 2')).map(
      (point) => [point, undefined] as const,
    ),
    ...CAPTURE_POINTS.filter(([name]) => name === 'a VLAN tag').map((point) => [point, [10]] as const),
    ...CAPTURE_POINTS.filter(([name]) => name === 'two VLAN tags').map((point) => [point, [20]] as const),
  ] as const)('raise the same alerts with $0.0, which name the outer VLAN', async (point, vlan) => {
    const eve = join(folder, `${point[0]}.json`)
    await agentOnce(['--read', capture(point), '--model', model, '--eve', eve, '--no-fold'])
    const events = readEve(eve)
    for (const event of events) expect(event.vlan).toEqual(vlan)
    const alerts = events.map(({ oddflow: { score, flow } }) => [
      flow.startMicros,
      flow.source,
      flow.sourcePort,
      score,
    ])
    const novel = expected
      .filter((line) => line.novel)
      .map(({ startMicros, source, sourcePort, score }) => [startMicros, source, sourcePort, score])
    expect(alerts.sort()).toEqual(novel.sort())
  })

  it('have the same verdicts and make the same model without WebAssembly', async () => {
    expect(await verdicts(PLAIN, WITHOUT_WASM)).toEqual(expected)
    const other = join(folder, 'without.oddflow')
    await succeeds(['train', ...trainingCaptures, '-o', other], { node: WITHOUT_WASM })
    expect(readFileSync(other).equals(readFileSync(model))).toBe(true)
  })
})
