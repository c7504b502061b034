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
