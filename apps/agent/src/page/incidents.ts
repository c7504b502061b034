/**
 * What happened today, what is to be done, and a card for each incident with its answers.
 *
 * A card is made again where something of its incident has changed; what is unfolded and what has the focus stay.
 */
import { nameOf } from './alerts.js'
import type { AgentState, Incident } from './api.js'
import { byId, countText, element, numberText, setText, svgElement, timeOf } from './dom.js'

type Answer = 'snooze' | 'not-this-kind' | 'attack' | 'normal' | 'none'

const TITLES: Readonly<Record<string, string>> = {
  'address-taken': 'Address taken',
  'password-guessing': 'Password guessing',
  upload: 'Upload',
  download: 'Download',
  flood: 'Flood',
  scan: 'Scan',
  'first-contact': 'First contact',
  'new-device': 'New device',
  'unusual-flows': 'Unusual traffic',
}
const ADVICE: Readonly<Record<string, string>> = {
  'address-taken': 'Find out which of the two devices is yours, and disconnect the other.',
  'password-guessing':
    'Disconnect the guessing device if you do not know it, and change the password of the other.',
  upload: 'Check what the device may send: a backup or a recording that you started, or your data.',
  download: 'Check whether the device installs an update.',
  flood: 'Disconnect the sending device if it is in your network. Otherwise ask your internet provider.',
  scan: 'Find the scanning device. If you did not start the scan, disconnect it.',
  'first-contact': 'Check whether the device got a new function or a new server.',
  'new-device': 'Check whether you or a guest connected it.',
  'unusual-flows': 'Check whether the device got an update or a new use.',
}
const ANSWERED: Readonly<Record<Exclude<Answer, 'none'>, string>> = {
  snooze: 'Snoozed',
  'not-this-kind': 'Not reported any more for this device',
  attack: 'Recorded as an attack',
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

let shownTimeline = ''
const shown = new Map<string, { readonly text: string; readonly item: HTMLElement }>()

export function showIncidents(
  { incidents, devices, nowMicros }: AgentState,
  answer: (incident: Incident, answer: Answer) => Promise<void>,
): void {
  byId('incidents-section').hidden = incidents === null
  if (incidents === null) return
  setText(byId('today'), todayText(incidents, nowMicros))
  setText(byId('to-do'), toDoText(incidents, devices))
  showTimeline(incidents, nowMicros)
  const ids = new Set(incidents.map(({ id }) => id))
  for (const [id, { item }] of shown) {
    if (ids.has(id)) continue
    item.remove()
    shown.delete(id)
  }
  const list = byId('incidents')
  for (const [place, incident] of incidents.entries()) {
    const text = JSON.stringify(incident)
    const before = shown.get(incident.id)
    if (before?.text !== text) {
      const item = element('li', {}, card(incident, answer))
      if (before !== undefined) replace(before.item, item)
      shown.set(incident.id, { text, item })
    }
    const { item } = shown.get(incident.id) as { item: HTMLElement }
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null)
  }
}

/** A line for each device, the last of them first, with its incidents of seven days from their begin to their end. */
function showTimeline(incidents: readonly Incident[], nowMicros: number): void {
  const tomorrow = new Date(nowMicros / 1000).setHours(24, 0, 0, 0) * 1000
  const begin = tomorrow - DAYS * DAY_MICROS
  const recent = incidents.filter(({ endMicros }) => endMicros >= begin)
  const target = byId('timeline')
  byId('timeline-figure').hidden = recent.length === 0
  const width = Math.max(240, target.clientWidth)
  const text = JSON.stringify([
    width,
    tomorrow,
    recent.map(({ id, endMicros, level, device }) => [id, endMicros, level, nameOf(device)]),
  ])
  if (text === shownTimeline) return
  shownTimeline = text
  const keys = [...new Set([...recent].sort((a, b) => b.endMicros - a.endMicros).map(({ key }) => key))]
  const lines = keys.slice(0, MOST_DEVICES).map((key) => recent.filter((each) => each.key === key))
  const height = ROW_HEIGHT * lines.length + 20
  const x = (micros: number): number =>
    (width * (Math.min(tomorrow, Math.max(begin, micros)) - begin)) / (tomorrow - begin)
  const svg = svgElement('svg', {
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'aria-label': lines.map(describeLine).join('. '),
  })
  for (let day = 0; day < DAYS; day++) {
    const at = x(begin + day * DAY_MICROS)
    const name = new Date((begin + (day + 0.5) * DAY_MICROS) / 1000).toLocaleDateString(undefined, {
      weekday: 'short',
    })
    svg.append(
      svgElement('line', { x1: at, x2: at, y1: 0, y2: height - 16 }),
      svgElement('text', { x: at + 3, y: height - 3 }, name),
    )
  }
  for (const [row, line] of lines.entries()) {
    const y = ROW_HEIGHT * row
    svg.append(svgElement('text', { class: 'device', x: 3, y: y + 13 }, nameOf(line[0].device)))
    // the highest level is on top
    const levels = ['low', 'medium', 'high']
    const upwards = [...line].sort((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level))
    for (const { beginMicros, endMicros, level } of upwards) {
      const from = Math.min(x(beginMicros), width - LEAST_MARK)
      const wide = Math.max(LEAST_MARK, x(endMicros) - from)
      svg.append(
        svgElement('rect', { 'data-level': level, x: from, y: y + 18, width: wide, height: 12, rx: 2 }),
      )
    }
  }
  target.replaceChildren(svg)
}

