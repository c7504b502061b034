/** The certificate authorities that an output trusts: PEM, in place of those that Node knows. */
import { X509Certificate } from 'node:crypto'
import { FileError, readFileBounded } from '@oddflow/program'

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
