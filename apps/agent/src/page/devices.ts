/** The devices and what a person may do with each; rows stay where the focus is and only their texts change. */
import { type AgentState, ask, type Device, type Noticed, type OwnModel } from './api.js'
import { byId, countText, element, numberText, setText, timeOf } from './dom.js'

/** What is said of a model, in the same words by the page and by the commands that list devices and models. */

/** What share of normal flows a model flags at most, and whether that holds and was asked for; empty without a model. */
export function promiseText({ falseAlarmShare, keepsPromise, proving }: OwnModel): string {
  if (falseAlarmShare === null) return ''
  const share = `up to ${Number((100 * falseAlarmShare).toPrecision(2))} %`
  if (keepsPromise === null) return `${share}, not proven`
  return keepsPromise === false && proving?.state !== 'broken' ? `${share}, more than asked` : share
}

/** How many false alarms a model promises of a device at most: "about 1 false alarm in 3 days"; empty without a model. */
export function alarmsText(
  device: Pick<Device, 'flows' | 'learningSinceMicros' | 'lastSeenMicros'>,
  model: Pick<OwnModel, 'falseAlarmShare'> | null,
): string {
  if (model === null || model.falseAlarmShare === null) return ''
  // of less than an hour as of an hour
  const hours = Math.max(1, (device.lastSeenMicros - device.learningSinceMicros) / 3_600_000_000)
  const perDay = model.falseAlarmShare * ((24 * device.flows) / hours)
  const days = Math.round(1 / perDay)
  if (!Number.isFinite(days)) return ''
  if (days > 1) return `about 1 false alarm in ${days} days`
  const count = Math.max(1, Math.round(perDay))
  return `about ${count} false ${count === 1 ? 'alarm' : 'alarms'} a day`
}

/** How far the proof of a model is, and what came of it; empty where none is asked of it. */
export function proofText({ proving }: OwnModel): string {
  if (proving === null) return ''
  const { state, flows, needed, novel } = proving
  if (state === 'open') return `proving: ${novel} novel of ${flows}, ${needed} needed`
  if (state === 'kept') return `proven: ${novel} novel of ${flows}`
  return `${novel} of ${flows} novel: more than promised; retraining`
}

/** What became of the last training, where its model was refused; else empty. */
export function refusedText({ refused }: OwnModel): string {
  if (refused === null) return ''
  const { rows, unsettledShare } = refused
  return `the last training (${rows} rows) was refused: it flagged ${(100 * unsettledShare).toFixed(1)} % more of the later flows than promised`
}

/** That the model in force is not the one that it should be; empty where it is. */
export function damageText({ damage }: OwnModel): string {
  if (damage === null) return ''
  return damage === 'previous'
    ? 'its model was damaged; the previous model judges'
    : 'its model is damaged; retraining'
}

/** "learning: 130 of about 400 flows, ready in about 2 days". @param device - its forecast is absent where no agent runs. */
export function stateText({
  state,
  flows,
  forecast,
  novelShare,
  model,
}: Pick<Device, 'state' | 'flows' | 'novelShare'> & {
  readonly forecast?: Device['forecast']
  readonly model?: Pick<OwnModel, 'state'> | null
}): string {
  if (state !== 'learning') return state
  const count = countText(flows, 'flow')
  if (forecast === undefined || forecast === null) return `learning: ${count}`
  const needed = Math.max(flows, Number((forecast.flows ?? 0).toPrecision(2)))
  const progress =
    forecast.flows === null ? count : `${numberText(flows)} of about ${countText(needed, 'flow')}`
  return `learning: ${progress}, ${forecast.hours === null ? heldUpText(novelShare, model) : `ready ${inText(forecast.hours)}`}`
}

function heldUpText(novelShare: number | null, model: Pick<OwnModel, 'state'> | null | undefined): string {
  if (model?.state === 'waiting') return 'waiting for memory: too many devices learn at once'
  return `too many of its last flows were unusual (${Math.round(100 * (novelShare ?? 0))} %)`
}

function inText(hours: number): string {
  if (hours < 1) return 'within the hour'
  if (hours < 36) return `in about ${countText(hours, 'hour')}`
  return `in about ${countText(Math.round(hours / 24), 'day')}`
}

interface DeviceDeeds {
  /** @param text - of a name or a group. */
  act(action: string, device: string, text?: string): Promise<void>
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
  readonly model: Element
  readonly more: Element
  readonly flows: Element
  readonly contacts: HTMLElement
  readonly seen: Element
  readonly buttons: HTMLElement
}

const rows = new Map<string, Row>()
/** As they were told last. */
let latest: ReadonlyMap<string, Device> = new Map()
let approveAsked: (() => Promise<void>) | null = null
let saveLabels: ((name: string, group: string) => void) | null = null
/** Empty: all devices are listed. */
let chosenGroup = ''

