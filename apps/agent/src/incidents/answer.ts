/** Answer: what a person said of an incident. Plain data, as the state folder keeps it and as commands show it. */
import * as v from 'valibot'
import { defineState } from '../files/state-file.js'
import { INCIDENT_KINDS } from '../page/kinds.js'
import { time } from './incident.js'
import { encodeRows, KeptRowsEntries } from './incident-rows.js'

export const ANSWER_NAMES = ['snooze', 'not-this-kind', 'attack', 'normal'] as const
export type AnswerName = (typeof ANSWER_NAMES)[number]
/** Alerts with these go to the EVE file and to no other output. */
export type MutingAnswer = Exclude<AnswerName, 'attack'>

export const MAXIMUM_ANSWERS = 64
/** Of a snooze. */
export const MAXIMUM_HOURS = 30 * 24
/** Each takes the memory of a model. */
export const MAXIMUM_NORMAL = 16

const text = v.pipe(v.string(), v.maxLength(1000))
const hex = (digits: number) => v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${digits}}$`)))

const AnswerSchema = v.object({
  incident: hex(32),
  answer: v.picklist(ANSWER_NAMES),
  /** Key of the incident's device. */
  device: text,
  kind: v.picklist(INCIDENT_KINDS),
  /** Of the incident, which may be forgotten by now. */
  summary: text,
  beginMicros: time,
  /** Of the agent's clock. */
  atMicros: time,
  /** Of a snooze; else null. */
  endsMicros: v.nullable(time),
  ...KeptRowsEntries,
  /** Of `normal`: what judges the flows of a device with these contacts, made from the model `base`. */
  models: v.pipe(v.array(v.object({ device: text, base: hex(16), sha256: hex(64) })), v.maxLength(32)),
  /** What it changed, in sentences. */
  changes: v.pipe(v.array(text), v.maxLength(64)),
})

export type Answer = v.InferOutput<typeof AnswerSchema>

export const ANSWERS = defineState(
  'answers',
  1,
  v.pipe(
    v.object({ answers: v.pipe(v.array(AnswerSchema), v.maxLength(MAXIMUM_ANSWERS)) }),
    v.transform(({ answers }) => answers),
  ),
)

/** The fields of `ANSWERS`. */
export function answersFields(answers: readonly Answer[]): object {
  return { answers: answers.map((answer) => ({ ...answer, ...encodeRows(answer) })) }
}

/** Whether it mutes all incidents of its device and kind. */
export function isMutingKind({ answer }: Pick<Answer, 'answer'>): boolean {
  return answer === 'snooze' || answer === 'not-this-kind'
}

/** Whether it holds at this time of the agent's clock. */
export function isStanding({ endsMicros }: Answer, nowMicros: number): boolean {
  return endsMicros === null || endsMicros > nowMicros
}
