/**
 * The dashboard's page: signs in, and shows what the agent sends while the page is visible. A token in the address is used
 * once and taken out of it.
 */
import { render } from 'preact'
import { useState } from 'preact/hooks'
import { Alerts, Rules } from './alerts.js'
import { type AgentState, ask, type Change, type ChangeAnswer, changesOf, messageOf, Refused } from './api.js'
import { Devices } from './devices.js'
import { Health, standingOf } from './health.js'
import { Incidents } from './incidents.js'

const RETRY_MILLIS = 2000
/** The agent sends something every second. */
const SILENCE_MILLIS = 5000
const MAXIMUM_ALERTS = 100

interface View {
  /** With the alerts of this run so far; null before the agent's first answer. */
  readonly state: AgentState | null
  /** Why the state is not of now; null while it is. */
  readonly trouble: string | null
  readonly isSignedOut: boolean
  readonly signInError: string
}

let view: View = { state: null, trouble: null, isSignedOut: false, signInError: '' }
let watching = new AbortController()
let timer: number | undefined

function show(changes: Partial<View>): void {
  view = { ...view, ...changes }
  render(<Page {...view} />, document.body)
}

function Page({ state, trouble, isSignedOut, signInError }: View) {
  const isWatching = state !== null && !isSignedOut
  const quiet = isSignedOut ? 'Not signed in' : 'One moment'
  const standing = isWatching ? standingOf(state) : { text: quiet, isIll: false }
  const isIll = trouble !== null || standing.isIll
  return (
    <>
      {isWatching && (
        <a class="skip" href="#devices-title">
          Skip to the devices
        </a>
      )}
      <header>
        <h1>OddFlow</h1>
        <p id="standing" role="status" class={isIll ? 'ill' : ''}>
          {trouble ?? standing.text}
        </p>
        {isWatching && (
          <button id="sign-out" type="button" onClick={signOut}>
            Sign out
          </button>
        )}
      </header>
      {isSignedOut && <SignIn error={signInError} />}
      {isWatching && <Watch state={state} />}
    </>
  )
}

function SignIn({ error }: { readonly error: string }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault()
    const { token } = event.currentTarget as HTMLFormElement
    void signIn(token.value.trim())
  }
  return (
    <main id="sign-in">
      <form onSubmit={submit}>
        <h2>Sign in</h2>
        <p>
          On the gateway, run{' '}
          <code>sudo -u oddflow oddflow-agent dashboard-link -c /etc/oddflow/agent.yaml</code> and open the
          link that it prints. Or enter the token from <code>dashboard-token.json</code> in the agent’s state
          folder.
        </p>
        <label for="token">Token</label>
        <input type="text" autocomplete="username" value="dashboard" readonly hidden />
        <input id="token" type="password" autocomplete="current-password" spellcheck={false} required />
        <button type="submit">Sign in</button>
        <p class="notice" role="alert">
          {error}
        </p>
      </form>
    </main>
  )
}

function Watch({ state }: { readonly state: AgentState }) {
  const [message, setMessage] = useState('')
  const change: Change = async (method, path, body) => {
    try {
      const answer = await ask<Partial<ChangeAnswer>>(method, path, body)
      setMessage((answer.results ?? []).flatMap(({ refused }) => refused ?? []).join('; '))
      return answer.said ?? []
    } catch (error) {
      setMessage(messageOf(error))
      return []
    }
  }
  return (
    <main id="watch">
      <p id="message" class="notice" role="alert">
        {message}
      </p>
      <Incidents state={state} change={change} />
      <Devices state={state} change={change} />
      <Health state={state} />
      <Alerts state={state} />
      <Rules state={state} change={change} />
    </main>
  )
}

async function signIn(token: string): Promise<void> {
  try {
    await ask('POST', '/api/session', undefined, token)
    show({ isSignedOut: false, signInError: '' })
    void watch()
  } catch (error) {
    show({ isSignedOut: true, signInError: messageOf(error) })
  }
}

function signOut(): void {
  void ask('DELETE', '/api/session').finally(() => location.reload())
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
    const { startedMicros: run = 0, next: after = 0 } = view.state ?? {}
    for await (const change of changesOf(`/api/events?run=${run}&after=${after}`, signal)) {
      waitFor(SILENCE_MILLIS, lost)
      // another run of the agent sends its alerts from the first
      const isOfRun = change.startedMicros === undefined || change.startedMicros === run
      const before = isOfRun ? (view.state?.alerts ?? []) : []
      const alerts = [...before, ...change.alerts].slice(-MAXIMUM_ALERTS)
      show({ state: { ...view.state, ...change, alerts } as AgentState, trouble: null })
    }
    if (!signal.aborted) lost()
  } catch (error) {
    if (signal.aborted) return
    if (!(error instanceof Refused)) lost()
    else if (error.status !== 401) lost(error.message)
    else {
      window.clearTimeout(timer)
      show({ state: null, trouble: null, isSignedOut: true })
    }
  }
}

function lost(why = 'The agent does not answer'): void {
  watching.abort()
  show({ trouble: why })
  waitFor(RETRY_MILLIS, watch)
}

function waitFor(millis: number, work: () => void): void {
  window.clearTimeout(timer)
  timer = window.setTimeout(() => work(), millis)
}

document.addEventListener('visibilitychange', () => void watch())
show({})
const token = /^#token=([\w-]{1,256})/.exec(location.hash)?.[1]
if (token === undefined) void watch()
else {
  history.replaceState(null, '', location.pathname)
  void signIn(token)
}
