/** A run of the speed comparison, a line for each figure, as JSON lines in one file (`peers-speed.jsonl`). */
import { existsSync, readFileSync } from 'node:fs'
import { z } from 'zod'
import { inFile } from '../../errors.js'
import { checked } from '../../machines/runner-line.js'
import { writeFileWhole } from '../../output/write-file.js'

const text = z
  .string()
  .max(300)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u)
const amount = z.number().min(0)
const count = z.number().int().min(1)

const shape = z.strictObject({
  format: z.literal(1),
  what: text,
  side: text,
  precision: z.enum(['f64', 'f32']),
  batch: count.nullable(),
  nanos: amount,
  dataset: text,
  trainRows: count,
  dimension: count,
  m: count,
  d: count,
  k: count,
  supportVectors: count,
  rounds: count,
  /** What was not installed. */
  absent: z.array(text).max(10),
  node: text,
  python: text.nullable(),
  compiler: text.nullable(),
  cpu: text,
  loadBefore: amount,
  loadAfter: amount,
})

export type SpeedReading = z.infer<typeof shape>

/** None when there is no file. Throws an error that begins with the path. */
export function readSpeedReadings(path: string): SpeedReading[] {
  if (!existsSync(path)) return []
  return inFile(path, () =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => checked(shape, line, 'peers-speed')),
  )
}

/** One run in the place of the one before: sides that took no turns cannot be compared. */
export function writeSpeedReadings(path: string, readings: readonly SpeedReading[]): void {
  writeFileWhole(path, readings.map((reading) => `${JSON.stringify(shape.parse(reading))}\n`).join(''))
}
