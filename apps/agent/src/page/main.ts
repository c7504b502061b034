/**
 * The dashboard's page: signs in, and shows what the agent sends while the page is visible. A token in the address is used
 * once and taken out of it.
 */
import { clearAlerts, prepareAlerts, showAlerts } from './alerts.js'
import { type AgentState, ask, type ChangeAnswer, changesOf, Refused } from './api.js'
import { prepareApprove, prepareLabels, showDevices } from './devices.js'
import { byId, scoreChart, setText } from './dom.js'
import { showHealth, standingOf } from './health.js'
import { showIncidents } from './incidents.js'
import { openSuppress, prepareSuppress, showRules } from './suppress.js'

const RETRY_MILLIS = 2000
/** The agent sends something every second. */
const SILENCE_MILLIS = 5000

let latest: AgentState | null = null
let watching = new AbortController()
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
    void watch()
  } catch (error) {
    show('sign-in')
    setText(byId('sign-in-error'), error instanceof Error ? error.message : String(error))
  }
}

/** Does what a person asked for, and says what was refused. The agent sends what came of it. */
async function change(work: () => Promise<Partial<ChangeAnswer>>): Promise<void> {
  const message = byId('message')
  try {
    const { results = [] } = await work()
    setText(message, results.flatMap(({ refused }) => refused ?? []).join('; '))
  } catch (error) {
    setText(message, error instanceof Error ? error.message : String(error))
  }
}

function showState(state: AgentState): void {
  show('watch')
  const { text, isIll } = standingOf(state)
  setStanding(text, isIll)
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
  showAlerts(state.alerts, openSuppress)
  showDevices(state.devices, {
    act: (action, device, text) =>
      change(() => ask('POST', '/api/devices', { action, devices: [device], text })),
    rollback: (owner) => change(() => ask('POST', '/api/models', { rollback: [owner] })),
  })
  const chart = byId('scores')
  chart.replaceChildren(scoreChart(state.minutes, chart.clientWidth))
  showHealth(state)
  showRules(state.suppressions, (name) => change(() => ask('DELETE', '/api/suppressions', { name })))
}

/** Shows what the agent sends until the page is hidden or the session ends. */
async function watch(): Promise<void> {
  watching.abort()
  window.clearTimeout(timer)
  if (document.hidden) return
  watching = new AbortController()
  const { signal } = watching
  waitFor(SILENCE_MILLIS, lost)
  try {
    const { startedMicros: run = 0, next: after = 0 } = latest ?? {}
    for await (const change of changesOf(`/api/events?run=${run}&after=${after}`, signal)) {
      waitFor(SILENCE_MILLIS, lost)
      // another run of the agent sends its alerts from the first
      if (change.startedMicros !== undefined && change.startedMicros !== run) clearAlerts()
      // without incidents the alerts are all that there is
      if (latest === null) byId<HTMLDetailsElement>('alerts-details').open = change.incidents === null
      latest = { ...latest, ...change } as AgentState
      showState(latest)
    }
    if (!signal.aborted) lost()
  } catch (error) {
    if (signal.aborted) return
    if (!(error instanceof Refused)) lost()
    else if (error.status !== 401) lost(error.message)
    else {
      window.clearTimeout(timer)
      show('sign-in')
    }
  }
}

function lost(why = 'The agent does not answer'): void {
  watching.abort()
  setStanding(why, true)
  waitFor(RETRY_MILLIS, watch)
}

function waitFor(millis: number, work: () => void): void {
  window.clearTimeout(timer)
  timer = window.setTimeout(() => work(), millis)
}

byId('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void signIn(byId<HTMLInputElement>('token').value.trim())
})
byId('sign-out').addEventListener('click', () => {
  byId<HTMLInputElement>('token').value = ''
  void ask('DELETE', '/api/session').finally(() => location.reload())
})
document.addEventListener('visibilitychange', () => void watch())
prepareSuppress()
prepareApprove()
prepareLabels()
prepareAlerts()

const token = /^#token=([\w-]{1,256})/.exec(location.hash)?.[1]
if (token === undefined) void watch()
else {
  history.replaceState(null, '', location.pathname)
  void signIn(token)
}
