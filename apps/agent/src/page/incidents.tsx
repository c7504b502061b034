/** Today's incidents, tasks, a card for each incident with its answers, and a timeline. */
import { useState } from 'preact/hooks'
import type { AgentState, Incident, SectionProps } from './api.js'
import { adviceOf, titleOf } from './kinds.js'
import { Buttons, List, useWidth } from './parts.js'
import { countText, nameOf, numberText, timeOf } from './texts.js'

type Answer = 'snooze' | 'not-this-kind' | 'attack' | 'normal' | 'none'

const ANSWERED: Readonly<Record<Exclude<Answer, 'none'>, string>> = {
  snooze: 'Snoozed',
  'not-this-kind': 'No more reports of this kind for this device',
  attack: 'An attack: no model learns its flows',
  normal: 'Normal',
}
const BUTTONS: readonly (readonly [answer: Answer, text: string])[] = [
  ['normal', 'This is normal'],
  ['attack', 'This was an attack'],
  ['snooze', 'Snooze for a day'],
  ['not-this-kind', 'Not this kind from this device'],
]
/** Of the list in a card. */
const MOST_CONTACTS = 8

/** Of the timeline. */
const DAYS = 7
const DAY_MICROS = 86_400_000_000
const MOST_DEVICES = 8
const ROW_HEIGHT = 36
const LEAST_MARK = 6

export function Incidents({ state: { incidents, devices, nowMicros }, change }: SectionProps) {
  const [said, setSaid] = useState('')
  if (incidents === null) return null
  const answer = async (incident: string, chosen: Answer): Promise<void> => {
    // a model may be made, which takes a moment
    setSaid('Checking the answer…')
    setSaid((await change('POST', '/api/incidents', { incident, answer: chosen })).join(' '))
  }
  return (
    <section aria-labelledby="incidents-title">
      <h2 id="incidents-title">Incidents</h2>
      <p id="today">{todayText(incidents, nowMicros)}</p>
      <p id="to-do">{toDoText(incidents, devices)}</p>
      <p id="answer-said" role="status">
        {said}
      </p>
      <ol id="incidents">
        {incidents.map((incident) => (
          <li key={incident.id}>
            <Card incident={incident} answer={answer} />
          </li>
        ))}
      </ol>
      <Timeline incidents={incidents} nowMicros={nowMicros} />
    </section>
  )
}

function todayText(incidents: readonly Incident[], nowMicros: number): string {
  const midnight = new Date(nowMicros / 1000).setHours(0, 0, 0, 0) * 1000
  const today = incidents.filter(({ beginMicros }) => beginMicros >= midnight)
  if (today.length > 0) {
    const open = today.filter(({ state }) => state === 'open')
    const unanswered = open.filter(isUnanswered).length
    const rest = open.length === 0 ? 'all over' : 'all over or answered'
    return `Today: ${countText(today.length, 'incident')}, ${unanswered === 0 ? rest : `${numberText(unanswered)} still open without an answer`}.`
  }
  const latest = incidents.reduce((last, { endMicros }) => Math.max(last, endMicros), 0)
  return latest === 0 ? 'No incident yet.' : `No incident today. The last one ended on ${timeOf(latest)}.`
}

/** An answer is of the kind that the incident had; one that became another kind waits for an answer again. */
function isUnanswered({ kind, answer }: Incident): boolean {
  return answer === null || answer.kind !== kind
}

function toDoText(incidents: readonly Incident[], devices: AgentState['devices']): string {
  const open = incidents.filter((each) => each.state === 'open' && isUnanswered(each)).length
  const ready = devices?.shown.filter(({ state }) => state === 'ready').length ?? 0
  const tasks = [
    ...(open === 0 ? [] : [`answer ${countText(open, 'open incident')}`]),
    ...(ready === 0 ? [] : [`approve ${countText(ready, 'device')}`]),
  ]
  return `To do: ${tasks.length === 0 ? 'nothing' : tasks.join(', ')}.`
}

type Choose = (incident: string, answer: Answer) => Promise<void>

function Card({ incident, answer }: { incident: Incident; answer: Choose }) {
  const [isBusy, setBusy] = useState(false)
  const { id, kind, level, state, device, beginMicros, endMicros, summary } = incident
  const title = titleOf(kind)
  const choices: readonly (readonly [Answer, string])[] = [
    ...(isUnanswered(incident) ? BUTTONS : []),
    ...(incident.answer === null ? [] : [['none', 'Remove the answer'] as const]),
  ]
  const choose = async (choice: Answer): Promise<void> => {
    if (isBusy) return
    setBusy(true)
    await answer(id, choice)
    setBusy(false)
  }
  return (
    <article data-incident={id} data-level={level} data-state={state}>
      <h3>
        {title}: {nameOf(device)} <span class="level">{level}</span>
      </h3>
      <p class="faint">
        <time dateTime={new Date(beginMicros / 1000).toISOString()}>{timeOf(beginMicros)}</time>
        {state === 'open' ? ', still open' : ` to ${timeOf(endMicros)}`}
        {nameOf(device) === device.address ? '' : `, ${device.address}`}
      </p>
      <p>{summary}</p>
      <p>
        <strong>What to do: </strong>
        {adviceOf(incident)}
      </p>
      <Evidence incident={incident} />
      {incident.answer !== null && <AnswerText answer={incident.answer} kind={kind} />}
      <Buttons>
        {choices.map(([choice, text]) => (
          <button
            key={choice}
            type="button"
            aria-label={`${text}: ${title} of ${nameOf(device)}`}
            aria-disabled={isBusy}
            onClick={() => choose(choice)}
          >
            {text}
          </button>
        ))}
      </Buttons>
    </article>
  )
}

