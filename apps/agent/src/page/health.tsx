/** How the agent is: what it captured and lost, its memory, how far it is behind, and what waits for outputs. */
import type { OnlineReport } from '../models/update.js'
import type { AgentState, ScoreMinute, SectionProps } from './api.js'
import { useWidth } from './parts.js'
import { numberText, timeOf } from './texts.js'

const MEBIBYTE = 1_048_576
/** Beyond which the agent is said to be behind. */
const LAG_SECONDS = 5

/** In a few words, for the head of the page. */
export function standingOf(state: AgentState): { text: string; isIll: boolean } {
  const silent = silentOutputs(state)
  const [reason] = state.degraded
  if (reason !== undefined) return { text: `Degraded: ${reason}`, isIll: true }
  if (state.overloaded) return { text: 'Overloaded: the agent drops packets', isIll: true }
  if (!state.spoolWorks) return { text: 'Alerts cannot be saved: see the agent’s log', isIll: true }
  if (silent !== '') return { text: `Alerts cannot be delivered to ${silent}`, isIll: true }
  return { text: 'Watching', isIll: false }
}

export function Health({ state }: Pick<SectionProps, 'state'>) {
  return (
    <section aria-labelledby="health-title">
      <h2 id="health-title">Health</h2>
      <p id="health-line">{healthLine(state)}</p>
      <details>
        <summary>Scores and counters</summary>
        <ScoreChart minutes={state.minutes} />
        <dl id="health">
          {factsOf(state).map(([name, text, isIll = false], i) => (
            <div key={`${i} ${name}`}>
              <dt>{name}</dt>
              <dd class={isIll ? 'ill' : ''}>{text}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  )
}

const silentOutputs = ({ outputs }: AgentState): string =>
  outputs.flatMap(({ name, works }) => (works ? [] : name)).join(', ')

/** In one line: what it captured and lost, its memory, its delay, and its outputs. */
function healthLine(state: AgentState): string {
  const { captured, droppedKernel, droppedAgent } = state.counters
  const dropped = droppedKernel + droppedAgent
  const share = captured === 0 ? 0 : (100 * dropped) / captured
  const silent = silentOutputs(state)
  return [
    `${numberText(captured)} packets, ${dropped === 0 ? 'none dropped' : `${numberText(dropped)} dropped (${share < 0.01 ? 'under 0.01' : share.toFixed(2)} %)`}`,
    memoryText(state),
    ...(state.lagSeconds === null ? [] : [`${lagText(state.lagSeconds)} behind`]),
    silent === '' ? 'all outputs work' : `no delivery to ${silent}`,
  ].join('; ')
}

function memoryText({ residentBytes, memoryLimitBytes }: AgentState): string {
  return `${Math.round(residentBytes / MEBIBYTE)} of ${Math.round(memoryLimitBytes / MEBIBYTE)} MiB of memory`
}

const lagText = (seconds: number): string => `${numberText(Math.round(10 * seconds) / 10)} s`

type Fact = readonly [name: string, text: string, isIll?: boolean]

function factsOf(state: AgentState): Fact[] {
  const { counters, lagSeconds, outputs } = state
  const { alerts, selfTests } = counters
  const lost = (name: string, count: number): Fact => [name, numberText(count), count > 0]
  return [
    ['Captured packets', numberText(counters.captured)],
    lost('Dropped by the kernel', counters.droppedKernel),
    lost('Dropped by the agent', counters.droppedAgent),
    ['Packets outside the filter', numberText(counters.filtered)],
    lost('Capture interruptions', counters.interruptions),
    ['Verdicts', numberText(counters.verdicts.total)],
    ['Open flows', `${numberText(state.openFlows)} of ${numberText(state.maximumFlows)}`],
    ['Memory', memoryText(state), state.residentBytes > state.memoryLimitBytes],
    lagSeconds === null
      ? ['Delay', 'the input is not live']
      : ['Delay', lagText(lagSeconds), lagSeconds > LAG_SECONDS],
    [
      'Alerts',
      `${numberText(alerts.given)} sent, ${numberText(alerts.folded)} folded, ${numberText(alerts.suppressed)} suppressed, ${numberText(alerts.held)} held back (device not watched yet)`,
    ],
    ...outputs.map(({ name, works }): Fact => {
      const [waiting, dropped] = [alerts.waiting[name] ?? 0, alerts.dropped[name] ?? 0]
      const refused = alerts.setAside[name] ?? 0
      const refusedText = refused > 0 ? `, ${numberText(refused)} refused by the receiver` : ''
      const text = `${works ? 'works' : 'does not work'}, ${numberText(waiting)} waiting, ${numberText(dropped)} lost${refusedText}`
      return [`Output ${name}`, text, !works || dropped > 0 || refused > 0]
    }),
    ['Model', state.model ?? 'one for each device'],
    [
      'Self-test',
      `${numberText(selfTests.flagged)} synthetic attacks flagged, ${numberText(selfTests.missed)} missed`,
      selfTests.missed > 0,
    ],
    ...state.degraded.map((text): Fact => ['Degraded', text, true]),
    ...state.warnings.map((text): Fact => ['Warning', text, true]),
    ...updateFacts(counters.models?.learning ?? null),
    ['Version', state.version],
  ]
}

/** What models learned since they were trained, and whether that made a difference. */
function updateFacts(learning: OnlineReport | null): Fact[] {
  if (learning === null) return []
  const { rows, shadow } = learning
  const both = shadow.bothNormal + shadow.bothNovel
  return [
    [
      'Updates',
      `${numberText(rows.learnt)} rows learned, ${numberText(rows.heldBack)} quarantined, ${numberText(rows.disregarded)} discarded`,
    ],
    [
      'Updated and trained model',
      `same verdict on ${numberText(both)} flows; unusual only to the updated model ${numberText(shadow.onlyNow)}, only to the trained one ${numberText(shadow.onlyTrained)}`,
    ],
  ]
}

const HEIGHT = 176
const LEFT = 72
const MARGIN = 20
const MICROS = 120 * 60_000_000

/** Decisions of two hours, on an inverse hyperbolic sine, so that one far out does not press the others flat. */
function ScoreChart({ minutes }: { readonly minutes: readonly ScoreMinute[] }) {
  const [box, width] = useWidth()
  const scored = minutes.flatMap(({ atMicros, lowest, median }) =>
    lowest === null ? [] : { atMicros, lowest, median: median ?? 0 },
  )
  const values = scored.flatMap(({ lowest, median }) => [Math.asinh(lowest), Math.asinh(median)])
  const [low, high] = [Math.min(-0.5, ...values), Math.max(0.5, ...values)]
  const end = minutes.at(-1)?.atMicros ?? 0
  const begin = Math.max(minutes[0]?.atMicros ?? 0, end - MICROS)
  const x = (micros: number): number =>
    LEFT + ((width - LEFT - MARGIN) * (micros - begin)) / Math.max(60_000_000, end - begin)
  const y = (decision: number): number =>
    MARGIN + ((HEIGHT - 2 * MARGIN) * (high - Math.asinh(decision))) / (high - low)
  return (
    <figure>
      <div id="scores" ref={box}>
        <svg viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={describe(minutes)}>
          <line class="threshold" x1={LEFT} x2={width} y1={y(0)} y2={y(0)} />
          <text x={0} y={y(0) + 4}>
            threshold
          </text>
          <text x={LEFT} y={HEIGHT - 2}>
            {minutes.length === 0 ? '' : timeOf(begin)}
          </text>
          {end > begin && (
            <text x={width} y={HEIGHT - 2} text-anchor="end">
              {timeOf(end)}
            </text>
          )}
          <polyline
            class="median"
            points={scored.map(({ atMicros, median }) => `${x(atMicros)},${y(median)}`).join(' ')}
          />
          {scored.map(({ atMicros, lowest }) => (
            <circle
              key={atMicros}
              class={lowest <= 0 ? 'novel' : 'normal'}
              cx={x(atMicros)}
              cy={y(lowest)}
              r={lowest <= 0 ? 4 : 2.5}
            />
          ))}
        </svg>
      </div>
      <figcaption>
        How far the flows of each minute score above the threshold. Line: median; dots: lowest. A flow at or
        below the threshold is unusual.
      </figcaption>
    </figure>
  )
}

function describe(minutes: readonly ScoreMinute[]): string {
  const flows = minutes.reduce((sum, minute) => sum + minute.flows, 0)
  const novel = minutes.reduce((sum, minute) => sum + minute.novel, 0)
  return `${flows} flows were judged in the last ${minutes.length} minutes with traffic; ${novel} were unusual`
}
