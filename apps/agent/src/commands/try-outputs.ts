/**
 * `oddflow-agent doctor --try`: a test incident through each output beside the EVE file, which its followers would take for an event.
 */
import { createHash, randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { jsonLine } from '@oddflow/program'
import type { Settings } from '../config/settings.js'
import { emptyIncident, encodeIncidentEvent, type Incident } from '../incidents/incident.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'
import type { Output } from '../outputs/output.js'
import { createOutput, type OutputSettings, targetOf } from '../outputs/registry.js'
import { VERSION } from '../version.js'

/** One line of doctor. */

export interface Finding {
  readonly what: string
  /** `missing`: the agent will not run. */
  readonly state: 'ok' | 'missing' | 'note'
  readonly detail: string
}

const finding =
  (state: Finding['state']) =>
  (what: string, detail: string): Finding => ({ what, state, detail })
export const ok = finding('ok')
export const missing = finding('missing')
export const note = finding('note')

const PATIENCE_MILLIS = 15_000

/** One finding for each output. */
export function tryOutputs(
  { outputs, eve }: Pick<Settings, 'outputs' | 'eve'>,
  clock: Clock,
  log: Pick<Log, 'warn'>,
): Promise<Finding[]> {
  const line = testIncident(clock.wallMicros())
  return Promise.all(
    outputs.map(async (settings): Promise<Finding> => {
      const open = createOutput(settings, {
        version: VERSION,
        hostname: hostname(),
        alertFile: eve,
        clock,
        log,
        isTrial: true,
      })
      return tryOutput(settings, await open.catch((error: Error) => error), line)
    }),
  )
}

async function tryOutput(
  settings: OutputSettings,
  output: Output | Error,
  line: Uint8Array,
): Promise<Finding> {
  const { name } = settings
  if (output instanceof Error) return missing('output', `${name}: ${output.message}`)
  try {
    const answer = await output.deliver({ first: 0, lines: [line] }, AbortSignal.timeout(PATIENCE_MILLIS))
    return ok('output', `${name}: ${targetOf(settings)}: ${answer}`)
  } catch (error) {
    const { message } = error as Error
    const said = message === 'stopped' ? `no answer within ${PATIENCE_MILLIS / 1000} s` : message
    const detail = said.startsWith(output.target) ? said : `${output.target}: ${said}`
    return missing('output', `${name}: ${detail}`)
  } finally {
    await output.close()
  }
}

/** An event as of an incident; `oddflow.test` says that it is none. */
function testIncident(nowMicros: number): Uint8Array {
  const incident: Incident = {
    ...emptyIncident({
      id: createHash('sha256').update(randomBytes(16)).digest('hex').slice(0, 32),
      key: 'test',
      // an address for documentation (RFC 5737)
      device: { mac: null, address: '192.0.2.1', name: 'Test device' },
      beginMicros: nowMicros,
      endMicros: nowMicros,
    }),
    state: 'open',
    reports: 1,
    summary: `This is a test by oddflow-agent on ${hostname()}: incidents are reported like this. Nothing has happened.`,
  }
  const event = JSON.parse(new TextDecoder().decode(encodeIncidentEvent(incident, 'opened', null)))
  event.alert.signature = 'OddFlow: test incident'
  event.alert.signature_id = 1_790_059
  event.oddflow.test = true
  return new TextEncoder().encode(jsonLine(event))
}
