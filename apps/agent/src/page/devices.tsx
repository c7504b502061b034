/** The devices, and what a person may do with each. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type AgentState, ask, type Device, messageOf, type Noticed, type SectionProps } from './api.js'
import { Buttons, Dialog, List } from './parts.js'
import { countText, modelText, numberText, proofText, shareText, stateText, timeOf } from './texts.js'

const ACTIONS: Readonly<Record<Device['state'], readonly string[]>> = {
  learning: ['approve', 'pause'],
  ready: ['approve', 'pause'],
  watching: ['pause'],
  paused: ['resume'],
}

/** @param text - of a name or a group. */
type Act = (action: string, device: string, text?: string) => void

const titleOf = ({ name, key }: Device): string => name?.name ?? key

export function Devices({ state: { devices }, change }: SectionProps) {
  const [chosen, choose] = useState('')
  const [asked, askAbout] = useState<{ what: 'approve' | 'labels'; device: Device } | null>(null)
  const act: Act = (action, device, text) =>
    change('POST', '/api/devices', { action, devices: [device], text })
  const close = (): void => askAbout(null)
  const { total, shown } = devices ?? { total: 0, shown: [] }
  const groups = [...new Set(shown.flatMap(({ group }) => group ?? []))].sort()
  // a group may go
  const group = groups.includes(chosen) ? chosen : ''
  return (
    <section aria-labelledby="devices-title">
      <h2 id="devices-title" tabIndex={-1}>
        Devices
      </h2>
      <p>{noteText(devices)}</p>
      {groups.length > 0 && (
        <p id="group-choice">
          <label for="group">Show</label>{' '}
          <select id="group" value={group} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            <option value="">all devices</option>
            {groups.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </p>
      )}
      {total > 0 && (
        <table id="devices">
          <thead>
            <tr>
              <th scope="col">Device</th>
              <th scope="col">State</th>
              <th scope="col">Last seen</th>
              <th scope="col">Actions</th>
            </tr>
          </thead>
          <tbody>
            {shown
              .filter((device) => group === '' || device.group === group)
              .map((device) => (
                <Row
                  key={device.key}
                  device={device}
                  act={act}
                  rollback={(owner) => change('POST', '/api/models', { rollback: [owner] })}
                  ask={(what) => askAbout({ what, device })}
                />
              ))}
          </tbody>
        </table>
      )}
      {asked?.what === 'approve' && <ApproveDialog device={asked.device} act={act} close={close} />}
      {asked?.what === 'labels' && (
        <LabelsDialog device={asked.device} groups={groups} act={act} close={close} />
      )}
    </section>
  )
}

function noteText(devices: AgentState['devices']): string {
  if (devices === null)
    return 'The agent keeps no list of devices, because its configuration has no “devices:”.'
  if (devices.total === 0) return 'No device seen yet.'
  const more = devices.total - devices.shown.length
  return more === 0 ? '' : `${more} more: run “oddflow-agent devices list” to see them.`
}

interface RowProps {
  readonly device: Device
  readonly act: Act
  readonly rollback: (owner: string) => void
  readonly ask: (what: 'approve' | 'labels') => void
}

function Row({ device, act, rollback, ask }: RowProps) {
  const { key, address, vendor, group, randomised, state, model, flows, novelShare, contacts } = device
  const name = titleOf(device)
  const details = [
    name === key ? '' : key,
    address === key ? '' : address,
    vendor ?? '',
    group === null ? '' : `group ${group}`,
    randomised ? 'private (randomized) MAC address' : '',
  ]
  const share = novelShare === null ? '' : `, ${shareText(novelShare)} of the recent ones unusual`
  const isAsked = (action: string): boolean => action === 'approve' && state === 'learning'
  return (
    <tr data-device={key}>
      <th scope="row">
        <span>{name}</span>
        <span class="faint">{details.filter((detail) => detail !== '').join(', ')}</span>
      </th>
      <td data-name="State">
        <span>{state === 'ready' ? 'ready for your approval' : stateText(device)}</span>
        <span class="faint">{model === null ? '' : modelText(model, device)}</span>
        <More device={key} label={`More about ${name}`}>
          <p>
            {countText(flows, 'flow')}
            {share}.
          </p>
          {contacts.length > 0 && (
            <>
              <p>Most frequent contacts while it learned:</p>
              <List items={contacts} />
            </>
          )}
        </More>
      </td>
      <td data-name="Last seen">{timeOf(device.lastSeenMicros)}</td>
      <td>
        <Buttons>
          {ACTIONS[state].map((action) => (
            <button
              key={action}
              type="button"
              aria-label={`${capital(action)} ${name}`}
              onClick={() => (isAsked(action) ? ask('approve') : act(action, key))}
            >
              {capital(action)}
              {isAsked(action) && '…'}
            </button>
          ))}
          {model !== null && model.previous !== null && (
            <button
              type="button"
              aria-label={`Roll back the model of ${model.owner === key ? name : model.owner}`}
              onClick={() => rollback(model.owner)}
            >
              Roll back
            </button>
          )}
          <button type="button" aria-label={`Name and group of ${name}`} onClick={() => ask('labels')}>
            Name…
          </button>
        </Buttons>
      </td>
    </tr>
  )
}

/** What its model would notice, which the agent finds when it is asked for the first time. */
function More({ device, label, children }: { device: string; label: string; children: ComponentChildren }) {
  const [[text, ...items], setNoticed] = useState<readonly string[]>([''])
  const find = async (): Promise<void> => {
    const say = (...lines: string[]): void => setNoticed(lines)
    if (text === '') say('Testing the model with synthetic attacks…')
    try {
      const { noticed: found } = await ask<{ noticed: readonly Noticed[] | null }>(
        'GET',
        `/api/noticed?device=${encodeURIComponent(device)}`,
      )
      if (found === null) say('No model judges this device yet.')
      else if (found.length === 0)
        say('This model does not score packets, so the agent cannot test it with attacks.')
      else
        say(
          'The smallest attacks that the model detects:',
          ...found.map(({ kind, from }) => `${kind}: ${from}`),
        )
    } catch (error) {
      say(messageOf(error))
    }
  }
  return (
    <details onToggle={({ currentTarget }) => currentTarget.open && find()}>
      <summary aria-label={label}>More</summary>
      {children}
      <p>{text}</p>
      {items.length > 0 && <List items={items} />}
    </details>
  )
}

interface DialogProps {
  readonly device: Device
  readonly act: Act
  readonly close: () => void
}

/** The second step of approving a device that is not ready: what one takes upon oneself. */
function ApproveDialog({ device, act, close }: DialogProps) {
  const { key, model, novelShare } = device
  const share = novelShare === null ? 'an unknown share' : `about ${shareText(novelShare)}`
  const approve = (): void => {
    act('approve', key)
    close()
  }
  return (
    <Dialog
      title={`${titleOf(device)} is not ready`}
      action="Approve anyway"
      onSubmit={approve}
      onClose={close}
    >
      <p>{notReadyText(device)}</p>
      <p class="notice">
        {model !== null && model.model === null
          ? 'This device has no model yet. If a shared model exists, that model judges its flows. Otherwise its flows are not judged until its model is trained.'
          : `Approving ends learning. At the current rate, ${share} of the flows are unusual, and each can cause an alert.`}
      </p>
    </Dialog>
  )
}

function notReadyText({ model, flows }: Device): string {
  const proof = model === null ? '' : proofText(model)
  if (model?.proving?.state === 'broken') return `Its model was tested on later flows: ${proof}.`
  if (proof !== '') return `Its model is not proven on later flows yet (${proof}).`
  return `It has learned from ${numberText(flows)} flows so far. That is not enough.`
}

/** What a person calls a device, and where a person puts it. */
function LabelsDialog({ device, groups, act, close }: DialogProps & { readonly groups: readonly string[] }) {
  const { key } = device
  const before = { name: device.name?.source === 'person' ? device.name.name : '', group: device.group ?? '' }
  const save = (form: HTMLFormElement): void => {
    const given = new FormData(form)
    for (const label of ['name', 'group'] as const) {
      const text = String(given.get(label)).trim()
      if (text !== before[label]) act(label, key, text)
    }
    close()
  }
  return (
    <Dialog title={`Name and group of ${titleOf(device)}`} action="Save" onSubmit={save} onClose={close}>
      <label for="own-name">Name for this device</label>
      <input id="own-name" name="name" defaultValue={before.name} maxLength={63} autocomplete="off" />
      <label for="own-group">Group, such as cameras</label>
      <input
        id="own-group"
        name="group"
        defaultValue={before.group}
        maxLength={63}
        list="groups"
        autocomplete="off"
      />
      <datalist id="groups">
        {groups.map((group) => (
          <option key={group} value={group} />
        ))}
      </datalist>
    </Dialog>
  )
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
