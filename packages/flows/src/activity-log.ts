/**
 * Flows ordered by last activity: a log for half-open and one for established flows; if TCP flows end when they close,
 * also for closing and closed ones. A packet appends its flow's number and marks the previous entry as dead: three
 * stores, where a linked list would touch the lines of four other flows. A full or long log is packed; a walk stores
 * jumps over dead entries, so none is walked twice.
 */
import type { ColumnSource } from '@oddflow/capture'
import { type FlowLines, KIND, LINE_WORDS, PLACE } from './flow-record.js'

export const HALF_OPEN = 0
export const ESTABLISHED = 1
/** Closed, and still in the table for the packets that trail. */
export const CLOSING = 2
/** Given out; its key stays, so that late packets begin no flow. */
export const CLOSED = 3
const NONE = -1

/** Entries of a log for each flow that there is room for. */
const ENTRIES_PER_FLOW = 2
/** No log is packed while it is shorter. */
const SHORT_LOG = 1024
/** A log with more entries per flow than this is packed. */
const LONG_LOG = 4

/** Entries of each log. */
function logEntries(capacity: number): number {
  return ENTRIES_PER_FLOW * capacity
}

/** Logs of half-open and established flows; with `closes` also of closing and closed ones. */
function kindsOf(closes: boolean): number {
  return closes ? CLOSED + 1 : ESTABLISHED + 1
}

/** Bytes of the logs for this many flows. */
export function activityBytes(capacity: number, closes: boolean): number {
  return 4 * kindsOf(closes) * logEntries(capacity)
}

/** Fields of a log in `state`, LOG_FIELDS numbers for each kind. */
const LOG_FIELDS = 4
/** Entries so far. */
const USED = 0
/** Entries at which it is to be packed. */
const LIMIT = 1
/** Flows in it. */
const COUNT = 2
/** Everything in front of it is dead. */
const FIRST = 3

export class ActivityLog {
  /** USED, LIMIT, COUNT and FIRST of each kind. */
  readonly state: Int32Array
  /** The entries of each kind: a flow, or, for a dead entry, −1 − the next entry that may be alive. */
  entries!: readonly Int32Array[]
  readonly #lines: FlowLines
  readonly #space: ColumnSource
  readonly #kinds: number
  #capacity = 0

  /** @param closes - whether flows may be closing or closed. */
  constructor(capacity: number, lines: FlowLines, space: ColumnSource, closes = false) {
    this.#lines = lines
    this.#space = space
    this.#kinds = kindsOf(closes)
    this.state = space.int32(this.#kinds * LOG_FIELDS)
    this.#allocate(capacity)
    for (let kind = 0; kind < this.#kinds; kind++) this.#setLimit(kind)
  }

  /** The least recently active flow of a kind, or -1. */
  oldest(kind: number): number {
    if (kind >= this.#kinds) return NONE
    const { state } = this
    const at = this.#living(kind, state[LOG_FIELDS * kind + FIRST])
    state[LOG_FIELDS * kind + FIRST] = at
    return at === state[LOG_FIELDS * kind + USED] ? NONE : this.entries[kind][at]
  }

  /** Flows of a kind. */
  count(kind: number): number {
    if (kind >= this.#kinds) return 0
    return this.state[LOG_FIELDS * kind + COUNT]
  }

  /** The next more recently active flow of the same kind, or -1. */
  newer(flow: number): number {
    const { words } = this.#lines
    const kind = words[LINE_WORDS * flow + KIND]
    const at = this.#living(kind, words[LINE_WORDS * flow + PLACE] + 1)
    return at === this.state[LOG_FIELDS * kind + USED] ? NONE : this.entries[kind][at]
  }

  /** Adds a flow as the most recent half-open one. */
  add(flow: number): void {
    this.#lines.words[LINE_WORDS * flow + KIND] = HALF_OPEN
    this.state[COUNT]++
    this.#write(flow, HALF_OPEN)
  }

  /** Makes a flow the most recently active one of `kind`. */
  touch(flow: number, kind: number): void {
    const { words } = this.#lines
    const { state } = this
    const before = words[LINE_WORDS * flow + KIND]
    this.#kill(flow, before)
    if (before !== kind) {
      state[LOG_FIELDS * before + COUNT]--
      state[LOG_FIELDS * kind + COUNT]++
      words[LINE_WORDS * flow + KIND] = kind
    }
    this.#write(flow, kind)
  }

  remove(flow: number): void {
    const { words } = this.#lines
    const kind = words[LINE_WORDS * flow + KIND]
    this.state[LOG_FIELDS * kind + COUNT]--
    this.#kill(flow, kind)
  }

  /** Calls `visitor` for each flow of the kinds up to `last`. The visitor must not change the logs. */
  visit(visitor: (flow: number) => void, last = CLOSED): void {
    for (let kind = HALF_OPEN; kind <= last; kind++) {
      for (let flow = this.oldest(kind); flow !== NONE; flow = this.newer(flow)) visitor(flow)
    }
  }

  /** Makes room for more flows. */
  grow(capacity: number): void {
    const before = this.entries
    this.#allocate(capacity)
    for (let kind = 0; kind < this.#kinds; kind++) {
      this.entries[kind].set(before[kind])
      this.#setLimit(kind)
    }
  }

  #write(flow: number, kind: number): void {
    const { state } = this
    const at = LOG_FIELDS * kind
    if (state[at + USED] === state[at + LIMIT]) this.#pack(kind)
    const place = state[at + USED]++
    this.entries[kind][place] = flow
    this.#lines.words[LINE_WORDS * flow + PLACE] = place
  }

  #kill(flow: number, kind: number): void {
    const place = this.#lines.words[LINE_WORDS * flow + PLACE]
    this.entries[kind][place] = -2 - place
  }

  /** The first live entry of a kind from `from` on, or the end of the log. */
  #living(kind: number, from: number): number {
    const entries = this.entries[kind]
    const used = this.state[LOG_FIELDS * kind + USED]
    let at = from
    while (at < used && entries[at] < 0) at = -1 - entries[at]
    if (at > from) entries[from] = -1 - at
    return at
  }

  #pack(kind: number): void {
    const { state } = this
    const { words } = this.#lines
    const entries = this.entries[kind]
    const used = state[LOG_FIELDS * kind + USED]
    let packed = 0
    for (let at = 0; at < used; at++) {
      const flow = entries[at]
      if (flow < 0) continue
      words[LINE_WORDS * flow + PLACE] = packed
      entries[packed++] = flow
    }
    state[LOG_FIELDS * kind + USED] = packed
    state[LOG_FIELDS * kind + FIRST] = 0
    this.#setLimit(kind)
  }

  /** The log is packed at this number of entries. */
  #setLimit(kind: number): void {
    const at = LOG_FIELDS * kind
    const long = Math.max(SHORT_LOG, LONG_LOG * this.state[at + USED])
    this.state[at + LIMIT] = Math.min(logEntries(this.#capacity), long)
  }

  #allocate(capacity: number): void {
    this.#capacity = capacity
    this.entries = Array.from({ length: this.#kinds }, () => this.#space.int32(logEntries(capacity)))
  }
}
