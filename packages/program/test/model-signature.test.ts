/** Signatures of models: what openssl signs is taken, what oddflow signs openssl verifies, and every changed bit is refused. */
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkSignature, readPrivateKey, readPublicKey, signModel } from '../src/read-model.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-signature-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const inFolder = (name: string): string => join(folder, name)
const model = inFolder('home.oddflow')
const bytes = Uint8Array.from({ length: 3000 }, (_, i) => (i * 31) & 255)

beforeAll(() => {
  for (const name of ['one', 'other']) {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    writeFileSync(inFolder(`${name}.key`), privateKey.export({ type: 'pkcs8', format: 'pem' }), {
      mode: 0o600,
    })
    writeFileSync(inFolder(`${name}.pub`), publicKey.export({ type: 'spki', format: 'pem' }))
  }
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
  writeFileSync(inFolder('rsa.pub'), rsa.publicKey.export({ type: 'spki', format: 'pem' }))
  const locked = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' } as const
  writeFileSync(inFolder('locked.key'), generateKeyPairSync('ed25519').privateKey.export(locked))
  writeFileSync(inFolder('empty'), '')
  writeFileSync(model, bytes)
})

const hasOpenssl = (() => {
  try {
    return execFileSync('openssl', ['version']).length > 0
  } catch {
    return false
  }
})()

describe('a signature', () => {
  it('is that of the bytes by the key, and of nothing else', () => {
    signModel(model, bytes, readPrivateKey(inFolder('one.key')))
    const key = readPublicKey(inFolder('one.pub'))
    checkSignature(model, bytes, key)
    const refuses = /home\.oddflow\.sig is not its signature by this key/
    expect(() => checkSignature(model, bytes, readPublicKey(inFolder('other.pub')))).toThrow(refuses)
    for (let bit = 0; bit < 8 * bytes.length; bit += 101) {
      const changed = bytes.slice()
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect(() => checkSignature(model, changed, key)).toThrow(refuses)
    }
    expect(() => checkSignature(model, bytes.subarray(1), key)).toThrow(refuses)
    const signature = readFileSync(`${model}.sig`)
    expect(signature).toHaveLength(64)
    for (let bit = 0; bit < 512; bit++) {
      const changed = Buffer.from(signature)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      writeFileSync(`${model}.sig`, changed)
      expect(() => checkSignature(model, bytes, key)).toThrow(refuses)
    }
    for (const other of [Buffer.alloc(0), signature.subarray(1), Buffer.concat([signature, signature])]) {
      writeFileSync(`${model}.sig`, other)
      expect(() => checkSignature(model, bytes, key)).toThrow(refuses)
    }
    rmSync(`${model}.sig`)
    expect(() => checkSignature(model, bytes, key)).toThrow(
      /home\.oddflow\.sig: cannot read it: no such file/,
    )
  })

  it.skipIf(!hasOpenssl)('is what openssl makes and verifies', () => {
    const openssl = (...args: string[]): string =>
      execFileSync('openssl', args, { cwd: folder, encoding: 'utf8' })
    signModel(model, bytes, readPrivateKey(inFolder('one.key')))
    const ours = readFileSync(`${model}.sig`)
    const verify = 'pkeyutl -verify -rawin -pubin -inkey one.pub -in home.oddflow -sigfile home.oddflow.sig'
    expect(openssl(...verify.split(' '))).toMatch(/Verified Successfully/)
    openssl(...'pkeyutl -sign -rawin -inkey one.key -in home.oddflow -out home.oddflow.sig'.split(' '))
    expect(readFileSync(`${model}.sig`).equals(ours)).toBe(true)
  })
})

it('a private key that other users may read is refused', () => {
  for (const mode of [0o640, 0o604, 0o620]) {
    chmodSync(inFolder('one.key'), mode)
    expect(() => readPrivateKey(inFolder('one.key'))).toThrow(
      /one\.key: other users of this machine may read .*\(mode 6\d\d\); run: chmod 600 .*one\.key$/,
    )
  }
  chmodSync(inFolder('one.key'), 0o400)
  expect(readPrivateKey(inFolder('one.key')).type).toBe('private')
})

it('a file that is no such key is named, and what is in it is not told', () => {
  for (const name of ['one.key', 'rsa.pub', 'empty', 'none'])
    expect(() => readPublicKey(inFolder(name)), name).toThrow(
      /(expected a public key of Ed25519 in PEM|cannot read it)/,
    )
  writeFileSync(inFolder('long'), 'x'.repeat(100_000))
  for (const name of ['one.pub', 'locked.key', 'empty', 'long'])
    expect(() => readPrivateKey(inFolder(name)), name).toThrow(/expected a private key of Ed25519 in PEM/)
})
