/**
 * Signatures of model files: Ed25519 (RFC 8032) over the file's bytes, 64 bytes in a file of their own beside it, so that the
 * model's bytes stay the same. Keys are PEM files, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`
 * write them.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { FileError } from './file-error.js'
import { readFileBounded } from './read-file.js'
import { writeFileWhole } from './write-file.js'

const SIGNATURE_BYTES = 64
const MAXIMUM_KEY_BYTES = 65_536

/** Where the signature of a model file is. */
export function signaturePath(model: string): string {
  return `${model}.sig`
}

/** Throws FileError where the file is no private key of Ed25519. */
export function readPrivateKey(path: string): KeyObject {
  return readKey(path, 'private')
}

/** Throws FileError where the file is no public key of Ed25519: also for a private one, which is not to lie on a gateway. */
export function readPublicKey(path: string): KeyObject {
  return readKey(path, 'public')
}

/** Writes the signature of a model's bytes beside it. Throws FileError. */
export function signModel(model: string, bytes: Uint8Array, key: KeyObject): void {
  writeFileWhole(signaturePath(model), sign(null, bytes, key))
}

/** Throws FileError where the signature is not there, or is not that of these bytes by this key. */
export function checkSignature(model: string, bytes: Uint8Array, key: KeyObject): void {
  const path = signaturePath(model)
  const signature = readFileBounded(path, { maximumBytes: MAXIMUM_KEY_BYTES, onlyRegular: true })
  if (signature.length === SIGNATURE_BYTES && verify(null, bytes, key, signature)) return
  throw new FileError(
    'file.signature',
    `${model}: ${path} is not its signature by this key; the model was changed, or signed with another key`,
  )
}

function readKey(path: string, kind: 'private' | 'public'): KeyObject {
  const pem = Buffer.from(readFileBounded(path, { maximumBytes: MAXIMUM_KEY_BYTES, onlyRegular: true }))
  const isPrivate = pem.includes('PRIVATE KEY-----')
  try {
    if (isPrivate === (kind === 'private')) {
      const key = kind === 'private' ? createPrivateKey(pem) : createPublicKey(pem)
      if (key.asymmetricKeyType === 'ed25519') return key
    }
  } catch {
    // told below; what OpenSSL says of it helps nobody
  }
  throw new FileError('file.key', `${path}: expected a ${kind} key of Ed25519 in PEM, without a passphrase`)
}