export function showDevices(devices: AgentState['devices'], deeds: DeviceDeeds): void {
  const note = byId('devices-note')
  byId('devices').hidden = devices === null || devices.total === 0
  if (devices === null) {
    setText(note, 'The agent keeps no list of devices, because its configuration has no “devices:”.')
    return
  }
  const { total, shown } = devices
  latest = new Map(shown.map((device) => [device.key, device]))
  const more = total - shown.length
  setText(
    note,
    total === 0
      ? 'No device seen yet.'
      : more === 0
        ? ''
        : `${more} more: run “oddflow-agent devices list” to see them.`,
  )
  const body = byId('devices').querySelector('tbody')
  const keys = new Set(shown.map(({ key }) => key))
  for (const [key, { row }] of rows) {
    if (keys.has(key)) continue
    row.remove()
    rows.delete(key)
  }
  showGroups([...new Set(shown.flatMap(({ group }) => group ?? []))].sort())
  for (const device of shown) {
    let row = rows.get(device.key)
    if (row === undefined) {
      row = makeRow(device)
      rows.set(device.key, row)
      body?.append(row.row)
    }
    fill(row, device, deeds)
    row.row.hidden = chosenGroup !== '' && device.group !== chosenGroup
  }
}

/** The choice of a group; none where there are no groups. */
function showGroups(groups: readonly string[]): void {
  if (!groups.includes(chosenGroup)) chosenGroup = ''
  byId('group-choice').hidden = groups.length === 0
  const select = byId<HTMLSelectElement>('group')
  if (
    [...select.options].slice(1).every(({ value }, i) => value === groups[i]) &&
    select.length > groups.length
  )
    return
  select.replaceChildren(
    element('option', { value: '' }, 'all devices'),
    ...groups.map((group) => element('option', { value: group }, group)),
  )
  select.value = chosenGroup
  byId('groups').replaceChildren(...groups.map((group) => element('option', { value: group })))
}

function makeRow({ key }: Device): Row {
  const name = element('span')
  const detail = element('span', { class: 'faint' })
  const cell = (label: string): HTMLElement => element('td', { 'data-name': label })
  const [state, model] = [element('span'), element('span', { class: 'faint' })]
  const flows = element('p')
  const [contacts, noticed] = [element('div'), element('div')]
  const about = cell('State')
  const more = element('summary', {}, 'More')
  const toggle = (): void => {
    if (details.open) void showNoticed(noticed, key)
  }
  const details = element('details', { toggle }, more, flows, contacts, noticed)
  about.append(state, model, details)
  const seen = cell('Last seen')
  const buttons = element('div', { class: 'buttons' })
  const row = element(
    'tr',
    { 'data-device': key },
    element('th', { scope: 'row' }, name, detail),
    about,
    seen,
    element('td', {}, buttons),
  )
  return { row, name, detail, state, model, more, flows, contacts, seen, buttons }
}

