/**
 * Inputs that are given twice: under one name, under two names of one file, or as a copy with the same bytes.
 *
 * Only files of one size can be copies, and few captures have a size in common, so next to nothing is read: 64 KiB of
 * those few, and all of the fewer that begin alike. Left out: one capture in two forms, such as plain and .gz.
 */
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, type Stats, statSync } from 'node:fs'

const PIECE_BYTES = 64 * 1024

interface Seen {
  readonly path: string
  readonly stat: Stats
}

/** Each input that repeats an earlier one, with that one. What cannot be read is left to its reader to complain of. */
export function repeatedFiles(paths: readonly string[]): [copy: string, first: string][] {
  const sizes = new Map<number, Seen[]>()
  for (const path of paths) {
    const stat = path === '-' ? undefined : ordinaryFile(path)
    if (stat === undefined) continue
    const ofSize = sizes.get(stat.size)
    if (ofSize === undefined) sizes.set(stat.size, [{ path, stat }])
    else ofSize.push({ path, stat })
  }
  return [...sizes.values()].filter((files) => files.length > 1).flatMap(repeatedOfSize)
}

function ordinaryFile(path: string): Stats | undefined {
  try {
    const stat = statSync(path)
    return stat.isFile() && stat.size > 0 ? stat : undefined
  } catch {
    return undefined
  }
}

function repeatedOfSize(files: readonly Seen[]): [string, string][] {
  const repeated: [string, string][] = []
  const beginnings = new Map<string, Seen[]>()
  for (const file of files) {
    const beginning = beginningOf(file.path)
    if (beginning === undefined) continue
    const alike = beginnings.get(beginning) ?? []
    beginnings.set(beginning, alike)
    const first = alike.find((other) => isSameFile(file, other) || haveSameBytes(file.path, other.path))
    if (first === undefined) alike.push(file)
    else repeated.push([file.path, first.path])
  }
  return repeated
}

function isSameFile({ stat: a }: Seen, { stat: b }: Seen): boolean {
  return a.dev === b.dev && a.ino === b.ino
}

function beginningOf(path: string): string | undefined {
  try {
    return withOpen(path, (fd) => {
      const piece = new Uint8Array(PIECE_BYTES)
      return createHash('sha256')
        .update(piece.subarray(0, fill(fd, piece)))
        .digest('hex')
    })
  } catch {
    return undefined
  }
}

function haveSameBytes(one: string, other: string): boolean {
  const a = Buffer.alloc(PIECE_BYTES)
  const b = Buffer.alloc(PIECE_BYTES)
  try {
    return withOpen(one, (fdOfOne) =>
      withOpen(other, (fdOfOther) => {
        for (;;) {
          const length = fill(fdOfOne, a)
          if (fill(fdOfOther, b) !== length || !a.subarray(0, length).equals(b.subarray(0, length)))
            return false
          if (length < PIECE_BYTES) return true
        }
      }),
    )
  } catch {
    return false
  }
}

function withOpen<T>(path: string, work: (fd: number) => T): T {
  const fd = openSync(path, 'r')
  try {
    return work(fd)
  } finally {
    closeSync(fd)
  }
}

/** Reads on until the piece is full or the file ends. */
function fill(fd: number, piece: Uint8Array): number {
  let filled = 0
  while (filled < piece.length) {
    const read = readSync(fd, piece, filled, piece.length - filled, null)
    if (read === 0) break
    filled += read
  }
  return filled
}
