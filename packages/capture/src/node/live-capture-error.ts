/**
 * LiveCaptureError: why nothing more is recorded, in one line that ends with what to do.
 *
 * The recording program is another's, so its own words are quoted; what they mean is told from them where they
 * are known (libpcap's messages on Linux and the BSDs), and otherwise they stand alone.
 */
import { OddFlowError } from '@oddflow/core'
import type { RecorderName } from './recorder-command.js'

export type LiveCaptureProblem =
  /** The recording program is not there. */
  | 'no-program'
  | 'permission'
  | 'no-interface'
  | 'bad-filter'
  /** The recording program ended although nobody had asked it to. */
  | 'ended'

export class LiveCaptureError extends OddFlowError {
  override readonly name = 'LiveCaptureError'
  readonly problem: LiveCaptureProblem
  readonly interface: string
  /** What the program said last, in one line; may be empty. */
  readonly lastWords: string

  constructor(problem: LiveCaptureProblem, name: string, message: string, lastWords = '') {
    super(`live-capture.${problem}`, `interface ${name}: ${message}`)
    this.problem = problem
    this.interface = name
    this.lastWords = lastWords
  }
}

const PERMISSION = /permission|not permitted|EPERM|EACCES/i
const NO_INTERFACE = /no such device|no device named|doesn't exist|not exist|unknown interface/i
const BAD_FILTER = /filter expression|capture filter|syntax error/i

/** The program could not be started. */
export function describeSpawnError(name: string, program: string, cause: unknown): LiveCaptureError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (code === 'ENOENT') {
    return new LiveCaptureError(
      'no-program',
      name,
      `cannot be recorded, since there is no program ${program}; install it (its package has that name on most systems, dumpcap comes with Wireshark), or pipe a capture into standard input`,
    )
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return new LiveCaptureError(
      'permission',
      name,
      `cannot be recorded, since this user may not run ${program}; run as one who may, for instance by joining its group`,
    )
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    return new LiveCaptureError(
      'ended',
      name,
      `cannot be recorded: too many open files; raise the limit (ulimit -n, or LimitNOFILE= of a unit)`,
    )
  }
  const words = cause instanceof Error ? cause.message.split('\n')[0]! : String(cause)
  return new LiveCaptureError('ended', name, `cannot be recorded: ${program} did not start: ${words}`, words)
}

/** The program ended by itself. @param ending `exit code 1`, or `signal SIGKILL` */
export function describeEnding(
  name: string,
  recorder: RecorderName,
  ending: string,
  words: string,
): LiveCaptureError {
  const said = words === '' ? 'without a word' : `saying: ${words}`
  const told = `${recorder} ended (${ending}) ${said}`
  if (PERMISSION.test(words)) {
    return new LiveCaptureError(
      'permission',
      name,
      `${told}; to record, give the program the right alone (setcap cap_net_raw,cap_net_admin+eip $(command -v ${recorder})), or run as root`,
      words,
    )
  }
  if (NO_INTERFACE.test(words)) {
    return new LiveCaptureError(
      'no-interface',
      name,
      `${told}; "${recorder} -D" lists the interfaces there are`,
      words,
    )
  }
  if (BAD_FILTER.test(words)) {
    return new LiveCaptureError(
      'bad-filter',
      name,
      `${told}; see pcap-filter(7) for what a filter may be`,
      words,
    )
  }
  return new LiveCaptureError('ended', name, told, words)
}
