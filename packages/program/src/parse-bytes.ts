/** A size on a command line or in a configuration: "128M", "1G", "134217728". K, M and G are powers of 1,024. */
import { UsageError } from './messages.js'

const UNITS: Readonly<Record<string, number>> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }

/** Throws UsageError that begins with `flag`. */
export function parseBytes(text: string, flag: string): number {
  const match = /^(\d{1,15})([KMG]?)i?B?$/i.exec(text)
  const bytes = match === null ? 0 : Number(match[1]) * UNITS[match[2]!.toUpperCase()]!
  if (!Number.isSafeInteger(bytes) || bytes === 0) {
    throw new UsageError(`${flag} ${text}: expected a whole number of bytes such as 128M or 1G`)
  }
  return bytes
}
