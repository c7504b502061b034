/** The dialogue that makes a temporary rule of an alert, and the list of such rules. */
import { nameOf } from './alerts.js'
import { type AlertEvent, ask, type Rule } from './api.js'
import { byId, element, timeOf } from './dom.js'

type Condition = Readonly<Record<string, string | number>>

let conditions: readonly { readonly name: string; readonly value: Condition; readonly isChosen: boolean }[] =
  []
let shownRules = ''

export function openSuppress(event: AlertEvent): void {
  const { device, flow, rule } = event.oddflow
  const isSource = flow.source === device.address
  const peer = isSource ? flow.destination : flow.source
  const who = device.mac ?? device.address
  const name = nameOf(device)
  const port = Math.min(flow.sourcePort, flow.destinationPort)
  conditions = [
    { name: `device ${name === who ? who : `${name} (${who})`}`, value: { device: who }, isChosen: true },
    { name: `peer ${peer}`, value: { peer }, isChosen: rule === 'score' || rule === 'one-packet' },
    { name: `${flow.protocol} port ${port}`, value: { protocol: flow.protocol, port }, isChosen: true },
    { name: `rule ${rule}`, value: { rule }, isChosen: false },
  ]
  byId('conditions').replaceChildren(
    ...conditions.map(({ name, isChosen }) =>
      element(
        'label',
        {},
        element('input', { type: 'checkbox', checked: isChosen }),
        element('span', {}, name),
      ),
    ),
  )
  byId('suppress-error').textContent = ''
  byId<HTMLDialogElement>('suppress').showModal()
}

export function prepareSuppress(): void {
  const dialog = byId<HTMLDialogElement>('suppress')
  byId('suppress-cancel').addEventListener('click', () => dialog.close())
  byId('suppress-form').addEventListener('submit', (event) => {
    event.preventDefault()
    const boxes = [...byId('conditions').querySelectorAll('input')]
    const chosen = conditions.filter((_, i) => boxes[i].checked).map(({ value }) => value)
    const minutes = Number(byId<HTMLSelectElement>('minutes').value)
    ask('POST', '/api/suppressions', Object.assign({ minutes }, ...chosen)).then(
      () => dialog.close(),
      (error: Error) => {
        byId('suppress-error').textContent = error.message
      },
    )
  })
}

export function showRules(rules: readonly Rule[], remove: (name: string) => Promise<void>): void {
  byId('rules-section').hidden = rules.length === 0
  const text = JSON.stringify(rules)
  if (text === shownRules) return
  shownRules = text
  byId('rules').replaceChildren(
    ...rules.map((rule) => {
      const { name, device, peer, protocol, port, rule: kind, endsMicros, suppressed } = rule
      const service = [protocol, port === undefined ? undefined : `port ${port}`]
      const what = [device, peer, ...service, kind].filter((part) => part !== undefined).join(', ')
      return element(
        'li',
        {},
        element('span', {}, `${what}: until ${timeOf(endsMicros)}, ${suppressed} suppressed`),
        element(
          'button',
          { type: 'button', 'aria-label': `End the rule for ${what}`, click: () => void remove(name) },
          'End',
        ),
      )
    }),
  )
}
