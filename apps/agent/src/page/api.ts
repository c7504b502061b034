/**
 * What the agent sends and accepts, and how the page asks. The agent declares what it sends by these types too, so a
 * difference between agent and page does not compile.
 */

/** Of the model that judges a device: its own, or its group's. */
export interface OwnModel {
  /** Whose it is. */
  readonly owner: string
  /** Where it comes from (trained here, updated since, or given by the configuration), or its progress. */
  readonly state: 'waiting' | 'learning' | 'trained' | 'learnt-on' | 'given'
  /** Of the active model. */
  readonly model: string | null
  /** To which a rollback goes. */
  readonly previous: string | null
  readonly rows: number
  readonly rowsNeeded: number | null
  /** Rows in the training of the active model; null for a given model, and without a model. */
  readonly modelRows: number | null
  /** What it promises: share of normal flows that it flags at most, on average. */
  readonly falseAlarmShare: number | null
  /** Whether that is within what was asked for, and no proof is broken; null where no one knows. */
  readonly keepsPromise: boolean | null
  /** For a learning device with an active model: the result of later flows for its promise; else null. */
  readonly proving: Proving | null
  /** The last training, where its model was refused since the rows had not settled; null after one that was accepted. */
  readonly refused: { readonly rows: number; readonly unsettledShare: number } | null
  /** The model was found damaged: the previous one judges, or it is lost and trained again; null without damage. */
  readonly damage: 'previous' | 'lost' | null
}

interface Proving {
  /** `open`: more flows are needed; `broken`: more of them were novel than promised, and another model is trained. */
  readonly state: 'open' | 'kept' | 'broken'
  /** Flows scored since the model is active, and flows needed. */
  readonly flows: number
  readonly needed: number
  readonly novel: number
}

/** The smallest synthetic attack of a kind that a model notices. */
export interface Noticed {
  readonly kind: string
  /** "from 13 ports". */
  readonly from: string
}

export interface Forecast {
  /** Flows that learning takes in all, about; null where that is not known. */
  readonly flows: number | null
  /** Until it is ready; null where something holds it up: too many novel flows, or no memory for its model. */
  readonly hours: number | null
}

export interface Device {
  readonly key: string
  readonly address: string
  /** What a person or the device itself calls it, and who said so. */
  readonly name: { readonly name: string; readonly source: string } | null
  readonly group: string | null
  /** By a registry of MAC prefixes; absent or null where there is none. */
  readonly vendor?: string | null | undefined
  readonly randomised: boolean
  readonly state: 'learning' | 'ready' | 'watching' | 'paused'
  readonly learningSinceMicros: number
  readonly lastSeenMicros: number
  readonly flows: number
  /** Of its recent flows; null before the first. */
  readonly novelShare: number | null
  /** null of one that has learned. */
  readonly forecast: Forecast | null
  /** Of the time while it learned, the most frequent first. */
  readonly contacts: readonly string[]
  /** null if the agent makes no models, or none of this device is known. */
  readonly model: OwnModel | null
}

export interface ScoreMinute {
  /** Start of the minute. */
  readonly atMicros: number
  readonly flows: number
  readonly novel: number
  /** null where no flow of the minute had a score. */
  readonly lowest: number | null
  readonly median: number | null
}

export interface Rule {
  readonly name: string
  readonly device?: string | undefined
  readonly peer?: string | undefined
  readonly protocol?: string | undefined
  readonly port?: number | undefined
  readonly rule?: string | undefined
  readonly endsMicros: number
  readonly suppressed: number
}

export interface NamedDevice {
  readonly mac: string | null
  readonly address: string
  readonly name?: string
}

/** An event of the EVE file, as far as the page looks into it. */
export interface AlertEvent {
  readonly timestamp: string
  readonly alert: { readonly signature: string }
  readonly oddflow: {
    readonly id: string
    readonly rule: string
    readonly score: number | null
    /** null where no model was asked. */
    readonly threshold: number | null
    readonly summary: string
    /** What the sentence is about; absent from alerts that an earlier version has kept. */
    readonly reason?: 'features' | 'whole' | 'rule' | 'no-comparison'
    readonly device: NamedDevice
    readonly flow: Readonly<Record<'protocol' | 'source' | 'destination', string>> &
      Counts<'sourcePort' | 'destinationPort' | 'packets' | 'bytes'>
    readonly rarity: { readonly atMost: number; readonly flows: number } | null
    readonly features: readonly {
      readonly name: string
      readonly unit: string
      /** null where the flow, or the nearest normal one, has no such feature. */
      readonly value: number | null
      readonly nearest: number | null
    }[]
    /** The verdict of the model as it was trained, if it was updated since. */
    readonly shadow?: { readonly score: number | null; readonly threshold: number; readonly novel: boolean }
    readonly lostInWindow: number
    readonly evidence?: string
    /** Packets in that file: up to the verdict, of all packets that the flow had then, and after it. */
    readonly evidencePackets?: Counts<'kept' | 'of' | 'later'>
    readonly folded?: Counts<'count' | 'peers' | 'services'>
  }
}

