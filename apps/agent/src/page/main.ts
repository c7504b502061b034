/**
 * The dashboard's page: signs in, asks the agent how things are every two seconds as long as somebody looks, and
 * shows it. A token in the address is used once and taken out of it.
 */
import { clearAlerts, prepareAlerts, showAlerts } from './alerts.js'
import { type AgentState, ask, type ChangeAnswer, Refused } from './api.js'
import { prepareApprove, showDevices } from './devices.js'
import { byId, scoreChart, setText } from './dom.js'
import { showHealth, standingOf } from './health.js'
import { showIncidents } from './incidents.js'
import { openSuppress, prepareSuppress, showRules } from './suppress.js'

const PAUSE_MILLIS = 2000

let after = 0
let startedMicros = 0
let asking: Promise<void> | null = null
let timer: number | undefined

function show(which: 'sign-in' | 'watch'): void {
  byId('sign-in').hidden = which !== 'sign-in'
  byId('watch').hidden = which !== 'watch'
  byId('sign-out').hidden = which !== 'watch'
  if (which === 'sign-in') setText(byId('standing'), 'Not signed in')
}

function setStanding(text: string, isIll: boolean): void {
  setText(byId('standing'), text)
  byId('standing').classList.toggle('ill', isIll)
}

async function signIn(token: string): Promise<void> {
  try {
    await ask('POST', '/api/session', undefined, token)
    setText(byId('sign-in-error'), '')
    await refresh()
  } catch (error) {
    show('sign-in')
    setText(byId('sign-in-error'), error instanceof Error ? error.message : String(error))
  }
}

/** Does what a person asked for, says what was refused, and shows what came of it. */
async function change(work: () => Promise<Partial<ChangeAnswer>>): Promise<void> {
  const message = byId('message')
  try {
    const { results = [] } = await work()
    setText(message, results.flatMap(({ refused }) => refused ?? []).join('; '))
  } catch (error) {
    setText(message, error instanceof Error ? error.message : String(error))
  }
  await refresh()
}

function showState(state: AgentState): void {
  show('watch')
  const { text, isIll } = standingOf(state)
  setStanding(text, isIll)
  if (state.startedMicros !== startedMicros) {
    // another run of the agent, which counts its alerts anew: those that were not asked for come with the next answer
    if (startedMicros !== 0) clearAlerts()
    if (after > 0) state = { ...state, alerts: [], next: 0 }
    startedMicros = state.startedMicros
    after = 0
  }
  const first = state.next - state.alerts.length
  showIncidents(state, async ({ id }, answer) => {
    const said = byId('answer-said')
    await change(async () => {
      try {
        const answered = await ask<ChangeAnswer>('POST', '/api/incidents', { incident: id, answer })
        setText(said, answered.said.join(' '))
        return answered
      } catch (error) {
        setText(said, '')
        throw error
      }
    })
  })
  showAlerts(state.alerts.slice(Math.max(0, after - first)), openSuppress)
  after = state.next
  showDevices(state.devices, {
    act: (action, device) => change(() => ask('POST', '/api/devices', { action, devices: [device] })),
    rollback: (owner) => change(() => ask('POST', '/api/models', { rollback: [owner] })),
  })
  const chart = byId('scores')
  chart.replaceChildren(scoreChart(state.minutes, chart.clientWidth))
  showHealth(state)
  showRules(state.suppressions, (name) => change(() => ask('DELETE', '/api/suppressions', { name })))
}

async function refresh(): Promise<void> {
  window.clearTimeout(timer)
  // the answer that is on its way may be from before a change
  await asking
  asking = ask<AgentState>('GET', `/api/state?after=${after}`)
    .then(showState, (error: unknown) => {
      if (error instanceof Refused && error.status === 401) show('sign-in')
      else setStanding(error instanceof Refused ? error.message : 'The agent does not answer', true)
    })
    .finally(() => {
      asking = null
    })
  await asking
  window.clearTimeout(timer)
  if (!document.hidden && byId('sign-in').hidden)
    timer = window.setTimeout(() => void refresh(), PAUSE_MILLIS)
}

byId('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void signIn(byId<HTMLInputElement>('token').value.trim())
})
byId('sign-out').addEventListener('click', () => {
  byId<HTMLInputElement>('token').value = ''
  void ask('DELETE', '/api/session').finally(() => location.reload())
})
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void refresh()
})
prepareSuppress(refresh)
prepareApprove()
prepareAlerts()

const token = /^#token=([\w-]{1,256})/.exec(location.hash)?.[1]
if (token === undefined) void refresh()
else {
  history.replaceState(null, '', location.pathname)
  void signIn(token)
}
