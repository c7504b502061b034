/**
 * The agent's whole job, in a lab of four network namespaces (tools/traffic-lab/agent-lab.py): it learns two devices,
 * is told to watch them, and finds a scan, guessed passwords, a download and a single packet. Root only.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { whyNoNamespace } from './support/network-namespace.js'
import { runToEnd } from './support/oddflow.js'

const lab = fileURLToPath(new URL('../../tools/traffic-lab/agent-lab.py', import.meta.url))
const reason =
  whyNoNamespace(['tcpdump', 'python3', 'curl', 'nsenter', 'ethtool']) ??
  (spawnSync('sh', ['-c', 'command -v ssh && PATH=$PATH:/usr/sbin command -v sshd']).status === 0
    ? null
    : 'ssh or sshd is not installed')
/** A loaded machine takes its time; a quiet one is within a second (docs/results/agent-lab.md). */
const SECONDS = process.env.CI === undefined ? 3 : 6

interface Lab {
  normal: { flows: number; falseAlerts: number }
  events: Record<string, { alerts: number; medianSeconds: number }>
  dropped: number
  models: { owners: { withModel: number } }
  exit: number
}

it('learns two devices, watches them, and finds what is new', async (context) => {
  if (reason !== null) context.skip(reason)
  // some flows a second: a few per cent of false alarms may be promised with a few dozen rows
  const bearable = ['--false-alerts-per-day', '30000']
  const ran = await runToEnd('python3', [lab, '--learn-flows', '60', '--watch', '3', ...bearable])
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  const { normal, events, dropped, models, exit } = JSON.parse(ran.stdout) as Lab
  expect({ dropped, exit, withModel: models.owners.withModel }).toEqual({ dropped: 0, exit: 0, withModel: 2 })
  expect(normal.flows).toBeGreaterThan(5)
  expect(normal.falseAlerts).toBeLessThanOrEqual(Math.max(3, 0.2 * normal.flows))
  expect(events.scan.alerts).toBeGreaterThan(100)
  expect(events.passwords.alerts).toBeGreaterThan(4)
  expect(events.download.alerts).toBeGreaterThan(0)
  expect(events.onePacket.alerts).toBe(1)
  for (const { medianSeconds } of Object.values(events)) expect(medianSeconds).toBeLessThan(SECONDS)
}, 240_000)