/** An event about the agent itself, without a flow. */
export type NoticeRule =
  | 'degraded'
  | 'recovered'
  | 'blind-model'
  | 'overload-entered'
  | 'overload-left'
  | 'state-damaged'
  | 'fleet-model'

export interface NoticeEvent {
  readonly timestamp: string
  readonly alert: { readonly signature: string }
  readonly oddflow: { readonly id: string; readonly rule: string; readonly summary: string }
}

/** An incident was opened, became worse, or is over. */
export interface IncidentEvent extends NoticeEvent {
  readonly oddflow: NoticeEvent['oddflow'] & {
    readonly incident: {
      readonly id: string
      readonly change: 'opened' | 'worse' | 'over'
      readonly level: 'low' | 'medium' | 'high'
    }
  }
}

export interface Incident {
  readonly id: string
  readonly state: 'gathering' | 'open' | 'over'
  readonly kind: string
  readonly level: 'low' | 'medium' | 'high'
  /** Of the device that it is about. */
  readonly key: string
  readonly device: NamedDevice
  readonly beginMicros: number
  readonly endMicros: number
  readonly flows: number
  readonly sentBytes: number
  readonly receivedBytes: number
  readonly facts: readonly { readonly rule: string; readonly count: number; readonly fact: string }[]
  readonly contacts: readonly { readonly peer: string; readonly service: string; readonly alerts: number }[]
  readonly summary: string
  /** null where there is none. */
  readonly answer: {
    readonly answer: 'snooze' | 'not-this-kind' | 'attack' | 'normal'
    /** Of the incident when it was answered. */
    readonly kind: string
    readonly endsMicros: number | null
    readonly changes: readonly string[]
  } | null
}

type Counts<Name extends string> = Readonly<Record<Name, number>>

/** Rows that models were updated with, and how often updated and trained models differ. */
export interface Learning {
  readonly rows: Counts<'learnt' | 'heldBack' | 'disregarded'>
  readonly shadow: Counts<'bothNormal' | 'bothNovel' | 'onlyNow' | 'onlyTrained'>
}

export interface AgentState {
  /** Of the agent's clock. */
  readonly nowMicros: number
  readonly version: string
  /** Null where every device has its own, or none yet. */
  readonly model: string | null
  readonly openFlows: number
  readonly maximumFlows: number
  readonly residentBytes: number
  readonly memoryLimitBytes: number
  readonly lagSeconds: number | null
  readonly overloaded: boolean
  /** Why the agent does not watch as it should, a sentence each; none while it does. */
  readonly degraded: readonly string[]
  /** What a person should know, though the agent watches. */
  readonly warnings: readonly string[]
  readonly spoolWorks: boolean
  readonly outputs: readonly { readonly name: string; readonly works: boolean }[]
  readonly counters: Counts<'captured' | 'droppedKernel' | 'droppedAgent' | 'filtered' | 'interruptions'> & {
    readonly verdicts: Counts<'total'>
    /** Synthetic attacks that the agent has sent itself. */
    readonly selfTests: Counts<'flagged' | 'missed'>
    /** The last three by output. */
    readonly alerts: Counts<'given' | 'suppressed' | 'folded' | 'held'> &
      Readonly<Record<'waiting' | 'dropped' | 'setAside', Counts<string>>>
    /** null where models are not made here. */
    readonly models: { readonly learning: Learning | null } | null
  }
  readonly devices: { readonly total: number; readonly shown: readonly Device[] } | null
  /** Open ones and the last that are over, the newest first; null where devices are not kept. */
  readonly incidents: readonly Incident[] | null
  readonly minutes: readonly ScoreMinute[]
  readonly suppressions: readonly Rule[]
  readonly alerts: readonly (AlertEvent | NoticeEvent)[]
  readonly next: number
  /** Tells one run of the agent from another. */
  readonly startedMicros: number
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
