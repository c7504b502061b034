/** What a model would notice, in words and as JSON: the smallest synthetic attack of each kind that it flags. */
import type { ModelFact, SavedModel } from '@oddflow/detectors'
import {
  type DetectionLimit,
  type DetectionLimits,
  findDetectionLimits,
  LIMIT_TRIES,
  limitSizeText,
  limitText,
  REQUIRED_TRIES,
} from '@oddflow/program'

const HEADING = `the smallest synthetic attack that is flagged in ${REQUIRED_TRIES} of ${LIMIT_TRIES} tries`

/** A heading and a line for each kind of attack; nothing for a model of bare rows. */
export function limitFacts({ limits }: DetectionLimits): ModelFact[] {
  if (limits.length === 0) return []
  return [
    { label: 'detection limits', value: HEADING },
    ...limits.map((limit) => ({ label: limit.attack.title, value: limitText(limit) })),
  ]
}

/** The same for a terminal, in columns. */
export function describeLimits(limits: DetectionLimits): string[] {
  return inColumns(limitFacts(limits))
}

/** The limits of a model before and after an update, in JSON and for people. */
export interface LimitsOfUpdate {
  readonly json: Record<'detectionLimitsBefore' | 'detectionLimits', ReturnType<typeof limitsJson>>
  readonly lines: readonly string[]
  readonly warnings: readonly string[]
}

export function limitsOfUpdate(before: SavedModel, after: SavedModel): LimitsOfUpdate {
  const [from, to] = [findDetectionLimits(before), findDetectionLimits(after)]
  return {
    json: { detectionLimitsBefore: limitsJson(from), detectionLimits: limitsJson(to) },
    lines: describeLimitChange(from, to),
    warnings: [...limitChangeWarnings(from, to), ...limitWarnings(to)],
  }
}

/** Limits of a model before and after an update; nothing for models of bare rows. */
export function describeLimitChange(before: DetectionLimits, after: DetectionLimits): string[] {
  if (after.limits.length === 0) return []
  return inColumns([
    { label: 'detection limits', value: `${HEADING}, before → after` },
    ...after.limits.map((limit, i) => {
      const [from, to] = [limitText(before.limits[i]), limitText(limit)]
      return { label: limit.attack.title, value: from === to ? `${to}, as before` : `${from} → ${to}` }
    }),
  ])
}

/** Kinds of attacks that an update made invisible, and those whose limit more than doubled. */
export function limitChangeWarnings(before: DetectionLimits, after: DetectionLimits): string[] {
  return after.limits.flatMap(({ attack, smallest, isConnectionNovel }, i) => {
    const was = before.limits[i]
    if (was.smallest === null || was.isConnectionNovel || isConnectionNovel) return []
    const from = `before the update found from ${limitSizeText(attack, was.smallest)}`
    if (smallest === null) {
      return [`no longer found: ${attack.title}, not even ${limitSizeText(attack, attack.highest)} (${from})`]
    }
    return smallest > 2 * was.smallest
      ? [`found later: ${attack.title}, from ${limitSizeText(attack, smallest)} (${from})`]
      : []
  })
}

function inColumns([heading, ...facts]: readonly ModelFact[]): string[] {
  if (heading === undefined) return []
  const width = Math.max(...facts.map(({ label }) => label.length))
  return [
    `  ${heading.label}: ${heading.value}`,
    ...facts.map(({ label, value }) => `    ${label.padEnd(width)}  ${value}`),
  ]
}

/** A kind that stays invisible, and a model that flags everything or nothing. */
export function limitWarnings({ limits, remembered, flagsFarRows }: DetectionLimits): string[] {
  const warnings: string[] = []
  const invisible = limits.filter(({ smallest }) => smallest === null)
  if ((limits.length > 0 && invisible.length === limits.length) || flagsFarRows === false) {
    const what = limits.length > 0 ? 'no synthetic attack of any kind' : 'not even rows far from all others'
    warnings.push(
      `this model flags nothing: ${what}; train on more traffic, raise --fpr, or choose another detector`,
    )
  } else if (invisible.length > 0) {
    const kinds = invisible.map(({ attack }) => `${attack.title} (${limitSizeText(attack, attack.highest)})`)
    warnings.push(`this model does not see: ${kinds.join('; ')}`)
  }
  if (remembered !== null && remembered.flagged > remembered.rows / 2) {
    warnings.push(
      `this model flags nearly everything: ${remembered.flagged} of the ${remembered.rows} rows that it remembers as normal; train on more traffic, or lower --fpr`,
    )
  }
  return warnings
}

/** Of each kind by name; null for a model of bare rows. */
export function limitsJson({ limits }: DetectionLimits): Record<string, unknown> | null {
  if (limits.length === 0) return null
  return Object.fromEntries(
    limits.map(({ attack: { name, unit, lowest, highest }, smallest, isConnectionNovel }: DetectionLimit) => [
      name,
      { smallest: isConnectionNovel ? null : smallest, isConnectionNovel, unit, lowest, highest },
    ]),
  )
}
