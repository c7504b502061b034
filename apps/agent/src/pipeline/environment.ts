/** What a run is given from outside: files, time, messages and signals, so that a test can stand in for each. */

import type { Settings } from '../config/settings.js'
import type { FileSystem } from '../files/file-system.js'
import type { StateFaults } from '../files/state-file.js'
import type { Clock } from '../input/clocks.js'
import type { Log } from '../log.js'
import type { ServiceNotifier } from '../service/service.js'

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
