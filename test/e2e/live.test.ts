/**
 * File = replay = live: a capture sent with tcpreplay over a veth pair gives the flows of the file, and with
 * the same times the same features, to the bit. The pair lives in a network namespace that ends with the test,
 * so nothing of this reaches another network. Root only.
 */
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { whyNoNamespace } from './support/network-namespace.js'
import { lab, runToEnd, temporaryFolder } from './support/oddflow.js'

const worker = fileURLToPath(new URL('support/record-live.mjs', import.meta.url))
const folder = temporaryFolder()

interface Records {
  records: { key: string; packets: number; bytes: number; row: string }[]
  counters: { packets: number; flows: number; packetsInFlows: number; rows: number }
}

/** What a flow is whatever the clock: its key, its packets, its bytes. */
function flowsOf({ records }: Records): string[] {
  const flows = new Map<string, [packets: number, bytes: number]>()
  for (const { key, packets, bytes } of records) {
    const sum = flows.get(key) ?? [0, 0]
    flows.set(key, [sum[0] + packets, sum[1] + bytes])
  }
  return [...flows].map(([key, sum]) => `${key}: ${sum}`).sort()
}

describe('packets of an interface', () => {
  it.for([
    ['tcpdump', 2048],
    ['dumpcap', 96],
  ] as const)(
    'by %s, %d bytes of each, are those of the file that was sent',
    async ([recorder, snapBytes], context) => {
      const reason = whyNoNamespace(['tcpdump', recorder, 'tcpreplay'])
      if (reason !== null) context.skip(reason)
      const args = [
        lab('novel-scan.pcap').path,
        recorder,
        String(snapBytes),
        join(folder, `${recorder}.pcap`),
      ]
      const ran = await runToEnd('unshare', ['--net', process.execPath, worker, ...args])
      expect(ran, ran.stderr).toMatchObject({ code: 0 })
      const { sent, whileRunning, end, ...ways } = JSON.parse(ran.stdout)
      const { original, restamped, live, file } = ways as Record<string, Records>

      expect(sent).toBe(1604)
      expect(end).toMatchObject({ packets: sent, truncated: false, error: null })
      expect(end.counts).toMatchObject({ captured: sent, received: sent, droppedByKernel: 0 })
      expect(whileRunning.captured).toBe(recorder === 'tcpdump' ? sent : null)

      expect(live!.counters).toMatchObject({ packets: sent })
      expect(live!.counters.flows).toBeGreaterThan(100)
      expect(flowsOf(live!)).toEqual(flowsOf(original!))
      // the times that the kernel gave, from the file that the recorder wrote
      expect(live).toEqual(file)
      // the times of the file that was sent
      expect(restamped).toEqual(original)
    },
  )
})
