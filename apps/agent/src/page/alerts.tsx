/** The single alerts, and temporary rules against more of the same kind. */
import { useState } from 'preact/hooks'
import { type AlertEvent, ask, messageOf, type NoticeEvent, type SectionProps } from './api.js'
import { Dialog } from './parts.js'
import { countText, nameOf, numberText, timeOf } from './texts.js'

/** Before a person asks for all. */
const FIRST_SHOWN = 10

/** By their times, which are those of the packets: an alert that stands for several comes when these have ended. */
export function Alerts({ state: { alerts, next, incidents } }: Pick<SectionProps, 'state'>) {
  const [isAll, setAll] = useState(false)
  const [suppressed, suppress] = useState<AlertEvent | null>(null)
  // all are written in universal time, so their order is that of their texts
  const count = alerts.length
  const newest = alerts
    .map((event, i) => ({ event, time: event.timestamp, number: next - count + i }))
    .reverse()
    .sort((a, b) => Number(a.time < b.time) - Number(a.time > b.time))
  return (
    <section aria-labelledby="alerts-title">
      <h2 id="alerts-title">Alerts</h2>
      {count === 0 ? (
        <p>None yet.</p>
      ) : (
        <details id="alerts-details" open={incidents === null}>
          <summary>The individual alerts of the incidents</summary>
          <p class="faint">Newest first, by the time of the packets.</p>
          <ol id="alerts" reversed>
            {newest.slice(0, isAll ? count : FIRST_SHOWN).map(({ event, number }) => (
              <li key={number} class="fresh">
                {'flow' in event.oddflow ? (
                  <AlertArticle event={event as AlertEvent} suppress={suppress} />
                ) : (
                  <article>
                    <Heading event={event} />
                    <p>{event.oddflow.summary}</p>
                  </article>
                )}
              </li>
            ))}
          </ol>
          {count > FIRST_SHOWN && (
            <p class="buttons">
              <button type="button" onClick={() => setAll(!isAll)}>
                {isAll ? `Show the latest ${FIRST_SHOWN} alerts` : `Show all ${count} alerts`}
              </button>
            </p>
          )}
        </details>
      )}
      {suppressed !== null && <SuppressDialog event={suppressed} close={() => suppress(null)} />}
    </section>
  )
}

/** @param whose - the device where the alert names one. */
function Heading({ event, whose }: { readonly event: AlertEvent | NoticeEvent; readonly whose?: string }) {
  const { alert, timestamp } = event
  return (
    <>
      <h3>{alert.signature.replace(/^OddFlow: /, '')}</h3>
      <p class="faint">
        <time dateTime={timestamp}>{timeOf(1000 * Date.parse(timestamp))}</time> {whose}
      </p>
    </>
  )
}

type Suppress = (event: AlertEvent) => void

function AlertArticle({ event, suppress }: { event: AlertEvent; suppress: Suppress }) {
  const { device, folded, summary } = event.oddflow
  const who = nameOf(device)
  const addresses = [device.mac, device.address].filter((address) => address !== null && address !== who)
  return (
    <article>
      <Heading event={event} whose={`${who}${addresses.length === 0 ? '' : ` (${addresses.join(', ')})`}`} />
      <p>{summary}</p>
      {folded !== undefined && (
        <p class="faint">
          similar: {countText(folded.peers, 'peer')}, {countText(folded.services, 'service')}
        </p>
      )}
      <details>
        <summary>Why, and which flow</summary>
        <Why event={event} />
      </details>
      <p class="buttons">
        <button
          type="button"
          aria-label={`Suppress alerts like this one of ${who}`}
          onClick={() => suppress(event)}
        >
          Suppress…
        </button>
      </p>
    </article>
  )
}

const REASONS: Readonly<Record<string, string>> = {
  whole: 'The flow as a whole differs from normal flows. No single feature explains the difference.',
  'no-comparison': 'There is no normal flow with the same features to compare it with.',
}

function Why({ event: { oddflow } }: { readonly event: AlertEvent }) {
  const { flow, features, reason = '', shadow, lostInWindow, evidence, evidencePackets } = oddflow
  return (
    <>
      {features.length > 0 ? <FeatureTable features={features} /> : <p>{REASONS[reason]}</p>}
      <p class="faint">{scoreText(oddflow)}</p>
      {shadow !== undefined && <p class="faint">{shadowText(shadow)}</p>}
      {flow.packets > 0 && (
        <p class="faint">
          {`${flow.protocol} ${flow.source} port ${flow.sourcePort} → ${flow.destination} port ${flow.destinationPort}, ${numberText(flow.packets)} packets, ${numberText(flow.bytes)} bytes`}
        </p>
      )}
      {lostInWindow > 0 && (
        <p class="notice">{numberText(lostInWindow)} packets were lost during this flow</p>
      )}
      {evidence !== undefined && (
        <p class="faint">
          packets kept in {evidence}
          {keptText(evidencePackets)}
        </p>
      )}
    </>
  )
}

