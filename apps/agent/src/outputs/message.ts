/**
 * Message: an event in words, for mail, chat, push and one line of a log. People get incidents, events about the agent itself, and alerts
 * of no incident. Names may come from the network: control characters, marks that reorder text and links are removed.
 */
import type { Incident } from '../incidents/incident.js'
import { adviceOf } from '../page/kinds.js'
import type { AlertBatch } from '../spool/alert-log.js'

export interface Message {
  /** `oddflow.id` of the event, the same whenever it is sent. */
  readonly id: string
  /** The id of the incident, or empty. */
  readonly incident: string
  /** "Camera (192.168.50.23): scan (medium)" */
  readonly title: string
  /** Sentences. */
  readonly summary: string
  readonly level: 'low' | 'medium' | 'high'
  /** `opened`, `worse`, `over`; else `alert` or `notice`. */
  readonly change: string
  /** Of an incident its kind, else the rule. */
  readonly kind: string
  /** Its name and address, or empty. */
  readonly device: string
  /** EVE's time. */
  readonly time: string
  /** What the reader can do; empty unless the event is an open incident. */
  readonly advice: string
  /** What the summary does not say of an incident, a sentence each. */
  readonly facts: readonly string[]
}

interface Event {
  readonly timestamp: string
  readonly alert: { readonly signature: string }
  readonly oddflow: {
    readonly id: string
    readonly rule: string
    readonly summary: string
    /** A test incident (`doctor --try`). */
    readonly test?: boolean
    readonly device?: EventDevice
    /** Of an alert the id of its incident. */
    readonly incident?: string | EventIncident
  }
}

type EventDevice = Pick<Incident['device'], 'address' | 'name'>

interface EventIncident extends Pick<Incident, 'id' | 'kind' | 'level' | 'device' | 'facts' | 'reasons'> {
  readonly change: keyof typeof CHANGES
}

const LONGEST = 2000
const CHANGES = { opened: '', worse: ' became worse', over: ' is over' } as const

/** null: an event for programs only. @param line - one EVE event. */
export function messageOf(line: Uint8Array): Message | null {
  const { timestamp, alert, oddflow } = JSON.parse(new TextDecoder().decode(line)) as Event
  const { id, rule, incident } = oddflow
  if (typeof incident === 'string') return null
  const about = incident?.device ?? oddflow.device
  // the agent's own notices name files
  const said = (text: string): string => plain(about === undefined ? text : withoutHosts(text))
  const device = about === undefined ? '' : said(deviceText(about))
  const common = { id, summary: said(oddflow.summary), device, time: timestamp }
  const who = device === '' ? '' : `${device}: `
  if (incident === undefined) {
    return {
      ...common,
      incident: '',
      title: `${who}${alert.signature.replace(/^OddFlow: /, '')}`,
      level: rule === 'recovered' || rule === 'overload-left' ? 'low' : 'medium',
      change: about === undefined ? 'notice' : 'alert',
      kind: rule,
      advice: '',
      facts: [],
    }
  }
  const { kind, change, level, facts, reasons } = incident
  return {
    ...common,
    incident: incident.id,
    title: `${who}${kind.replaceAll('-', ' ')}${CHANGES[change]} (${level})`,
    level,
    change,
    kind,
    advice: change === 'over' || oddflow.test === true ? '' : adviceOf(incident),
    facts: [...facts.map(({ fact }) => fact), ...reasons]
      .filter((each) => !oddflow.summary.includes(each))
      .map(said),
  }
}

function deviceText({ name, address }: EventDevice): string {
  return name === undefined ? address : `${name} (${address})`
}

/** "example[.]com": programs make a link of a host name too, and a device may call itself so. */
function withoutHosts(text: string): string {
  return text.replace(/(?<=[\p{L}\p{M}\p{N}_-])\.(?=[\p{L}_])/gu, '[.]')
}

/** One line without control characters, marks that reorder text, and links. */
export function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .replace(/:\/\//g, ': //')
    .replace(/\bwww\./gi, 'www .')
    .trim()
    .slice(0, LONGEST)
}

/** "What to do: Find the scanning device. …"; or empty. */
export function adviceText({ advice }: Pick<Message, 'advice'>): string {
  return advice === '' ? '' : `What to do: ${advice}`
}

/** "Camera (192.168.50.23) was contacted on 16 ports … What to do: … [incident cb12ab34]" */
export function sentenceOf(message: Message): string {
  const { summary, incident } = message
  const id = incident === '' ? '' : `[incident ${incident.slice(0, 8)}]`
  return [summary, adviceText(message), id].filter((part) => part !== '').join(' ')
}

export function messagesOf({ lines }: AlertBatch): Message[] {
  return lines.map(messageOf).filter((each) => each !== null)
}

/**
 * Sends each message of a batch by itself. A batch that is retried after a failure continues with the failed message.
 * @param send - resolves to what the receiver answered.
 */
export function oneByOne(
  send: (message: Message, signal: AbortSignal) => Promise<string>,
): (batch: AlertBatch, signal: AbortSignal) => Promise<string> {
  let sent = new Set<string>()
  return async (batch, signal) => {
    let answer = ''
    for (const message of messagesOf(batch)) {
      if (sent.has(message.id)) continue
      answer = await send(message, signal)
      sent.add(message.id)
    }
    sent = new Set()
    return answer
  }
}
