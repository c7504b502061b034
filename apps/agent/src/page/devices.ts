/** The devices and what a person may do with each; rows stay where the focus is and only their texts change. */
import type { AgentState, Device } from './api.js'
import { byId, element, numberText, setText, timeOf } from './dom.js'

export type DeviceAct = (action: string, device: string) => Promise<void>

const ACTIONS: Readonly<Record<Device['state'], readonly string[]>> = {
  learning: ['approve', 'pause'],
  ready: ['approve', 'pause'],
  watching: ['pause'],
  paused: ['resume'],
}

interface Row {
  readonly row: HTMLElement
  readonly name: Element
  readonly detail: Element
  readonly state: Element
  readonly flows: Element
  readonly share: Element
  readonly seen: Element
  readonly buttons: HTMLElement
}

const rows = new Map<string, Row>()

export function showDevices(devices: AgentState['devices'], act: DeviceAct): void {
  const note = byId('devices-note')
  byId('devices').hidden = devices === null || devices.total === 0
  if (devices === null) {
    setText(note, 'Devices are not kept: the configuration has no “devices:”.')
    return
  }
  const { total, shown } = devices
  const more = total - shown.length
  setText(
    note,
    total === 0
      ? 'None was seen yet.'
      : more === 0
        ? ''
        : `${more} more are told by “oddflow-agent devices list”.`,
  )
  const body = byId('devices').querySelector('tbody')
  const keys = new Set(shown.map(({ key }) => key))
  for (const [key, { row }] of rows) {
    if (keys.has(key)) continue
    row.remove()
    rows.delete(key)
  }
  for (const device of shown) {
    let row = rows.get(device.key)
    if (row === undefined) {
      row = makeRow(device)
      rows.set(device.key, row)
      body?.append(row.row)
    }
    fill(row, device, act)
  }
}

function makeRow({ key }: Device): Row {
  const name = element('span')
  const detail = element('span', { class: 'faint' })
  const cell = (label: string): HTMLElement => element('td', { 'data-name': label })
  const [state, flows, share, seen] = ['State', 'Flows', 'Lately novel', 'Last seen'].map(cell)
  const buttons = element('div', { class: 'buttons' })
  const row = element(
    'tr',
    { 'data-device': key },
    element('th', { scope: 'row' }, name, detail),
    state,
    flows,
    share,
    seen,
    element('td', {}, buttons),
  )
  return { row, name, detail, state, flows, share, seen, buttons }
}

function fill(row: Row, device: Device, act: DeviceAct): void {
  const { key, address, randomised, state } = device
  const name = device.name?.name ?? key
  setText(row.name, name)
  const details = [
    name === key ? '' : key,
    address === key ? '' : address,
    randomised ? 'made-up address' : '',
  ]
  setText(row.detail, details.filter((detail) => detail !== '').join(', '))
  setText(row.flows, numberText(device.flows))
  setText(row.share, `${numberText(Math.round(1000 * device.novelShare) / 10)} %`)
  setText(row.seen, timeOf(device.lastSeenMicros))
  if (row.state.textContent === state && row.row.dataset.name === name) return
  row.row.dataset.name = name
  const hadFocus = row.buttons.contains(document.activeElement)
  setText(row.state, state)
  row.buttons.replaceChildren(
    ...ACTIONS[state].map((action) =>
      element(
        'button',
        { type: 'button', 'aria-label': `${capital(action)} ${name}`, click: () => void act(action, key) },
        capital(action),
      ),
    ),
  )
  if (hadFocus) row.buttons.querySelector('button')?.focus()
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
