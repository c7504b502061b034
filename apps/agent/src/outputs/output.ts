/** Output: somewhere that alerts go to. */

import { X509Certificate } from 'node:crypto'
import { FileError, readFileBounded } from '@oddflow/program'
import type { OutputSettings } from '../config/settings.js'
import { readFirstLine } from '../files/file-system.js'
import type { AlertBatch } from '../spool/alert-log.js'

/** The certificate authorities that an output trusts: PEM, in place of those that Node knows. */

const MAXIMUM_BYTES = 1_048_576
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws FileError where the file cannot be read or a certificate in it is damaged. */
export function readCertificates(path: string): string[] {
  const text = new TextDecoder().decode(
    readFileBounded(path, { maximumBytes: MAXIMUM_BYTES, onlyRegular: true }),
  )
  const found = text.match(CERTIFICATE) ?? []
  try {
    for (const each of found) new X509Certificate(each)
    if (found.length > 0) return found
  } catch {
    // told below
  }
  throw new FileError('file.certificate', `${path}: expected certificates in PEM (BEGIN CERTIFICATE)`)
}

/** A webhook's token: the first line of a file. */

const MAXIMUM_TOKEN_BYTES = 8192

/** Throws FileError where it cannot be read or is no token; what it holds is not told. */
export function readToken(path: string): string {
  const token = readFirstLine(path).trim()
  if (token.length === 0 || token.length > MAXIMUM_TOKEN_BYTES || !/^[\x21-\x7e]+$/.test(token)) {
    throw new FileError(
      'file.token',
      `${path}: expected a token of visible ASCII characters in its first line`,
    )
  }
  return token
}

/** The files of an output: its secret (a webhook's token, or the password for a broker) and the authorities it trusts. */

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

/** The receiver is there and refuses what it was sent. The same alerts again would be refused again. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

export interface Output {
  readonly name: string
  /** Where to, for messages: without anything secret. */
  readonly target: string
  /** Alerts that it takes at a time, at most; some hundreds where it does not say. */
  readonly batch?: number
  /** Resolves when all are delivered. When it rejects none may count as delivered, and all come again. Rejects with RefusedError
   * where the receiver takes in other alerts, or fewer at a time, and not these. */
  deliver(batch: AlertBatch, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}
