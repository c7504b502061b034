/**
 * A page to try OddFlow on, without a server. The worker's code is part of this script and starts from a Blob, because
 * such a worker obeys the page's policy, which forbids every connection; a worker from another file would not.
 */
import { render } from 'preact'
import { useEffect, useReducer, useState } from 'preact/hooks'
import type {
  Answer,
  Fact,
  FlowMap,
  FlowRow,
  Histogram,
  Judged,
  ModelFacts,
  Reading,
  Request,
} from './worker.js'

/** The bundler puts it in (tools/workspace/page.mjs). */
declare const WORKER_CODE: string

interface State {
  /** What the worker does; null if nothing. */
  readonly busy: Request['kind'] | null
  readonly progress: { readonly text: string; readonly share: number | null } | null
  readonly error: { readonly text: string; readonly of: Request['kind'] } | null
  readonly normal: Reading | null
  readonly model: (ModelFacts & { readonly url: string }) | null
  readonly limits: { readonly limits: readonly Fact[]; readonly warnings: readonly string[] } | null
  readonly judged: Judged | null
}

const NOTHING: State = {
  busy: null,
  progress: null,
  error: null,
  normal: null,
  model: null,
  limits: null,
  judged: null,
}

type PageEvent = Answer | { readonly kind: 'start' | 'refused'; readonly of: Request['kind'] }

function next(state: State, event: PageEvent): State {
  switch (event.kind) {
    case 'refused':
      return {
        ...state,
        error: {
          text: 'The page was still at work. Choose or drop the file again when it is done.',
          of: event.of,
        },
      }
    case 'start': {
      const begun = { ...state, busy: event.of, progress: null, error: null }
      if (event.of === 'read') return { ...begun, normal: null }
      if (event.of === 'judge') return { ...begun, judged: null }
      return { ...begun, model: null, limits: null, judged: null }
    }
    case 'progress':
      return { ...state, progress: event }
    case 'read':
      return { ...state, normal: event.normal }
    case 'model':
      return { ...state, model: { ...event.model, url: URL.createObjectURL(event.model.file) } }
    case 'limits':
      return { ...state, limits: event }
    case 'judged':
      return { ...state, judged: event.judged }
    case 'error':
      return { ...state, error: { text: event.text, of: state.busy! } }
    case 'done':
      return { ...state, busy: null, progress: null }
  }
}

const worker = new Worker(URL.createObjectURL(new Blob([WORKER_CODE], { type: 'text/javascript' })))

function Page() {
  const [state, dispatch] = useReducer(next, NOTHING)
  useEffect(() => {
    worker.onmessage = ({ data }: MessageEvent<Answer>) => dispatch(data)
    worker.onerror = ({ message }) => {
      dispatch({ kind: 'error', text: `the work ended early: ${message}; reload the page` })
      dispatch({ kind: 'done' })
    }
  }, [])
  const ask = (request: Request): void => {
    if (state.busy !== null) {
      dispatch({ kind: 'refused', of: request.kind })
      return
    }
    dispatch({ kind: 'start', of: request.kind })
    worker.postMessage(request)
  }
  const { busy, normal, model, judged } = state
  return (
    <>
      <section aria-labelledby="normal-title">
        <h2 id="normal-title">1. Normal traffic</h2>
        <FileChoice
          label="Captures of normal traffic"
          hint="pcap or pcapng, gzip too; one or several, up to 300,000 flows"
          isMultiple
          isDisabled={busy !== null}
          onFiles={(files) => ask({ kind: 'read', files })}
        />
        <Standing state={state} of={['read']} />
        {normal !== null && (
          <>
            <ReadingFacts reading={normal} />
            <FlowTable rows={normal.rows} caption={captionOf(normal.rows, normal.flows, 'flow')} />
            <p>
              <button type="button" disabled={busy !== null} onClick={() => ask({ kind: 'train' })}>
                Train a model on these flows
              </button>
            </p>
          </>
        )}
      </section>
      <section aria-labelledby="model-title">
        <h2 id="model-title">2. Model</h2>
        <FileChoice
          label="Load a model that you saved before"
          hint="or train one above"
          isMultiple={false}
          isDisabled={busy !== null}
          onFiles={([file]) => ask({ kind: 'load', file: file! })}
        />
        <Standing state={state} of={['train', 'load']} />
        {model !== null && <ModelPart model={model} limits={state.limits} />}
      </section>
      <section aria-labelledby="judge-title">
        <h2 id="judge-title">3. Another capture</h2>
        {model === null ? (
          <p class="soft">Train or load a model first.</p>
        ) : (
          <FileChoice
            label="Captures to judge"
            hint="The model says which of their flows are new"
            isMultiple
            isDisabled={busy !== null}
            onFiles={(files) => ask({ kind: 'judge', files })}
          />
        )}
        <Standing state={state} of={['judge']} />
        {judged !== null && <JudgedPart judged={judged} />}
      </section>
    </>
  )
}

