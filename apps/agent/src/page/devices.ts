/** The devices and what a person may do with each; rows stay where the focus is and only their texts change. */
import type { AgentState, Device, OwnModel } from './api.js'
import { byId, element, numberText, setText, timeOf } from './dom.js'

export interface DeviceDeeds {
  act(action: string, device: string): Promise<void>
  /** Puts the owner's model before in the place of the one in force. */
  rollback(owner: string): Promise<void>
}

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
  readonly model: Element
  readonly seen: Element
  readonly buttons: HTMLElement
}

const rows = new Map<string, Row>()

export function showDevices(devices: AgentState['devices'], deeds: DeviceDeeds): void {
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
    fill(row, device, deeds)
  }
}

function makeRow({ key }: Device): Row {
  const name = element('span')
  const detail = element('span', { class: 'faint' })
  const cell = (label: string): HTMLElement => element('td', { 'data-name': label })
  const [state, flows, model, share, seen] = ['State', 'Flows', 'Model', 'Lately novel', 'Last seen'].map(
    cell,
  )
  const buttons = element('div', { class: 'buttons' })
  const row = element(
    'tr',
    { 'data-device': key },
    element('th', { scope: 'row' }, name, detail),
    state,
    flows,
    model,
    share,
    seen,
    element('td', {}, buttons),
  )
  return { row, name, detail, state, flows, model, share, seen, buttons }
}

function fill(row: Row, device: Device, { act, rollback }: DeviceDeeds): void {
  const { key, address, vendor, randomised, state, model } = device
  const name = device.name?.name ?? key
  setText(row.name, name)
  const details = [
    name === key ? '' : key,
    address === key ? '' : address,
    vendor ?? '',
    randomised ? 'made-up address' : '',
  ]
  setText(row.detail, details.filter((detail) => detail !== '').join(', '))
  setText(row.flows, numberText(device.flows))
  setText(row.model, modelText(model))
  setText(row.share, `${numberText(Math.round(1000 * device.novelShare) / 10)} %`)
  setText(row.seen, timeOf(device.lastSeenMicros))
  const back = model !== null && model.previous !== null ? model.owner : ''
  const buttons = `${state} ${back} ${name}`
  if (row.row.dataset.buttons === buttons) return
  row.row.dataset.buttons = buttons
  const hadFocus = row.buttons.contains(document.activeElement)
  const focused = document.activeElement?.textContent
  setText(row.state, state)
  row.buttons.replaceChildren(
    ...ACTIONS[state].map((action) =>
      element(
        'button',
        { type: 'button', 'aria-label': `${capital(action)} ${name}`, click: () => void act(action, key) },
        capital(action),
      ),
    ),
    ...(back === ''
      ? []
      : [
          element(
            'button',
            {
              type: 'button',
              'aria-label': `Roll back the model of ${back === key ? name : back}`,
              click: () => void rollback(back),
            },
            'Roll back',
          ),
        ]),
  )
  const focus = hadFocus ? [...row.buttons.querySelectorAll('button')] : []
  ;(focus.find(({ textContent }) => textContent === focused) ?? focus[0])?.focus()
}

const SOURCES: Readonly<Record<OwnModel['state'], string>> = {
  waiting: 'waits for room',
  learning: 'is learnt',
  trained: 'trained here',
  'learnt-on': 'trained here, learnt on since',
  given: 'given',
}

/** Where the model comes from, of whom it is where not of the device alone, and what it promises. */
function modelText(model: OwnModel | null): string {
  if (model === null) return '–'
  const { state, rows, rowsNeeded, falseAlarmShare, keepsPromise } = model
  if (state === 'learning' && rowsNeeded !== null) {
    return `${SOURCES.learning}: ${numberText(rows)} of ${numberText(rowsNeeded)} rows`
  }
  if (falseAlarmShare === null) return SOURCES[state]
  const promise = `promises at most ${String(Number((100 * falseAlarmShare).toPrecision(2)))} % of normal flows`
  return `${SOURCES[state]}; ${promise}${keepsPromise === false ? ', more than was asked' : ''}`
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
