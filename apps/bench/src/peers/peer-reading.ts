/** What peers made of the same rows, a line each, as JSON lines in one file (`peers.jsonl`). */
import { existsSync, readFileSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { z } from 'zod'
import { inFile } from '../errors.js'
import { checked } from '../machines/runner-line.js'
import { writeFileWhole } from '../output/write-file.js'

export const PEERS = ['scikit-learn', 'libsvm'] as const
export type Peer = (typeof PEERS)[number]

const text = z
  .string()
  .max(200)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u)
const amount = z.number().min(0)
const side = z.strictObject({
  auc: z.number().min(0).max(1),
  supportVectors: z.number().int().min(1),
  /** Fit alone, or where the peer is a program of files, the whole program. */
  trainMillis: amount,
  /** Medians over the passes; null where the peer does not score by itself. */
  testMillis: amount.nullable(),
})

const shape = z.strictObject({
  format: z.literal(2),
  dataset: z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/),
  dataSha256: z.string().regex(/^[0-9a-f]{64}$/),
  tuning: z.enum(['none', 'minimal']),
  repeat: z.number().int().min(0),
  seed: z.number().int().min(0),
  trainRows: z.number().int().min(1),
  testRows: z.number().int().min(1),
  peer: z.enum(PEERS),
  version: text,
  /** Of the pair distances, and what came of it; null where the bandwidth itself was given. */
  bandwidthQuantile: z.number().min(0).max(1).nullable(),
  bandwidth: amount,
  nu: z.number().min(0).max(1),
  theirs: side,
  ours: side,
  node: text,
  cpu: text,
  loadAverage: amount.nullable(),
})

export type PeerReading = z.infer<typeof shape>

export const peerKey = ({
  dataset,
  tuning,
  repeat,
  seed,
  peer,
}: Pick<PeerReading, 'dataset' | 'tuning' | 'repeat' | 'seed' | 'peer'>): string =>
  [dataset, tuning, repeat, seed, peer].join(' ')

/** None when there is no file. Throws an error that begins with the path and names the line. */
export function readPeerReadings(path: string): PeerReading[] {
  if (!existsSync(path)) return []
  return inFile(path, () =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line, i) => {
        try {
          return checked(shape, line, 'peer')
        } catch (error) {
          if (error instanceof FormatError) throw new FormatError('peers', `line ${i + 1}: ${error.message}`)
          throw error
        }
      }),
  )
}

/** Newer ones in the place of older ones; in the order of their keys. */
export function writePeerReadings(path: string, readings: readonly PeerReading[]): void {
  const byKey = new Map(readings.map((reading) => [peerKey(reading), reading]))
  const sorted = [...byKey.entries()].sort(([a], [b]) => (a < b ? -1 : 1))
  writeFileWhole(path, sorted.map(([, reading]) => `${JSON.stringify(shape.parse(reading))}\n`).join(''))
}