function Evidence({ incident }: { readonly incident: Incident }) {
  const { facts, contacts, flows, sentBytes, receivedBytes } = incident
  const most = [...contacts].sort((a, b) => b.alerts - a.alerts)
  const more = most.length - MOST_CONTACTS
  const items = [
    ...facts
      .filter(({ fact }) => fact !== '')
      .map(({ fact, count }) => (count === 1 ? fact : `${fact} (${numberText(count)} times)`)),
    ...most
      .slice(0, MOST_CONTACTS)
      .map(({ peer, service, alerts }) => `with ${peer} (${service}): ${countText(alerts, 'alert')}`),
    ...(more > 0 ? [`and ${numberText(more)} more`] : []),
  ]
  return (
    <details>
      <summary>Evidence</summary>
      <p class="faint">
        {countText(flows, 'unusual flow')}, {numberText(sentBytes)} bytes sent, {numberText(receivedBytes)}{' '}
        received
      </p>
      <List items={items} />
    </details>
  )
}

function AnswerText({ answer: given, kind }: { answer: NonNullable<Incident['answer']>; kind: string }) {
  const { answer, kind: answered, endsMicros, changes } = given
  const when = answered === kind ? '' : ` when this was “${titleOf(answered)}”`
  const until = endsMicros === null ? '' : ` until ${timeOf(endsMicros)}`
  return (
    <p class="answer">
      <strong>{`Your answer${when}: ${ANSWERED[answer]}${until}.`}</strong>
      {changes.map((change) => ` ${change}.`)}
    </p>
  )
}

/** A line for each device, the last of them first, with its incidents of seven days from their begin to their end. */
function Timeline({ incidents, nowMicros }: { incidents: readonly Incident[]; nowMicros: number }) {
  const [box, width] = useWidth()
  const tomorrow = new Date(nowMicros / 1000).setHours(24, 0, 0, 0) * 1000
  const begin = tomorrow - DAYS * DAY_MICROS
  const recent = incidents.filter(({ endMicros }) => endMicros >= begin)
  const keys = [...new Set([...recent].sort((a, b) => b.endMicros - a.endMicros).map(({ key }) => key))]
  const lines = keys.slice(0, MOST_DEVICES).map((key) => recent.filter((each) => each.key === key))
  const height = ROW_HEIGHT * lines.length + 20
  const x = (micros: number): number =>
    (width * (Math.min(tomorrow, Math.max(begin, micros)) - begin)) / DAYS / DAY_MICROS
  return (
    <figure id="timeline-figure" hidden={lines.length === 0}>
      <div id="timeline" ref={box}>
        <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={lines.map(describeLine).join('. ')}>
          {[0, 1, 2, 3, 4, 5, 6].map((day) => {
            const at = x(begin + day * DAY_MICROS)
            const noon = new Date((begin + (day + 0.5) * DAY_MICROS) / 1000)
            return (
              <g key={day}>
                <line x1={at} x2={at} y1={0} y2={height - 16} />
                <text x={at + 3} y={height - 3}>
                  {noon.toLocaleDateString(undefined, { weekday: 'short' })}
                </text>
              </g>
            )
          })}
          {lines.map((line, row) => (
            <g key={line[0].key}>
              <text class="device" x={3} y={ROW_HEIGHT * row + 13}>
                {nameOf(line[0].device)}
              </text>
              {byLevel(line).map(({ id, beginMicros, endMicros, level }) => {
                const from = Math.min(x(beginMicros), width - LEAST_MARK)
                return (
                  <rect
                    key={id}
                    data-level={level}
                    x={from}
                    y={ROW_HEIGHT * row + 18}
                    width={Math.max(LEAST_MARK, x(endMicros) - from)}
                    height={12}
                    rx={2}
                  />
                )
              })}
            </g>
          ))}
        </svg>
      </div>
      <figcaption>Incidents of the last seven days, one line per device.</figcaption>
    </figure>
  )
}

/** The highest last: it is drawn on top. */
function byLevel(line: readonly Incident[]): Incident[] {
  const levels = ['low', 'medium', 'high']
  return [...line].sort((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level))
}

function describeLine(line: readonly Incident[]): string {
  const each = line.map(
    ({ kind, level, beginMicros }) => `${titleOf(kind)}, ${level}, ${timeOf(beginMicros)}`,
  )
  return `${nameOf(line[0].device)}: ${each.join('; ')}`
}
