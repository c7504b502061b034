/** How the agent is: what it captured and lost, its memory, how far it is behind, and what waits for outputs. */
import type { AgentState } from './api.js'
import { byId, element, numberText, setText } from './dom.js'

const MEBIBYTE = 1_048_576
/** Beyond which the agent is said to be behind. */
const LAG_SECONDS = 5

interface Fact {
  readonly name: string
  readonly text: string
  readonly isIll: boolean
}

export function showHealth(state: AgentState): void {
  setText(byId('health-line'), healthLine(state))
  const list = byId('health')
  const facts = factsOf(state)
  if (list.childElementCount !== 2 * facts.length) {
    list.replaceChildren(...facts.flatMap(() => [element('dt'), element('dd')]))
  }
  for (const [i, { name, text, isIll }] of facts.entries()) {
    setText(list.children[2 * i], name)
    setText(list.children[2 * i + 1], text)
    list.children[2 * i + 1].classList.toggle('ill', isIll)
  }
}

/** In a few words, for the head of the page. */
export function standingOf(state: AgentState): { text: string; isIll: boolean } {
  const silent = state.outputs.filter(({ works }) => !works).map(({ name }) => name)
  const [reason] = state.degraded
  if (reason !== undefined) return { text: `Degraded: ${reason}`, isIll: true }
  if (state.overloaded) return { text: 'Overloaded: the agent drops packets', isIll: true }
  if (!state.spoolWorks) return { text: 'Alerts cannot be saved: see the agent’s log', isIll: true }
  if (silent.length > 0) return { text: `Alerts cannot be delivered to ${silent.join(', ')}`, isIll: true }
  return { text: 'Watching', isIll: false }
}

/** In one line: what it captured and lost, its memory, its delay, and its outputs. */
function healthLine(state: AgentState): string {
  const { counters, outputs, lagSeconds } = state
  const { captured, droppedKernel, droppedAgent } = counters
  const dropped = droppedKernel + droppedAgent
  const share = captured === 0 ? 0 : (100 * dropped) / captured
  const silent = outputs.filter(({ works }) => !works).map(({ name }) => name)
  return [
    `${numberText(captured)} packets, ${dropped === 0 ? 'none dropped' : `${numberText(dropped)} dropped (${share < 0.01 ? 'under 0.01' : share.toFixed(2)} %)`}`,
    memoryText(state),
    ...(lagSeconds === null ? [] : [`${numberText(Math.round(10 * lagSeconds) / 10)} s behind`]),
    silent.length === 0 ? 'all outputs work' : `no delivery to ${silent.join(', ')}`,
  ].join('; ')
}

function memoryText({ residentBytes, memoryLimitBytes }: AgentState): string {
  return `${Math.round(residentBytes / MEBIBYTE)} of ${Math.round(memoryLimitBytes / MEBIBYTE)} MiB of memory`
}

/** What models learned since they were trained, and whether that made a difference. */
function learningFacts(learning: NonNullable<AgentState['counters']['models']>['learning']): Fact[] {
  if (learning === null) return []
  const { rows, shadow } = learning
  const both = shadow.bothNormal + shadow.bothNovel
  return [
    {
      name: 'Updates',
      text: `${numberText(rows.learnt)} rows learned, ${numberText(rows.heldBack)} quarantined, ${numberText(rows.disregarded)} discarded`,
      isIll: false,
    },
    {
      name: 'Updated and trained model',
      text: `same verdict on ${numberText(both)} flows; unusual only to the updated model ${numberText(shadow.onlyNow)}, only to the trained one ${numberText(shadow.onlyTrained)}`,
      isIll: false,
    },
  ]
}

function factsOf(state: AgentState): Fact[] {
  const { counters, lagSeconds, outputs } = state
  const { alerts } = counters
  const fact = (name: string, text: string, isIll = false): Fact => ({ name, text, isIll })
  const lost = (name: string, count: number): Fact => fact(name, numberText(count), count > 0)
  return [
    fact('Captured packets', numberText(counters.captured)),
    lost('Dropped by the kernel', counters.droppedKernel),
    lost('Dropped by the agent', counters.droppedAgent),
    fact('Filtered', numberText(counters.filtered)),
    lost('Interruptions', counters.interruptions),
    fact('Verdicts', numberText(counters.verdicts.total)),
    fact('Open flows', `${numberText(state.openFlows)} of ${numberText(state.maximumFlows)}`),
    fact('Memory', memoryText(state), state.residentBytes > state.memoryLimitBytes),
    fact(
      'Behind',
      lagSeconds === null ? 'the input is not live' : `${numberText(Math.round(10 * lagSeconds) / 10)} s`,
      (lagSeconds ?? 0) > LAG_SECONDS,
    ),
    fact(
      'Alerts',
      `${numberText(alerts.given)} given, ${numberText(alerts.folded)} folded, ${numberText(alerts.suppressed)} suppressed, ${numberText(alerts.held)} held`,
    ),
    ...outputs.map(({ name, works }) => {
      const [waiting, dropped] = [alerts.waiting[name] ?? 0, alerts.dropped[name] ?? 0]
      const refused = alerts.setAside[name] ?? 0
      const refusedText = refused > 0 ? `, ${numberText(refused)} refused by the receiver` : ''
      const text = `${works ? 'works' : 'does not work'}, ${numberText(waiting)} waiting, ${numberText(dropped)} lost${refusedText}`
      return fact(`Output ${name}`, text, !works || dropped > 0 || refused > 0)
    }),
    fact('Model', state.model ?? 'one for each device'),
    fact(
      'Self-test',
      `${numberText(counters.selfTests.flagged)} made attacks flagged, ${numberText(counters.selfTests.missed)} missed`,
      counters.selfTests.missed > 0,
    ),
    ...state.degraded.map((text) => fact('Degraded', text, true)),
    ...state.warnings.map((text) => fact('Warning', text, true)),
    ...learningFacts(counters.models?.learning ?? null),
    fact('Version', state.version),
  ]
}
