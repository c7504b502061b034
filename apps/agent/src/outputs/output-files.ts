/** The files of an output: its secret (a webhook's token, or the password for a broker) and the authorities it trusts. */
import { readFirstLine } from '../files/first-line.js'
import type { OutputSettings } from '../settings.js'
import { readCertificates } from './read-certificates.js'
import { readToken } from './read-token.js'

/** null where it has none. */
export function secretFileOf(output: OutputSettings): string | null {
  if (output.kind === 'webhook') return output.tokenFile
  return output.kind === 'mqtt' ? output.passwordFile : null
}

/** Reads them as the output will. Throws FileError. */
export function checkOutputFiles(output: OutputSettings): void {
  if (output.kind !== 'syslog' && output.caFile !== null) readCertificates(output.caFile)
  const path = secretFileOf(output)
  if (path === null) return
  if (output.kind === 'webhook') readToken(path)
  else readFirstLine(path)
}