function describeLine(line: readonly Incident[]): string {
  const each = line.map(
    ({ kind, level, beginMicros }) => `${TITLES[kind] ?? kind}, ${level}, ${timeOf(beginMicros)}`,
  )
  return `${nameOf(line[0].device)}: ${each.join('; ')}`
}

/** Unfolded parts stay so, and the focus goes to the same button, or where that is gone to the first. */
function replace(before: HTMLElement, after: HTMLElement): void {
  const isOpen = before.querySelector('details')?.open === true
  const focused = before.contains(document.activeElement)
    ? document.activeElement?.getAttribute('data-answer')
    : undefined
  before.replaceWith(after)
  const details = after.querySelector('details')
  if (details !== null) details.open = isOpen
  if (focused === undefined) return
  const target =
    after.querySelector<HTMLElement>(`[data-answer="${focused}"]`) ??
    after.querySelector<HTMLElement>('button')
  target?.focus()
}

function todayText(incidents: readonly Incident[], nowMicros: number): string {
  const midnight = new Date(nowMicros / 1000).setHours(0, 0, 0, 0) * 1000
  const today = incidents.filter(({ beginMicros }) => beginMicros >= midnight)
  if (today.length > 0) {
    const open = today.filter(({ state }) => state === 'open').length
    return `Today: ${countText(today.length, 'incident')}, ${open === 0 ? 'all over' : `${numberText(open)} still open`}.`
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

function card(
  incident: Incident,
  answer: (incident: Incident, answer: Answer) => Promise<void>,
): HTMLElement {
  const { kind, level, state, device, beginMicros, endMicros, summary } = incident
  const who = nameOf(device)
  const title = TITLES[kind] ?? kind
  const buttons = answerButtons(incident, answer)
  return element(
    'article',
    { 'data-incident': incident.id, 'data-level': level, 'data-state': state },
    element('h3', {}, `${title}: ${who} `, element('span', { class: 'level' }, level)),
    element(
      'p',
      { class: 'faint' },
      element('time', { datetime: new Date(beginMicros / 1000).toISOString() }, timeOf(beginMicros)),
      state === 'open' ? ', still open' : ` to ${timeOf(endMicros)}`,
    ),
    element('p', {}, summary),
    element('p', {}, element('strong', {}, 'What to do: '), ADVICE[kind] ?? ''),
    evidenceOf(incident),
    incident.answer === null ? null : answerOf(incident.answer, kind),
    element('p', { class: 'buttons' }, ...buttons),
  )
}

function evidenceOf({ facts, contacts, flows, sentBytes, receivedBytes }: Incident): HTMLElement {
  const most = [...contacts].sort((a, b) => b.alerts - a.alerts)
  const more = most.length - MOST_CONTACTS
  return element(
    'details',
    {},
    element('summary', {}, 'Evidence'),
    element(
      'p',
      { class: 'faint' },
      `${countText(flows, 'unusual flow')}, ${numberText(sentBytes)} bytes sent, ${numberText(receivedBytes)} received`,
    ),
    element(
      'ul',
      {},
      ...facts
        .filter(({ fact }) => fact !== '')
        .map(({ fact, count }) =>
          element('li', {}, count === 1 ? fact : `${fact} (${numberText(count)} times)`),
        ),
      ...most
        .slice(0, MOST_CONTACTS)
        .map(({ peer, service, alerts }) =>
          element('li', {}, `with ${peer} (${service}): ${countText(alerts, 'alert')}`),
        ),
      more > 0 ? element('li', {}, `and ${countText(more, 'contact')} more`) : null,
    ),
  )
}

function answerOf(
  { answer, kind: answered, endsMicros, changes }: NonNullable<Incident['answer']>,
  kind: string,
): HTMLElement {
  const when = answered === kind ? '' : ` to what was “${TITLES[answered] ?? answered}” then`
  const until = endsMicros === null ? '' : ` until ${timeOf(endsMicros)}`
  return element(
    'p',
    { class: 'answer' },
    element('strong', {}, `Your answer${when}: ${ANSWERED[answer]}${until}.`),
    ...changes.map((change) => ` ${change}.`),
  )
}

function answerButtons(
  incident: Incident,
  answer: (incident: Incident, answer: Answer) => Promise<void>,
): HTMLButtonElement[] {
  const of = `${TITLES[incident.kind] ?? incident.kind} of ${nameOf(incident.device)}`
  const choices: readonly (readonly [Answer, string])[] = [
    ...(isUnanswered(incident) ? BUTTONS : []),
    ...(incident.answer === null ? [] : [['none', 'Take the answer back'] as const]),
  ]
  const buttons = choices.map(([name, text]) =>
    element(
      'button',
      {
        type: 'button',
        'data-answer': name,
        'aria-label': `${text}: ${of}`,
        click() {
          // a model may be made, which takes a moment
          setText(byId('answer-said'), 'One moment: the answer is being checked.')
          for (const button of buttons) button.setAttribute('aria-disabled', 'true')
          void answer(incident, name).finally(() => {
            for (const button of buttons) button.removeAttribute('aria-disabled')
          })
        },
      },
      text,
    ),
  )
  return buttons
}
