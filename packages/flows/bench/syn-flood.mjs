/**
 * A million distinct SYNs through the flow extractor: memory over that of an idle run, and the accounts.
 *
 * Resident memory is the peak of /proc/self/status (VmHWM), each run in a process of its own, the median of three: one that has the
 * same batches go by with no extractor, one with. Exits 1 if the difference is more than the budget and a
 * tenth, or if a packet is missing. Linux.
 *
 *   pnpm --filter @oddflow/flows build && node packages/flows/bench/syn-flood.mjs [SYNS]
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createPacketBatch } from '@oddflow/capture'
import { createFlowExtractor, DEFAULT_FLOW_MEMORY_BYTES } from '../dist/index.js'
import { contractFor } from './support/generate.mjs'

const SYNS = Number(process.argv[2] ?? 1_000_000)
const role = process.argv[3]

if (role === undefined) {
  const file = fileURLToPath(import.meta.url)
  // The median of three: when V8 collects garbage, and so the peak, differs by a mebibyte or two from run to run.
  const measure = (name) => {
    const runs = Array.from({ length: 3 }, () =>
      JSON.parse(execFileSync(process.execPath, [file, String(SYNS), name], { encoding: 'utf8' })),
    )
    return runs.sort((a, b) => a.peakBytes - b.peakBytes)[1]
  }
  const idle = measure('idle')
  const flood = measure('flood')
  const more = flood.peakBytes - idle.peakBytes
  const limit = 1.1 * DEFAULT_FLOW_MEMORY_BYTES
  const { counters, openFlows } = flood
  const accounted =
    counters.packets === SYNS && counters.records === SYNS && counters.evictedFlows + openFlows === SYNS
  const mebi = (bytes) => (bytes / 1024 / 1024).toFixed(1)
  console.log(
    `${SYNS} SYNs: ${mebi(more)} MiB over an idle run (budget ${mebi(DEFAULT_FLOW_MEMORY_BYTES)}, limit ${mebi(limit)}); ` +
      `${openFlows} flows open at the end, ${counters.evictedHalfOpenFlows} half-open, ` +
      `${counters.evictedActiveFlows} active and ${counters.evictedIdleFlows} idle ones evicted; ` +
      `${accounted ? 'every packet accounted for' : 'PACKETS MISSING'}`,
  )
  process.exitCode = more <= limit && accounted ? 0 : 1
} else {
  const batch = createPacketBatch(4096)
  const extractor =
    role === 'flood'
      ? createFlowExtractor({ contract: contractFor('iat-size', 12), onRecord: () => {} })
      : null
  for (let start = 0; start < SYNS; start += batch.status.length) {
    batch.count = Math.min(batch.status.length, SYNS - start)
    batch.firstFrame = start
    for (let i = 0; i < batch.count; i++) {
      batch.timestampMicros[i] = 10 * (start + i)
      batch.frameBytes[i] = 60
      batch.ipVersion[i] = 4
      batch.protocol[i] = 6
      batch.tcpFlags[i] = 2
      batch.sourceAddress[4 * i + 3] = start + i
      batch.destinationAddress[4 * i + 3] = 0xc0a80001
      batch.destinationPort[i] = 443
    }
    extractor?.add(batch)
  }
  const openFlows = extractor?.openFlows ?? 0
  const counters = extractor?.finish() ?? null
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))
  console.log(JSON.stringify({ peakBytes: 1024 * Number(peak[1]), openFlows, counters }))
}