function fill(row: Row, device: Device, { act, rollback }: DeviceDeeds): void {
  const { key, address, vendor, randomised, state, model } = device
  const name = device.name?.name ?? key
  setText(row.name, name)
  const details = [
    name === key ? '' : key,
    address === key ? '' : address,
    vendor ?? '',
    device.group === null ? '' : `group ${device.group}`,
    randomised ? 'private address' : '',
  ]
  setText(row.detail, details.filter((detail) => detail !== '').join(', '))
  setText(row.state, stateText(device))
  row.more.setAttribute('aria-label', `More about ${name}`)
  setText(row.model, model === null ? '' : modelText(model, device))
  const share = device.novelShare === null ? '' : `, ${shareText(device.novelShare)} of the last ones unusual`
  setText(row.flows, `${countText(device.flows, 'flow')}${share}.`)
  fillList(row.contacts, 'Most frequent contacts while it learned:', device.contacts)
  setText(row.seen, timeOf(device.lastSeenMicros))
  const back = model !== null && model.previous !== null ? model.owner : ''
  const buttons = `${state} ${back} ${name}`
  if (row.row.dataset.buttons === buttons) return
  row.row.dataset.buttons = buttons
  const hadFocus = row.buttons.contains(document.activeElement)
  const focused = document.activeElement?.textContent
  row.buttons.replaceChildren(
    ...ACTIONS[state].map((action) =>
      element(
        'button',
        {
          type: 'button',
          'aria-label': `${capital(action)} ${name}`,
          click: () => {
            const now = latest.get(key)
            if (action === 'approve' && now?.state === 'learning') askToApprove(now, () => act(action, key))
            else void act(action, key)
          },
        },
        action === 'approve' && state === 'learning' ? 'Approve…' : capital(action),
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
    element(
      'button',
      {
        type: 'button',
        'aria-label': `Name and group of ${name}`,
        click: () => askForLabels(latest.get(key) ?? device, act),
      },
      'Name…',
    ),
  )
  const focus = hadFocus ? [...row.buttons.querySelectorAll('button')] : []
  ;(focus.find(({ textContent }) => textContent === focused) ?? focus[0])?.focus()
}

/** What its model would notice, which the agent finds when it is asked for the first time. */
async function showNoticed(target: HTMLElement, device: string): Promise<void> {
  const say = (text: string): void => target.replaceChildren(element('p', {}, text))
  if (target.childElementCount === 0) say('One moment: its model is being tried with made attacks.')
  try {
    const { noticed } = await ask<{ noticed: readonly Noticed[] | null }>(
      'GET',
      `/api/noticed?device=${encodeURIComponent(device)}`,
    )
    if (noticed === null) say('No model judges this device yet.')
    else if (noticed.length === 0)
      say('Made attacks cannot be tried on its model, because it does not score packets.')
    else {
      const items = noticed.map(({ kind, from }) => element('li', {}, `${kind}: ${from}`))
      target.replaceChildren(
        element('p', {}, 'The smallest made attacks that its model notices:'),
        element('ul', {}, ...items),
      )
    }
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
  }
}

/** A title and what it is of; nothing where there is none. */
function fillList(target: HTMLElement, title: string, items: readonly string[]): void {
  const text = items.join('\n')
  if (target.dataset.items === text) return
  target.dataset.items = text
  target.replaceChildren(
    ...(items.length === 0
      ? []
      : [element('p', {}, title), element('ul', {}, ...items.map((item) => element('li', {}, item)))]),
  )
}

const SOURCES: Readonly<Record<OwnModel['state'], string>> = {
  waiting: 'waiting for memory',
  learning: 'learning',
  trained: 'trained here',
  'learnt-on': 'trained here and updated since',
  given: 'trained elsewhere',
}

/** Where the model comes from, what it promises, and what came of its proof and of the last training. */
export function modelText(
  model: OwnModel,
  device: Pick<Device, 'flows' | 'learningSinceMicros' | 'lastSeenMicros'>,
): string {
  const { state, rows, rowsNeeded, falseAlarmShare } = model
  const progress = rowsNeeded === null ? '' : `: ${numberText(rows)} of ${numberText(rowsNeeded)} rows`
  const texts =
    state === 'learning'
      ? [`${SOURCES.learning}${progress}`]
      : [
          SOURCES[state],
          falseAlarmShare === null ? '' : `false alarms ${promiseText(model)}`,
          alarmsText(device, model),
          proofText(model),
        ]
  return [damageText(model), ...texts, refusedText(model)].filter((text) => text !== '').join('; ')
}

function shareText(share: number): string {
  return `${numberText(Math.round(1000 * share) / 10)} %`
}

/** The second step of approving a device that is not ready: what one takes upon oneself. */
function askToApprove(device: Device, approve: () => Promise<void>): void {
  const { key, model, novelShare } = device
  const name = device.name?.name ?? key
  setText(byId('approve-title'), `${name} is not ready`)
  setText(byId('approve-reason'), notReadyText(device))
  const share = novelShare === null ? 'an unknown share' : `about ${shareText(novelShare)}`
  setText(
    byId('approve-notice'),
    model !== null && model.model === null
      ? 'It has no model of its own yet. The model for all devices judges it, if there is one; otherwise nothing judges it until it has a model.'
      : `If nothing changes, ${share} of its flows are unusual, and each of them may be an alert. Learning ends.`,
  )
  approveAsked = approve
  byId<HTMLDialogElement>('approve').showModal()
}

function notReadyText({ model, flows }: Device): string {
  const proof = model === null ? '' : proofText(model)
  if (model?.proving?.state === 'broken') return `Its model was tried on later flows: ${proof}.`
  if (proof !== '') return `Its model is not proven on later flows yet (${proof}).`
  return `It has learned from ${numberText(flows)} flows so far. That is not enough.`
}

export function prepareApprove(): void {
  const dialog = byId<HTMLDialogElement>('approve')
  byId('approve-cancel').addEventListener('click', () => dialog.close())
  byId('approve-form').addEventListener('submit', (event) => {
    event.preventDefault()
    dialog.close()
    void approveAsked?.()
    approveAsked = null
  })
}

/** What a person calls a device, and where a person puts it. */
function askForLabels(device: Device, act: DeviceDeeds['act']): void {
  const { key, group } = device
  const own = device.name?.source === 'person' ? device.name.name : ''
  setText(byId('labels-title'), `Name and group of ${device.name?.name ?? key}`)
  byId<HTMLInputElement>('own-name').value = own
  byId<HTMLInputElement>('own-group').value = group ?? ''
  saveLabels = (newName, newGroup) => {
    if (newName !== own) void act('name', key, newName)
    if (newGroup !== (group ?? '')) void act('group', key, newGroup)
  }
  byId<HTMLDialogElement>('labels').showModal()
}

export function prepareLabels(): void {
  const dialog = byId<HTMLDialogElement>('labels')
  byId('labels-cancel').addEventListener('click', () => dialog.close())
  byId('labels-form').addEventListener('submit', (event) => {
    event.preventDefault()
    dialog.close()
    saveLabels?.(
      byId<HTMLInputElement>('own-name').value.trim(),
      byId<HTMLInputElement>('own-group').value.trim(),
    )
  })
  byId('group').addEventListener('change', () => {
    chosenGroup = byId<HTMLSelectElement>('group').value
    for (const [key, { row }] of rows)
      row.hidden = chosenGroup !== '' && latest.get(key)?.group !== chosenGroup
  })
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