// ---- parts

interface FileChoiceProps {
  readonly label: string
  readonly hint: string
  readonly isMultiple: boolean
  readonly isDisabled: boolean
  readonly onFiles: (files: readonly File[]) => void
}

function FileChoice({ label, hint, isMultiple, isDisabled, onFiles }: FileChoiceProps) {
  const [isOver, setOver] = useState(false)
  const give = (list: FileList | null | undefined): void => {
    const files = [...(list ?? [])]
    if (files.length > 0) onFiles(isMultiple ? files : files.slice(0, 1))
  }
  return (
    <label
      class={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(!isDisabled)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        give(event.dataTransfer?.files)
      }}
    >
      <strong>{label}</strong>
      <span class="soft">{hint}. Choose or drop.</span>
      <input
        type="file"
        multiple={isMultiple}
        disabled={isDisabled}
        onChange={({ currentTarget }) => {
          give(currentTarget.files)
          // the same file again is a choice too
          currentTarget.value = ''
        }}
      />
    </label>
  )
}

/** How far the work is, or why it failed, in the section that it belongs to. */
function Standing({ state, of }: { readonly state: State; readonly of: readonly Request['kind'][] }) {
  const { busy, progress, error } = state
  const isHere = busy !== null && of.includes(busy)
  return (
    <>
      <div role="status">
        {isHere && (
          <>
            <progress aria-label="Progress" {...(progress?.share == null ? {} : { value: progress.share })} />
            <p class="soft">{progress?.text ?? 'One moment'}</p>
          </>
        )}
      </div>
      <p role="alert" class="notice">
        {error !== null && of.includes(error.of) ? error.text : ''}
      </p>
    </>
  )
}

function ReadingFacts({ reading }: { readonly reading: Reading }) {
  const { names, flows, packets, dropped, warnings, times } = reading
  const lost = dropped.map(({ label, value }) => `${value} ${label}`).join(', ')
  return (
    <>
      <p>
        {names.join(', ')}: {countText(flows, 'flow')} from {countText(packets, 'packet')}
        {lost === '' ? '' : `; packets in no flow: ${lost}`}.
      </p>
      {warnings.map((text) => (
        <p key={text} class="notice">
          {text}
        </p>
      ))}
      {flows > 1 && <Bars times={times} />}
    </>
  )
}

function ModelPart({
  model,
  limits,
}: {
  readonly model: NonNullable<State['model']>
  readonly limits: State['limits']
}) {
  return (
    <>
      <Facts facts={model.facts} />
      {model.notes.map((note) => (
        <p key={note}>{note}.</p>
      ))}
      <p>
        <a class="button" href={model.url} download="normal.oddflow">
          Download the model
        </a>
      </p>
      <p class="soft">
        A model holds some of the flows that it was trained on, as numbers: bytes, packets, times and
        services, without addresses. Share it only with people who may know these.
      </p>
      {limits !== null && limits.limits.length > 0 && (
        <>
          <h3>What this model would notice</h3>
          <p class="soft">The smallest synthetic attack of each kind that it flags in 9 of 10 tries.</p>
          <Facts facts={limits.limits} />
        </>
      )}
      {limits?.warnings.map((text) => (
        <p key={text} class="notice">
          {text}
        </p>
      ))}
    </>
  )
}

function JudgedPart({ judged }: { readonly judged: Judged }) {
  const { novel, flows, rows, map } = judged
  return (
    <>
      <p class="verdict">
        {novel === 0 ? 'No flow is new.' : `${countText(novel, 'flow')} of ${numberText(flows)} are new.`}
      </p>
      <ReadingFacts reading={judged} />
      {novel > 0 && (
        <FlowTable
          rows={rows}
          caption={`${captionOf(rows, novel, 'new flow')}, the most unusual first`}
          hasReasons
        />
      )}
      {map === null ? (
        <p class="soft">This model keeps no flows, so there is no map.</p>
      ) : (
        <FlowMapPicture map={map} />
      )}
    </>
  )
}

