/** The file of an output's secret: a webhook's token, or the password for a broker. */
import { readFirstLine } from '../files/first-line.js'
import type { OutputSettings } from '../settings.js'
import { readToken } from './read-token.js'

/** null where it has none. */
export function secretFileOf(output: OutputSettings): string | null {
  if (output.kind === 'webhook') return output.tokenFile
  return output.kind === 'mqtt' ? output.passwordFile : null
}

/** Reads it as the output will. Throws FileError. */
export function checkSecret(output: OutputSettings): void {
  const path = secretFileOf(output)
  if (path === null) return
  if (output.kind === 'webhook') readToken(path)
  else readFirstLine(path)
}
