/** What the agent sends and accepts, as the page sees it, and how the page asks. */
import type { Noticed } from '../models/noticed.js'
import type { ScopeReport } from '../models/progress.js'
import type { AlertEvent, NoticeEvent, ScoreMinute } from '../web/alerts.js'
import type { ShownDevice, ShownIncident, ShownState } from '../web/dashboard.js'

export type {
  AlertEvent,
  Noticed,
  NoticeEvent,
  ScopeReport,
  ScoreMinute,
  ShownDevice as Device,
  ShownIncident as Incident,
}

/** As JSON; `alerts` are those from the number that was asked for on, and `next` is the number to ask for next. */
export interface AgentState extends ShownState {
  readonly alerts: readonly (AlertEvent | NoticeEvent)[]
  readonly next: number
}

/** What became of what a person asked for. */
export interface ChangeAnswer {
  /** For each device or owner; null where it was done. */
  readonly results: readonly { readonly refused: string | null }[]
  /** Of an answer to an incident, in sentences. */
  readonly said: readonly string[]
}

/** What each section of the page is given. */
export interface SectionProps {
  readonly state: AgentState
  readonly change: Change
}

/** Does what a person asked for, and says what was refused; resolves to what came of an answer, none where it was refused. */
export type Change = (method: string, path: string, body: unknown) => Promise<readonly string[]>

/** What the agent refused, in its words. */
export class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export async function ask<T>(method: string, path: string, body?: unknown, token?: string): Promise<T> {
  const response = await fetch(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
  })
  return answerOf(response)
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function answerOf<T>(response: Response): Promise<T> {
  const answer = (await response.json().catch(() => ({}))) as T & { error?: string }
  if (!response.ok) throw new Refused(response.status, answer.error ?? response.statusText)
  return answer
}

/**
 * What the agent sends of its state: all of it, then the parts that changed, until it ends or `signal` is aborted. fetch and not
 * EventSource, which does not tell why it was refused.
 */
export async function* changesOf(
  path: string,
  signal: AbortSignal,
): AsyncGenerator<Partial<AgentState> & Pick<AgentState, 'alerts' | 'next'>> {
  const response = await fetch(path, { signal })
  if (!response.ok || response.body === null) return answerOf(response)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let text = ''; ; ) {
    const { done, value } = await reader.read()
    if (done) return
    const events = (text + value).split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) yield JSON.parse(event.slice('data: '.length))
  }
}
