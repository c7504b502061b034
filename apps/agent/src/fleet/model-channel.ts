/**
 * The channel by which models come to a gateway: it asks for the offers to the gateway and its group, at each connection, whenever
 * an offer changes, and every minute, and reports what became of them. All requests name what they may read (docs/fleet.md);
 * the server's answers are bounded here and by the connection.
 */
import type { JetStreamClient } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  directGetSubject,
  encodeModelState,
  MODELS_BUCKET,
  modelStateSubject,
  modelSubject,
  offerSubject,
} from '@oddflow/program'
import type { Clock } from '../input/clocks.js'
import { withinMillis } from '../pipeline/shutdown.js'
import type { FleetModels } from './fleet-models.js'

const ASK_MILLIS = 60_000
const PATIENCE_MILLIS = 10_000
/** A server that announces change after change is asked no more often than this. */
const LEAST_PAUSE_MILLIS = 1000

interface ModelChannelOptions {
  /** Opens the connection where it is not. */
  readonly open: () => Promise<{ readonly connection: NatsConnection; readonly client: JetStreamClient }>
  readonly gateway: string
  readonly models: FleetModels
  readonly clock: Pick<Clock, 'sleep'>
  readonly stop: AbortSignal
  /** Why models cannot be asked for; null when they can again. */
  readonly onTrouble: (reason: string | null) => void
}

/** Never rejects; ends with `stop`. */
export async function runModelChannel(options: ModelChannelOptions): Promise<void> {
  const { open, gateway, models, clock, stop, onTrouble } = options
  let wake = new AbortController()
  const wakeUp = (): void => wake.abort()
  stop.addEventListener('abort', wakeUp, { once: true })
  models.onChange(wakeUp)
  let subscribed: NatsConnection | null = null
  const subscribe = (connection: NatsConnection): void => {
    if (subscribed === connection) return
    subscribed = connection
    for (const target of models.targets) {
      // the message is not believed: what it announces is asked for
      connection.subscribe(offerSubject(target), { callback: wakeUp })
    }
  }
  /** The client knows no stop, and no clock but the system's. */
  const answered = <T>(request: Promise<T>): Promise<T> =>
    withinMillis(clock, PATIENCE_MILLIS, stop, (limit) => {
      const silent = new Promise<never>((_, reject) => {
        limit.addEventListener('abort', () => reject(new Error('the server does not answer')), { once: true })
      })
      return Promise.race([request, silent])
    })
  const round = async (): Promise<void> => {
    const { connection, client } = await open()
    subscribe(connection)
    const get = async (subject: string): Promise<Uint8Array | null> => {
      const asked = directGetSubject(MODELS_BUCKET, subject)
      const answer = await answered(connection.request(asked, '', { timeout: PATIENCE_MILLIS }))
      if (answer.headers !== undefined && answer.headers.code >= 500)
        throw new Error(answer.headers.description)
      return answer.headers !== undefined && answer.headers.code > 0 ? null : answer.data
    }
    const offers: Uint8Array[] = []
    for (const target of models.targets) {
      const offer = await get(offerSubject(target))
      if (offer !== null) offers.push(offer)
    }
    await models.offered(offers, (target, sha256) => get(modelSubject(target, sha256)))
    const state = encodeModelState(models.state())
    const given = { timeout: PATIENCE_MILLIS, retries: 0 }
    await answered(client.publish(modelStateSubject(gateway), state, given))
  }
  while (!stop.aborted) {
    wake = new AbortController()
    try {
      await round()
      onTrouble(null)
    } catch (error) {
      if (!stop.aborted) onTrouble((error as Error).message.split('\n', 1)[0] ?? '')
    }
    await clock.sleep(LEAST_PAUSE_MILLIS, stop)
    await clock.sleep(ASK_MILLIS, AbortSignal.any([wake.signal, stop]))
  }
}