function scoreText({ score, threshold, rarity }: AlertEvent['oddflow']): string {
  if (score === null) return ''
  const limit = threshold === null ? '' : `, threshold ${numberText(threshold)}`
  const rare =
    rarity === null
      ? ''
      : `; at most ${numberText(100 * rarity.atMost)} % of normal flows score this low (${numberText(rarity.flows)} flows compared)`
  return `score ${numberText(score)}${limit}${rare}`
}

/** The verdict of the model before its updates: whether they made the difference. */
function shadowText({ novel, score, threshold }: NonNullable<AlertEvent['oddflow']['shadow']>): string {
  const verdict = novel ? 'flags it too' : 'does not flag it'
  const numbers = score === null ? '' : ` (score ${numberText(score)}, threshold ${numberText(threshold)})`
  return `the originally trained model ${verdict}${numbers}`
}

function keptText(packets: AlertEvent['oddflow']['evidencePackets']): string {
  if (packets === undefined) return ''
  const { kept, of, later } = packets
  const more = later === 0 ? '' : `, and ${numberText(later)} later`
  return `: ${numberText(kept)} of ${numberText(of)} up to the verdict${more}`
}

function FeatureTable({ features }: Pick<AlertEvent['oddflow'], 'features'>) {
  const text = (value: number | null, unit: string): string =>
    value === null ? 'none' : `${numberText(value)} ${unit}`
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">feature</th>
          <th scope="col">here</th>
          <th scope="col">nearest normal</th>
        </tr>
      </thead>
      <tbody>
        {features.map(({ name, unit, value, nearest }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{text(value, unit)}</td>
            <td>{text(nearest, unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const PERIODS = [
  [60, 'an hour'],
  [480, 'eight hours'],
  [1440, 'a day'],
  [10_080, 'a week'],
  [43_200, 'thirty days'],
] as const

/** Makes a temporary rule of an alert. */
function SuppressDialog({ event, close }: { event: AlertEvent; close: () => void }) {
  const [error, setError] = useState('')
  const { device, flow, rule } = event.oddflow
  const peer = flow.source === device.address ? flow.destination : flow.source
  const who = device.mac ?? device.address
  const name = nameOf(device)
  const { protocol } = flow
  const port = Math.min(flow.sourcePort, flow.destinationPort)
  const conditions = [
    { name: `device ${name === who ? who : `${name} (${who})`}`, value: { device: who }, isChosen: true },
    { name: `peer ${peer}`, value: { peer }, isChosen: rule === 'score' || rule === 'one-packet' },
    { name: `${protocol} port ${port}`, value: { protocol, port }, isChosen: true },
    { name: `rule ${rule}`, value: { rule }, isChosen: false },
  ]
  const submit = (form: HTMLFormElement): void => {
    const given = new FormData(form)
    const chosen = conditions.filter((_, i) => given.has(String(i))).map(({ value }) => value)
    ask(
      'POST',
      '/api/suppressions',
      Object.assign({ minutes: Number(given.get('minutes')) }, ...chosen),
    ).then(close, (refused: unknown) => setError(messageOf(refused)))
  }
  return (
    <Dialog title="Suppress alerts like this one" action="Suppress" onSubmit={submit} onClose={close}>
      <fieldset>
        <legend>All selected conditions must hold</legend>
        {conditions.map(({ name: text, isChosen }, i) => (
          <label key={text}>
            <input type="checkbox" name={String(i)} defaultChecked={isChosen} />
            <span>{text}</span>
          </label>
        ))}
      </fieldset>
      <label for="minutes">For</label>
      <select id="minutes" name="minutes">
        {PERIODS.map(([minutes, text]) => (
          <option key={minutes} value={minutes} selected={minutes === 1440}>
            {text}
          </option>
        ))}
      </select>
      <p class="notice" role="alert">
        {error}
      </p>
    </Dialog>
  )
}

export function Rules({ state: { suppressions: rules }, change }: SectionProps) {
  if (rules.length === 0) return null
  return (
    <section id="rules-section" aria-labelledby="rules-title">
      <h2 id="rules-title">Temporary suppressions</h2>
      <ul id="rules">
        {rules.map(({ name, device, peer, protocol, port, rule, endsMicros, suppressed }) => {
          const service = [protocol, port === undefined ? undefined : `port ${port}`]
          const what = [device, peer, ...service, rule].filter((part) => part !== undefined).join(', ')
          return (
            <li key={name}>
              <span>
                {what}: until {timeOf(endsMicros)}, {suppressed} suppressed
              </span>
              <button
                type="button"
                aria-label={`End the rule for ${what}`}
                onClick={() => change('DELETE', '/api/suppressions', { name })}
              >
                End
              </button>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
