/** A model file from disk. Throws FileError or FormatError; each message begins with the file's name. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { statSync } from 'node:fs'
import { FormatError } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { type ReadFileOptions, readFileBounded, writeFileWhole } from './files.js'
import { FileError, inFile } from './messages.js'

/**
 * Signatures of model files: Ed25519 (RFC 8032) over the file's bytes, 64 bytes in another file beside it, so
 * that the model's bytes stay the same. Keys are PEM files, as `openssl genpkey -algorithm ed25519` and `openssl pkey
 * -pubout` write them.
 */

const SIGNATURE_BYTES = 64
const MAXIMUM_KEY_BYTES = 65_536

/** Where the signature of a model file is. */
export function signaturePath(model: string): string {
  return `${model}.sig`
}

/** Throws FileError if the file is no Ed25519 private key, or if it is ours and others may read it. */
export function readPrivateKey(path: string): KeyObject {
  const key = readKey(path, 'private')
  const { mode, uid } = statSync(path)
  // as ssh decides: a file of another user is that user's to protect, and Windows has neither
  if (uid !== process.getuid?.() || (mode & 0o077) === 0) return key
  throw new FileError(
    'file.key-mode',
    `${path}: other users of this machine may read the private key (mode ${(mode & 0o777).toString(8)}); run: chmod 600 ${path}`,
  )
}

/** Throws FileError if the file is no Ed25519 public key, also for a private one, which should not be on a gateway. */
export function readPublicKey(path: string): KeyObject {
  return readKey(path, 'public')
}

/** Writes the signature of a model's bytes beside it. Throws FileError. */
export function signModel(model: string, bytes: Uint8Array, key: KeyObject): void {
  writeFileWhole(signaturePath(model), sign(null, bytes, key))
}

/** Throws FileError if the signature is missing, or is not by this key over these bytes. */
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
  try {
    const pem = Buffer.from(readFileBounded(path, { maximumBytes: MAXIMUM_KEY_BYTES, onlyRegular: true }))
    const isPrivate = pem.includes('PRIVATE KEY-----')
    if (isPrivate === (kind === 'private')) {
      const key = kind === 'private' ? createPrivateKey(pem) : createPublicKey(pem)
      if (key.asymmetricKeyType === 'ed25519') return key
    }
  } catch (error) {
    // a longer file is no key, and OpenSSL's message does not help: reported below
    if (error instanceof FileError && error.code !== 'file.too-long') throw error
  }
  throw new FileError('file.key', `${path}: expected a ${kind} key of Ed25519 in PEM, without a passphrase`)
}

/** A model with the most landmarks and the widest rows is smaller; larger files are not models. */
const MAXIMUM_MODEL_BYTES = 2 ** 31 - 1

/** How pcap (both byte orders, µs and ns) and pcapng files begin; usually the arguments are in the wrong order. */
const CAPTURE_MAGICS = new Set(['d4c3b2a1', 'a1b2c3d4', '4d3cb2a1', 'a1b23c4d', '0a0d0d0a'])
const NPY_MAGIC = '934e554d'

/** A model file that was read. */
export interface ModelFile {
  readonly saved: SavedModel
  /** SHA-256 of the file's bytes, in 64 lower-case hexadecimal digits, to identify the model. */
  readonly sha256: string
  readonly sizeBytes: number
}

/**
 * Reads a model file, with `check` as `decodeModelFile` has it. Throws FileError or FormatError; the message begins with
 * the file's name.
 */
export function readModel(path: string, check?: (saved: SavedModel) => unknown): SavedModel {
  return readModelFile(path, check === undefined ? {} : { check }).saved
}

interface ReadModelOptions extends Pick<ReadFileOptions, 'onlyRegular'> {
  /** Checks more of the model, as of `decodeModelFile`. */
  readonly check?: (saved: SavedModel) => unknown
  /** Whose signature the file must have beside it. */
  readonly publicKey?: KeyObject | null
  /** Signs the bytes that were read, once they are found to be a model. */
  readonly signWith?: KeyObject
}

/** Reads a model file with its hash, and checks its signature if asked to. Errors as `readModel`. */
export function readModelFile(path: string, options: ReadModelOptions = {}): ModelFile {
  const bytes = readFileBounded(path, {
    ...options,
    maximumBytes: MAXIMUM_MODEL_BYTES,
    checkHead: (head, size) => checkHead(path, head, size),
  })
  if (options.publicKey) checkSignature(path, bytes, options.publicKey)
  try {
    const saved = decodeModelFile(bytes, options.check)
    if (options.signWith) signModel(path, bytes, options.signWith)
    return { saved, sha256: createHash('sha256').update(bytes).digest('hex'), sizeBytes: bytes.length }
  } catch (error) {
    throw inFile(path, error, '; give a whole model file that oddflow train wrote')
  }
}

/** Refuses unsuitable files by their first bytes, without reading the rest of a large file. */
function checkHead(path: string, head: Uint8Array, sizeBytes: number): void {
  const refuse = (message: string, place = {}): never => {
    throw inFile(path, new FormatError('model-file', message, place))
  }
  const magic = Buffer.from(head.subarray(0, 4)).toString('hex')
  if (CAPTURE_MAGICS.has(magic)) refuse('this is a capture; give the model first, then the inputs')
  if (magic === NPY_MAGIC) refuse('this is a .npy file, not a model; give the model first, then the rows')
  if (head.length < 9) return
  const headerBytes = Buffer.from(head).readBigUInt64LE(0)
  if (head[8] !== 0x7b || headerBytes > BigInt(sizeBytes)) {
    refuse(
      'not a model: expected 8 bytes of header length, then "{"; give a whole model file that oddflow train wrote',
      { offsetBytes: 8 },
    )
  }
}