function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl>
      {facts.map(({ label, value }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

interface FlowTableProps {
  readonly rows: readonly FlowRow[]
  readonly caption: string
  readonly hasReasons?: boolean
}

function FlowTable({ rows, caption, hasReasons = false }: FlowTableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section class="scroll" tabIndex={0} aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col" class="number">
              Packets
            </th>
            <th scope="col" class="number">
              Bytes
            </th>
            <th scope="col" class="number">
              Seconds
            </th>
            {hasReasons && <th scope="col">Why</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={`${i} ${row.initiator}`}>
              <td>{new Date(row.startMicros / 1000).toLocaleTimeString()}</td>
              <td>{row.initiator}</td>
              <td>
                {row.protocol} {row.responder}
              </td>
              <td class="number">{numberText(row.packets)}</td>
              <td class="number">{numberText(row.bytes)}</td>
              <td class="number">{(row.durationMicros / 1e6).toFixed(2)}</td>
              {hasReasons && <td class="why">{row.reasons.join('; ')}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

const numberText = (value: number): string => value.toLocaleString()
const countText = (count: number, one: string): string =>
  `${numberText(count)} ${one}${count === 1 ? '' : 's'}`
const captionOf = (rows: readonly unknown[], all: number, what: string): string =>
  rows.length < all ? `${numberText(rows.length)} of ${countText(all, what)}` : countText(all, what)

// a file that misses a box must not replace the page
for (const kind of ['dragover', 'drop']) window.addEventListener(kind, (event) => event.preventDefault())
render(<Page />, document.querySelector('main')!)

/** The page's pictures: when flows began, and the map of flows. */

const WIDTH = 640
const HEIGHT = 120
const MAP_HEIGHT = 360
const MARGIN = 10

/** Flows that began in each part of the time; novel ones at the bottom of each bar. */
export function Bars({ times }: { readonly times: Histogram }) {
  const { beginMicros, endMicros, counts, novel } = times
  const most = Math.max(...counts)
  const width = WIDTH / counts.length
  const bar = (count: number, i: number, kind: string) => {
    const height = count === 0 ? 0 : Math.max(2, (HEIGHT * count) / most)
    return <rect class={kind} x={i * width + 0.5} y={HEIGHT - height} width={width - 1} height={height} />
  }
  const all = counts.reduce((sum, count) => sum + count, 0)
  const found = novel.reduce((sum, count) => sum + count, 0)
  const said = `${all} flows over time, at most ${most} in a part${found > 0 ? `; ${found} are new` : ''}`
  return (
    <figure>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={said}
        preserveAspectRatio="none"
        class="bars"
      >
        {counts.map((count, i) => bar(count, i, 'normal'))}
        {novel.map((count, i) => bar(count, i, 'novel'))}
      </svg>
      <figcaption>
        Flows that began between {timeText(beginMicros)} and {timeText(endMicros)}
        {found > 0 ? ', new ones in red at the bottom' : ''}.
      </figcaption>
    </figure>
  )
}

const timeText = (micros: number): string => new Date(micros / 1000).toLocaleString()

/** An inverse hyperbolic sine keeps flows far out in the picture. */
export function FlowMapPicture({ map }: { readonly map: FlowMap }) {
  const kinds = [map.remembered, map.normal, map.novel].map((points) => points.map(Math.asinh))
  const range = (axis: number): readonly [number, number] => {
    let low = -1
    let high = 1
    for (const points of kinds) {
      for (let i = axis; i < points.length; i += 2) {
        low = Math.min(low, points[i]!)
        high = Math.max(high, points[i]!)
      }
    }
    return [low, high]
  }
  const [left, right] = range(0)
  const [bottom, top] = range(1)
  const x = (value: number): number => MARGIN + ((WIDTH - 2 * MARGIN) * (value - left)) / (right - left)
  const y = (value: number): number => MARGIN + ((MAP_HEIGHT - 2 * MARGIN) * (top - value)) / (top - bottom)
  // one path for all points of a kind: thousands of elements would make the page slow
  const dots = (points: Float32Array): string => {
    const parts: string[] = []
    for (let i = 0; i < points.length; i += 2)
      parts.push(`M${x(points[i]!).toFixed(1)} ${y(points[i + 1]!).toFixed(1)}h0`)
    return parts.join('')
  }
  const crosses = (points: Float32Array): string => {
    const parts: string[] = []
    for (let i = 0; i < points.length; i += 2) {
      const [a, b] = [x(points[i]!), y(points[i + 1]!)]
      parts.push(`M${(a - 4).toFixed(1)} ${(b - 4).toFixed(1)}l8 8m0-8l-8 8`)
    }
    return parts.join('')
  }
  const [remembered, normal, novel] = kinds as [Float32Array, Float32Array, Float32Array]
  const count = (points: Float32Array): number => points.length / 2
  return (
    <figure>
      <svg
        viewBox={`0 0 ${WIDTH} ${MAP_HEIGHT}`}
        role="img"
        aria-label={`Map of ${count(remembered)} remembered, ${count(normal)} normal and ${count(novel)} new flows`}
        class="map"
      >
        <path class="remembered" d={dots(remembered)} />
        <path class="normal" d={dots(normal)} />
        <path class="novel" d={crosses(novel)} />
      </svg>
      <figcaption>
        The map shows flows by the two directions in which normal ones differ most. Grey squares: flows that
        the model remembers. Blue dots: normal flows of this capture. Red crosses: new ones; they may lie
        among the others where they differ in another way. At most 2,000 of a kind are drawn.
      </figcaption>
    </figure>
  )
}
