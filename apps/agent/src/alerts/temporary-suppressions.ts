/**
 * Temporary suppressions: rules that a person has made at the running agent, each with its end and a name given here. They are
 * kept in the state folder, tried after those of the configuration, and bounded in number and in length.
 */
import { join } from 'node:path'
import { ArgumentError, FormatError } from '@oddflow/core'
import type { FileSystem } from '../files/file-system.js'
import { createTurns, readStateOrSetAside, writeState } from '../files/state-file.js'
import type { Log } from '../log.js'
import type { Alert, AlertRule } from './alert.js'
import { createSuppression, type Suppression, type SuppressionRule } from './suppress.js'

export interface TemporaryRule extends SuppressionRule {
  readonly endsMicros: number
}

export type TemporarySuppressions = ReturnType<typeof createTemporarySuppressions>

const MAXIMUM_RULES = 64
const MAXIMUM_MINUTES = 30 * 1440
const TEXTS = ['device', 'peer', 'protocol', 'rule'] as const

interface Kept {
  readonly rule: TemporaryRule
  readonly suppression: Suppression
}

/** @param write - keeps the rules; null where nothing is kept. */
export function createTemporarySuppressions(
  known: readonly TemporaryRule[],
  write: ((rules: readonly TemporaryRule[]) => Promise<void>) | null,
) {
  let kept: readonly Kept[] = known.slice(0, MAXIMUM_RULES).map(keep)
  /** Added to the wall clock it is what the clock would show had it never been set; rules in memory end by that. */
  let steadyMicros = 0
  let number = known.length
  const inTurn = createTurns()
  const ofNow = (rule: TemporaryRule): TemporaryRule => ({
    ...rule,
    endsMicros: rule.endsMicros - steadyMicros,
  })
  const rulesOf = (of: readonly Kept[]): TemporaryRule[] => of.map(({ rule }) => ofNow(rule))
  /** Saved first, then active. */
  const put = async (next: readonly Kept[]): Promise<void> => {
    try {
      await write?.(rulesOf(next))
    } catch (error) {
      // the rename may have happened; a restart must find the active state
      await write?.(rulesOf(kept)).catch(() => undefined)
      throw error
    }
    kept = next
  }
  /** @param atMicros - had the clock never been set */
  const forgetEnded = (atMicros: number): void => {
    if (kept.some(({ rule }) => rule.endsMicros <= atMicros)) {
      kept = kept.filter(({ rule }) => rule.endsMicros > atMicros)
    }
  }
  return {
    take(alert: Alert, nowMicros: number): string | null {
      if (kept.length === 0) return null
      forgetEnded(nowMicros + steadyMicros)
      for (const { suppression } of kept) {
        const name = suppression.take(alert)
        if (name !== null) return name
      }
      return null
    },
    /** Resolves when the rule is saved and active. Rejects with ArgumentError for an invalid rule, and as `write` does; then nothing changes. */
    add(asked: unknown, nowMicros: number): Promise<TemporaryRule> {
      // its turn may come after a step of the clock
      const atMicros = nowMicros + steadyMicros
      return inTurn(async () => {
        forgetEnded(atMicros)
        if (kept.length >= MAXIMUM_RULES) {
          throw new ArgumentError(`expected at most ${MAXIMUM_RULES} temporary rules; end one first`)
        }
        while (kept.some(({ rule }) => rule.name === `temporary ${number}`)) number++
        const one = keep(checkRule(asked, `temporary ${number}`, atMicros))
        await put([...kept, one])
        return ofNow(one.rule)
      })
    },
    /** False where there is none of that name. Rejects as `write` does: then the rule stays. */
    remove: (name: string): Promise<boolean> =>
      inTurn(async () => {
        const left = kept.filter(({ rule }) => rule.name !== name)
        if (left.length === kept.length) return false
        await put(left)
        return true
      }),
    /** The wall clock was set: rules last as long as they would have, after a restart too. */
    clockSet(byMicros: number): void {
      steadyMicros -= byMicros
      if (kept.length > 0) void inTurn(async () => write?.(rulesOf(kept))).catch(() => undefined)
    },
    list(nowMicros: number): readonly (TemporaryRule & { readonly suppressed: number })[] {
      forgetEnded(nowMicros + steadyMicros)
      return kept.map(({ rule, suppression }) => ({
        ...ofNow(rule),
        suppressed: suppression.counts[rule.name],
      }))
    },
  }
}

function keep(rule: TemporaryRule): Kept {
  const { endsMicros: _, ...conditions } = rule
  return { rule, suppression: createSuppression([conditions]) }
}

/** What came from outside as a rule; throws ArgumentError that names the field. */
function checkRule(asked: unknown, name: string, nowMicros: number): TemporaryRule {
  const { minutes, port, ...rest } = (asked ?? {}) as Record<string, unknown>
  if (!isWholeWithin(minutes, 1, MAXIMUM_MINUTES)) {
    throw new ArgumentError(`expected minutes from 1 to ${MAXIMUM_MINUTES}`, 'minutes')
  }
  if (port !== undefined && !isWholeWithin(port, 0, 65_535)) {
    throw new ArgumentError('expected a port', 'port')
  }
  const texts: Partial<Record<(typeof TEXTS)[number], string>> = {}
  for (const [key, value] of Object.entries(rest)) {
    const field = TEXTS.find((text) => text === key)
    if (field === undefined) throw new ArgumentError(`no such condition`, key.slice(0, 40))
    if (typeof value !== 'string' || value.length > 64)
      throw new ArgumentError('expected a short text', field)
    texts[field] = value
  }
  const { rule, ...others } = texts
  return {
    name,
    ...others,
    ...(rule === undefined ? {} : { rule: rule as AlertRule }),
    ...(port === undefined ? {} : { port }),
    endsMicros: nowMicros + minutes * 60_000_000,
  }
}

function isWholeWithin(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most
}

/** Rules of an earlier run; invalid ones are dropped and reported. */
export async function readTemporaryRules(
  files: FileSystem,
  folder: string,
  log: Pick<Log, 'warn'>,
): Promise<TemporaryRule[]> {
  const rules = (await readStateOrSetAside(files, pathIn(folder), decodeRules, log)) ?? []
  const sound = rules.filter((rule) => {
    try {
      keep(rule)
      return typeof rule.name === 'string' && Number.isFinite(rule.endsMicros)
    } catch {
      return false
    }
  })
  const others = rules.length - sound.length
  if (others > 0) log.warn(`${pathIn(folder)}: ${others} of ${rules.length} are not rules and are left out`)
  return sound
}

function decodeRules(value: unknown): TemporaryRule[] {
  const rules = (value as { rules?: unknown } | null)?.rules
  if (Array.isArray(rules)) return rules as TemporaryRule[]
  throw new FormatError('suppressions', 'expected a list of rules')
}

export async function writeTemporaryRules(
  files: FileSystem,
  folder: string,
  rules: readonly TemporaryRule[],
): Promise<void> {
  await files.makeFolder(folder)
  await writeState(files, pathIn(folder), { rules })
}

function pathIn(folder: string): string {
  return join(folder, 'suppressions.json')
}
