/** What a run is given from outside: files, time, messages and signals, so that a test can stand in for each. */

import type { AlertExplainer } from '../alerts/eve.js'
import type { Settings } from '../config/settings.js'
import type { FileSystem } from '../files/file-system.js'
import type { StateFaults } from '../files/state-file.js'
import type { Clock } from '../input/clocks.js'
import type { FrameInput } from '../input/read-frames.js'
import type { Log } from '../log.js'
import type { ModelManager } from '../models/model-manager.js'
import type { ServiceNotifier } from '../service/service.js'
import type { LossHistory } from './conditions.js'
import type { Decider } from './counters.js'

export interface AgentEnvironment {
  readonly files: FileSystem
  readonly clock: Clock
  readonly log: Log
  /** Aborted when the agent is to stop: open flows and alerts get up to 4.5 seconds, then the agent ends. */
  readonly stop: AbortSignal
  /** Reads the settings again; null where there is no configuration file. Rejects where they are unusable. */
  readonly readAgain: (() => Promise<Settings>) | null
  /** Notifies systemd of the agent's state. */
  readonly service?: ServiceNotifier | null
  /** Calls its argument at each SIGHUP from the time on when the agent is ready; at once where one came before. */
  readonly onReopen: (reopen: () => void) => void
}

/** While a run is opened. */
export interface OpeningEnvironment extends AgentEnvironment {
  /** Reports damaged files of the state folder. */
  readonly faults: StateFaults
}

/** What the parts of a run share. */
export interface RunContext {
  readonly settings: Settings
  readonly environment: OpeningEnvironment
  readonly input: FrameInput
  /** null where nothing is made here. */
  readonly models: ModelManager | null
  readonly decider: Decider
  readonly explain: AlertExplainer
  readonly losses: LossHistory
  /** Packets that did not reach the agent up to now. */
  readonly lostPackets: () => number
}

/**
 * Component: a part of a running agent, as the run knows it. A run is a list of them: each second, each step of a clock and the
 * end go through the list in its order.
 */

export interface Component {
  /** Once a second. */
  readonly tick?: () => void
  /** Called once a second if the packets' time advances by itself: it has reached `nowMicros`. */
  readonly advance?: (nowMicros: number) => void
  /** The packets' clock was set; times that are kept move with it. */
  readonly clockSet?: (byMicros: number) => void
  /** What people should look at; a sentence each. */
  readonly warnings?: () => readonly string[]
  /** Why it cannot do its work at present; null where it can. */
  readonly trouble?: () => string | null
  /** At the end of the run: keeps what it has to keep. */
  readonly close?: () => unknown
}

/**
 * A metric of a report: its name (of a counter with _total at its end), help, value, and the label by which it has several
 * values. null: no sample.
 */
export type Metric<Report> = readonly [
  name: string,
  help: string,
  of: (report: Report) => number | null | undefined | Readonly<Record<string, number | undefined>>,
  label?: string,
]
