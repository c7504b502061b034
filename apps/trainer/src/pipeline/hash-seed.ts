/**
 * The key of the flow tables' hash. Who sends packets may try to pile flows up in one place of the table,
 * and cannot without the key. No result depends on it, so a run stays reproducible.
 */
import { randomInt } from 'node:crypto'

export function hashSeed(): number {
  return randomInt(2 ** 48 - 1)
}
