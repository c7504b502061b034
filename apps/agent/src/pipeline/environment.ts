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
  /** Reads the settings anew; null where there is no configuration file. Rejects where they will not do. */
  readonly readAgain: (() => Promise<Settings>) | null
  /** Whom the agent is a service of; it is told how the agent is. */
  readonly service?: ServiceNotifier | null
  /**
   * Calls its argument whenever files are to be opened anew, and the settings read; at once where that was asked for before. It is
   * given when the agent is ready.
   */
  readonly onReopen: (reopen: () => void) => void
}

/** While a run is opened. */
export interface OpeningEnvironment extends AgentEnvironment {
  /** Reports what is damaged in the state folder. */
  readonly faults: StateFaults
}
