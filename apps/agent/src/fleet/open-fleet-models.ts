/** Models of a fleet, opened from the settings: an output of kind nats with `models: true`. */
import { hostname } from 'node:os'
import { type ModelFile, type Network, readPublicKey } from '@oddflow/program'
import { createAlertExplainer } from '../alerts/eve.js'
import { modelThresholds } from '../budget/thresholds.js'
import type { Settings } from '../config/settings.js'
import type { Clock } from '../input/clocks.js'
import { gatewayName } from '../outputs/nats.js'
import { fleetOutput } from '../outputs/registry.js'
import { createModelDecider, type Decider } from '../pipeline/counters.js'
import type { OpeningEnvironment } from '../pipeline/environment.js'
import type { GivenModels } from '../pipeline/open-models.js'
import { SelfTest } from '../pipeline/self-test.js'
import {
  createFleetModelStore,
  type FleetModelStore,
  FleetModels,
  type KeptFleetModel,
  readKeptFleetModel,
} from './fleet-models.js'

interface KeptFleet {
  readonly store: FleetModelStore
  readonly kept: KeptFleetModel
}

/** What an earlier run has left; null where no fleet's models come. */
export async function readFleetModels(
  { outputs, state }: Settings,
  { files, faults }: OpeningEnvironment,
  { contract }: GivenModels,
): Promise<KeptFleet | null> {
  if (fleetOutput(outputs) === null || state === null) return null
  const store = createFleetModelStore(files, state)
  return { store, kept: await readKeptFleetModel(store, contract, faults) }
}

interface FleetUse {
  /** Whose row the agent's flows are judged from. */
  readonly decider: Pick<Decider, 'row'>
  readonly replaceGiven: (next: GivenModels) => void
  readonly tell: (summary: string) => void
}

/** null where no fleet's models come. Throws FileError for a key that is none. */
export function openFleetModels(
  settings: Settings,
  { clock, log, stop }: OpeningEnvironment,
  given: GivenModels,
  fleet: KeptFleet | null,
  { decider, replaceGiven, tell }: FleetUse,
): FleetModels | null {
  const output = fleetOutput(settings.outputs)
  const { base } = given
  if (fleet === null || output === null || base === null || settings.modelKey === null) return null
  return new FleetModels({
    ...fleet,
    gateway: gatewayName(output, hostname()),
    group: output.group ?? null,
    publicKey: readPublicKey(settings.modelKey),
    row: decider.row,
    configured: base,
    contract: given.contract,
    use: (model) => replaceGiven({ ...given, base: model }),
    selfTest: (model) => missedAttacks(model, settings, clock, stop),
    wallMicros: clock.wallMicros,
    log,
    tell,
  })
}

/** Synthetic attacks against a model that is not in use: why it will not do; null where it notices one, or is to stop. */
export async function missedAttacks(
  { saved, sha256 }: ModelFile,
  settings: { readonly localNetworks: readonly Network[]; readonly dropDuplicates: boolean },
  clock: Pick<Clock, 'sleep'>,
  stop: AbortSignal,
): Promise<string | null> {
  const { localNetworks, dropDuplicates } = settings
  const test = new SelfTest({
    decider: createModelDecider(saved, sha256.slice(0, 16), modelThresholds(saved), localNetworks),
    explain: createAlertExplainer(saved),
    localNetworks,
    dropDuplicates,
    watched: () => null,
    clock,
    stop,
    onResult: () => undefined,
    onBlind: () => undefined,
  })
  await test.round()
  if (stop.aborted || test.counts.flagged > 0) return null
  return 'notices no synthetic attack of any kind (the self-test)'
}
