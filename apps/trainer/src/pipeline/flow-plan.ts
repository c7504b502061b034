/** Options over a recipe, as the flow library takes them. Options that do not go together are refused by their flag. */

import {
  ArgumentError,
  contractProtocols,
  DEFAULT_FLOW_PROTOCOLS,
  endsOnClose,
  type FeatureSetOption,
  type FlowContract,
  type FlowFeatureSet,
  type FlowKeyRule,
  type FlowProtocol,
  PACKET_FEATURE_SETS,
  packetFeatureSet,
  type SizeMeasure,
} from '@oddflow/core'
import { DEFAULT_SUMMARY_TIMEOUTS, type LearnContractOptions } from '@oddflow/flows'
import { UsageError } from '@oddflow/program'
import type { FlowFlags, Recipe } from '../flags.js'

/** --flow-memory. Its default is that of the flow library: of a watcher for streamed flows, higher for collected ones. */

export interface FlowMemory {
  /** The library's default where it is left out. */
  readonly flowMemoryBytes?: number | undefined
}

/** The library's option, where one was given. */
export function memoryOption({ flowMemoryBytes }: FlowMemory): { memoryBytes?: number } {
  return flowMemoryBytes === undefined ? {} : { memoryBytes: flowMemoryBytes }
}

/** Runs `create`; an error for too little memory names the option. */
export function namingFlowMemory<T>(create: () => T): T {
  try {
    return create()
  } catch (error) {
    if (!(error instanceof ArgumentError) || error.field !== 'memoryBytes') throw error
    throw new UsageError(`--flow-memory: ${error.detail}`)
  }
}

/** How packets are gathered into flows. */
export interface FlowGathering {
  readonly sizeMeasure: SizeMeasure
  readonly flowKey: FlowKeyRule
  readonly idleTimeoutMicros: number
  readonly protocols: readonly FlowProtocol[]
  readonly endOnClose: boolean
  readonly vlanKey: boolean
}

export interface FlowPlan {
  readonly gathering: FlowGathering
  /** What is learned of flows so gathered, but for the scaler and the view. */
  readonly learning: LearnContractOptions
}

const setsThatTake = (option: FeatureSetOption): readonly FlowFeatureSet[] =>
  PACKET_FEATURE_SETS.filter((name) => packetFeatureSet(name).options.includes(option))

/** Throws UsageError. */
export function flowPlan(flags: FlowFlags, recipe: Recipe): FlowPlan {
  const featureSet = flags.features ?? recipe.features
  const applies = (flag: string, given: unknown, sets: readonly FlowFeatureSet[]): void => {
    if (given === undefined || sets.includes(featureSet)) return
    throw new UsageError(`${flag}: does not apply to --features ${featureSet}; leave it out`)
  }
  applies('--iat-unit', flags.iatUnit, setsThatTake('iatUnit'))
  applies('--truncation', flags.truncation, PACKET_FEATURE_SETS)
  applies('--size', flags.size, PACKET_FEATURE_SETS)
  if (recipe.truncation === 'idle-gap') refuseOtherCuts(flags)
  if (featureSet === 'flow-summary') return summaryPlan(flags, recipe)
  const iatUnit =
    flags.iatUnit === undefined ? recipe.iatUnit : flags.iatUnit === 's' ? 'seconds' : 'microseconds'
  return {
    gathering: gatheringFrom(flags, recipe),
    learning: {
      featureSet,
      mode: flags.truncation ?? recipe.truncation,
      activeTimeoutMicros: activeTimeoutFrom(flags),
      ...(setsThatTake('iatUnit').includes(featureSet) ? { iatUnit } : {}),
    },
  }
}

/** Where rows have sizes of frames, says that they depend on where packets are recorded; else null. */
export function frameSizeWarning({ gathering, learning }: FlowPlan): string | null {
  const { featureSet = 'iat-size' } = learning
  if (featureSet === 'flow-summary' || !packetFeatureSet(featureSet).hasSizes) return null
  if (gathering.sizeMeasure !== 'frame') return null
  return `--features ${featureSet} with --size frame: sizes include link header, VLAN tags, padding and FCS, so verdicts depend on where packets are recorded; score captures of the same kind, or train with --size ip`
}

/** Flow summaries are of payload sizes, and nothing but timeouts cuts their flows. */
function summaryPlan(flags: FlowFlags, recipe: Recipe): FlowPlan {
  const { idleTimeoutMicros, activeTimeoutMicros } = DEFAULT_SUMMARY_TIMEOUTS
  const defaults: FlowFlags = { idleTimeout: idleTimeoutMicros / 1e6, endOnClose: true }
  return {
    gathering: gatheringFrom({ ...defaults, ...flags }, { ...recipe, sizeMeasure: 'payload' }),
    learning: {
      featureSet: 'flow-summary',
      activeTimeoutMicros: activeTimeoutFrom(flags) ?? activeTimeoutMicros,
    },
  }
}

/** The part of a plan that needs no learning. */
export function gatheringFrom(
  flags: FlowFlags,
  recipe: Pick<Recipe, 'sizeMeasure' | 'flowKey'>,
  protocols: readonly FlowProtocol[] = DEFAULT_FLOW_PROTOCOLS,
): FlowGathering {
  return {
    sizeMeasure: flags.size ?? recipe.sizeMeasure,
    flowKey: recipe.flowKey,
    idleTimeoutMicros: micros('--idle-timeout', flags.idleTimeout ?? 600),
    protocols: flags.protocols ?? protocols,
    endOnClose: flags.endOnClose ?? false,
    vlanKey: flags.vlanKey ?? false,
  }
}

/** That of a contract. */
export function gatheringOf(contract: FlowContract): FlowGathering {
  const { sizeMeasure, flowKey, idleTimeoutMicros, vlanKey = false } = contract
  const protocols = contractProtocols(contract)
  return { sizeMeasure, flowKey, idleTimeoutMicros, protocols, endOnClose: endsOnClose(contract), vlanKey }
}

export function activeTimeoutFrom({ activeTimeout }: FlowFlags): number | null {
  return activeTimeout === undefined ? null : micros('--active-timeout', activeTimeout)
}

/** Idle-gap rules have one way to cut. */
function refuseOtherCuts({ features, truncation, activeTimeout, endOnClose, vlanKey }: FlowFlags): void {
  const refused = [
    features === 'flow-summary' && '--features flow-summary',
    truncation !== undefined && `--truncation ${truncation}`,
    activeTimeout !== undefined && '--active-timeout',
    endOnClose === true && '--end-on-close',
    vlanKey === true && '--vlan-key',
  ].find((flag) => flag !== false)
  if (refused === undefined) return
  throw new UsageError(`${refused}: --recipe authors cuts flows at idle gaps; leave one of the two out`)
}

function micros(flag: string, seconds: number): number {
  const value = Math.round(seconds * 1e6)
  if (!(value >= 1 && value <= Number.MAX_SAFE_INTEGER)) {
    throw new UsageError(`${flag} ${seconds}: expected a number of seconds above 0, below 9e9`)
  }
  return value
}
