/**
 * The alerts in the order of their times, the newest first; the list is added to, so that what somebody reads stays where it is.
 *
 * A time is that of the packets, and alerts do not come in its order: one that stands for several is given when these have
 * ended. Of more than MAXIMUM_SHOWN those go that came first.
 */
import type { AlertEvent, NoticeEvent } from './api.js'
import { byId, countText, element, numberText, setText, timeOf } from './dom.js'

const MAXIMUM_SHOWN = 100
/** Before a person asks for all (style.css). */
const FIRST_SHOWN = 10

/** As they came. */
let shown: HTMLElement[] = []

export function clearAlerts(): void {
  shown = []
  byId('alerts').replaceChildren()
}

/** @param onSuppress - asked for by the button of an alert. */
export function showAlerts(
  events: readonly (AlertEvent | NoticeEvent)[],
  onSuppress: (event: AlertEvent) => void,
): void {
  const list = byId('alerts')
  for (const event of events) {
    const { timestamp } = event
    const article = isOfFlow(event) ? alertArticle(event, onSuppress) : noticeArticle(event)
    const item = element('li', { class: 'fresh', 'data-time': timestamp }, article)
    // all are written alike, in universal time, so that their order is that of their texts
    const next = [...list.children].find((child) => (child.getAttribute('data-time') ?? '') <= timestamp)
    list.insertBefore(item, next ?? null)
    shown.push(item)
  }
  while (shown.length > MAXIMUM_SHOWN) shown.shift()?.remove()
  showCount()
  byId('no-alerts').hidden = list.childElementCount > 0
  byId('alerts-details').hidden = list.childElementCount === 0
}

function showCount(): void {
  const list = byId('alerts')
  const button = byId('all-alerts')
  const count = list.childElementCount
  button.hidden = count <= FIRST_SHOWN
  const isAll = list.classList.contains('all')
  setText(button, isAll ? `Show the latest ${FIRST_SHOWN} alerts` : `Show all ${count} alerts`)
}

export function prepareAlerts(): void {
  byId('all-alerts').addEventListener('click', () => {
    byId('alerts').classList.toggle('all')
    showCount()
  })
}

function isOfFlow(event: AlertEvent | NoticeEvent): event is AlertEvent {
  return 'flow' in event.oddflow
}

/** The signature, the time, and the device where the alert names one. */
function heading({ alert, timestamp }: AlertEvent | NoticeEvent, whose: string): HTMLElement[] {
  return [
    element('h3', {}, alert.signature.replace(/^OddFlow: /, '')),
    element(
      'p',
      { class: 'faint' },
      element('time', { datetime: timestamp }, timeOf(1000 * Date.parse(timestamp))),
      ...(whose === '' ? [] : [whose]),
    ),
  ]
}

/** Of the agent itself. */
function noticeArticle(event: NoticeEvent): HTMLElement {
  const { oddflow } = event
  return element(
    'article',
    { 'data-id': oddflow.id },
    ...heading(event, ''),
    element('p', {}, oddflow.summary),
  )
}

function alertArticle(event: AlertEvent, onSuppress: (event: AlertEvent) => void): HTMLElement {
  const { oddflow } = event
  const { flow, device, rarity, folded, features, shadow, lostInWindow, evidence, evidencePackets } = oddflow
  const who = nameOf(device)
  const addresses = [device.mac, device.address].filter((address) => address !== null && address !== who)
  return element(
    'article',
    { 'data-id': oddflow.id },
    ...heading(event, ` ${who}${addresses.length === 0 ? '' : ` (${addresses.join(', ')})`}`),
    element('p', {}, oddflow.summary),
    folded === undefined
      ? null
      : element(
          'p',
          { class: 'faint' },
          `similar: ${countText(folded.peers, 'peer')}, ${countText(folded.services, 'service')}`,
        ),
    element(
      'details',
      {},
      element('summary', {}, 'Why, and which flow'),
      features.length === 0 ? whyText(event) : featureTable(event),
      oddflow.score === null
        ? null
        : element(
            'p',
            { class: 'faint' },
            `score ${numberText(oddflow.score)}${
              oddflow.threshold === null ? '' : `, threshold ${numberText(oddflow.threshold)}`
            }${
              rarity === null
                ? ''
                : `; at most ${numberText(100 * rarity.atMost)} % of normal flows score this low (${numberText(rarity.flows)} flows compared)`
            }`,
          ),
      shadow === undefined ? null : element('p', { class: 'faint' }, shadowText(shadow)),
      element(
        'p',
        { class: 'faint' },
        `${flow.protocol} ${flow.source} port ${flow.sourcePort} → ${flow.destination} port ${flow.destinationPort}, ${numberText(flow.packets)} packets, ${numberText(flow.bytes)} bytes`,
      ),
      lostInWindow > 0
        ? element('p', { class: 'notice' }, `${numberText(lostInWindow)} packets were lost during this flow`)
        : null,
      evidence === undefined
        ? null
        : element('p', { class: 'faint' }, `packets kept in ${evidence}${keptText(evidencePackets)}`),
    ),
    element(
      'p',
      { class: 'buttons' },
      element(
        'button',
        {
          type: 'button',
          'aria-label': `Suppress alerts like this one of ${who}`,
          click: () => onSuppress(event),
        },
        'Suppress…',
      ),
    ),
  )
}

/** What a device calls itself, or its address. */
export function nameOf({ name, mac, address }: AlertEvent['oddflow']['device']): string {
  return name ?? mac ?? address
}

/** Why, where there are no features to show; null where the sentence of the alert says it all. */
function whyText({ oddflow: { reason } }: AlertEvent): HTMLElement | null {
  if (reason === 'whole')
    return element(
      'p',
      {},
      'The flow as a whole differs from normal flows. No single feature explains the difference.',
    )
  if (reason === 'no-comparison')
    return element('p', {}, 'There is no normal flow with the same features to compare it with.')
  return null
}

/** What the model said before it learnt on: whether what was learnt made the difference. */
function shadowText({ novel, score, threshold }: NonNullable<AlertEvent['oddflow']['shadow']>): string {
  const verdict = novel ? 'finds it unusual too' : 'finds it normal'
  const numbers = score === null ? '' : ` (score ${numberText(score)}, threshold ${numberText(threshold)})`
  return `the model as first trained ${verdict}${numbers}`
}

function keptText(packets: AlertEvent['oddflow']['evidencePackets']): string {
  if (packets === undefined) return ''
  const { kept, of, later } = packets
  const more = later === 0 ? '' : `, and ${numberText(later)} later`
  return `: ${numberText(kept)} of ${numberText(of)} up to the verdict${more}`
}

function featureTable({ oddflow: { features } }: AlertEvent): HTMLElement {
  const cell = (tag: 'td' | 'th', text: string): HTMLElement =>
    element(tag, tag === 'th' ? { scope: 'col' } : {}, text)
  return element(
    'table',
    {},
    element(
      'thead',
      {},
      element('tr', {}, cell('th', 'feature'), cell('th', 'here'), cell('th', 'nearest normal')),
    ),
    element(
      'tbody',
      {},
      ...features.map(({ name, unit, value, nearest }) =>
        element(
          'tr',
          {},
          cell('td', name),
          cell('td', value === null ? 'none' : `${numberText(value)} ${unit}`),
          cell('td', nearest === null ? 'none' : `${numberText(nearest)} ${unit}`),
        ),
      ),
    ),
  )
}
