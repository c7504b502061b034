/** The HTTP server, opened from the settings; it and what it tells are loaded by who wants them. */
import type { AgentSnapshot } from '../metrics/metrics.js'
import type { AgentServer } from '../metrics/server.js'
import type { Settings } from '../settings.js'

/** null where nobody listens. */
export async function openServer(
  { listen }: Settings,
  snapshot: () => AgentSnapshot,
): Promise<AgentServer | null> {
  if (listen === null) return null
  const [{ createMetrics }, { startServer }] = await Promise.all([
    import('../metrics/metrics.js'),
    import('../metrics/server.js'),
  ])
  return startServer(listen, createMetrics(snapshot), () => {
    const { outputs, spoolWorks } = snapshot()
    return spoolWorks && outputs.every(({ works }) => works)
  })
}
