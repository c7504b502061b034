/** Offers and states of models: what is signed comes back, every change and every stranger's bytes are refused. */
import { generateKeyPairSync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decodeModelState,
  decodeOffer,
  encodeModelState,
  encodeOffer,
  type GatewayModelState,
  isCanary,
  MAXIMUM_OFFER_BYTES,
  type ModelManifest,
  readManifest,
  signManifest,
} from '../src/fleet-models.js'

const ours = generateKeyPairSync('ed25519')
const other = generateKeyPairSync('ed25519')
const manifest: ModelManifest = {
  target: { kind: 'group', name: 'home' },
  version: 7,
  model: { sha256: 'ab'.repeat(32), sizeBytes: 40_000 },
  shadowSeconds: 3600,
  provenance: {
    publishedAt: '2026-11-29T12:00:00.000Z',
    oddflowVersion: '0.1.0',
    dataSha256: 'cd'.repeat(32),
  },
}
const signed = signManifest(manifest, ours.privateKey)
const state: GatewayModelState = {
  group: 'home',
  stage: 'refused',
  version: 7,
  inUse: { version: 5, sha256: 'ef'.repeat(32) },
  reason: 'flags 12 of 100 flows',
  flows: 100,
  falseAlarms: 12,
  at: '2026-11-29T12:00:00.000Z',
}

describe('an offer', () => {
  it('comes back as it was signed, with and without a roll-back', () => {
    for (const rollback of [null, signManifest({ ...manifest, version: 8, model: null }, ours.privateKey)]) {
      const offer = { signed, rollback, share: 0.1 }
      const read = decodeOffer(encodeOffer(offer))
      expect(read).toEqual(offer)
      expect(readManifest(read.signed, ours.publicKey)).toEqual(manifest)
    }
  })

  it('is refused with another key, and with any change', () => {
    expect(() => readManifest(signed, other.publicKey)).toThrow('not by the pinned key')
    const changed = [
      signed.manifest.replace('"version":7', '"version":8'),
      signed.manifest.replace('group.home', 'gateway.home'),
      `${signed.manifest} `,
    ]
    for (const text of changed) {
      expect(() => readManifest({ ...signed, manifest: text }, ours.publicKey)).toThrow('pinned key')
    }
    const signature = signManifest({ ...manifest, version: 9 }, ours.privateKey).signature
    expect(() => readManifest({ ...signed, signature }, ours.publicKey)).toThrow('pinned key')
  })

  it('is refused where a signed manifest is none', () => {
    const bad = [
      { version: 0 },
      { version: 1.5 },
      { version: 2 ** 60 },
      { model: { sha256: 'x', sizeBytes: 1 } },
      { model: { sha256: 'ab'.repeat(32), sizeBytes: 0 } },
      { shadowSeconds: -1 },
      { target: { kind: 'group', name: 'A' } },
      { target: { kind: 'other', name: 'a' } },
      { provenance: null },
      { more: 1 },
    ]
    for (const change of bad) {
      const odd = signManifest({ ...manifest, ...change } as ModelManifest, ours.privateKey)
      expect(() => readManifest(odd, ours.publicKey), JSON.stringify(change)).toThrow(/fleet-model: /)
    }
  })
})

describe('bytes of a stranger', () => {
  it('are an offer or a state, or throw FormatError', () => {
    const isFormatError = (read: () => unknown): void => {
      try {
        read()
      } catch (error) {
        expect((error as Error).name).toBe('FormatError')
      }
    }
    const texts = [encodeOffer({ signed, rollback: signed, share: 1 }), encodeModelState(state)]
    fc.assert(
      fc.property(
        fc.constantFrom(...texts),
        fc.nat(),
        fc.integer({ min: 0, max: 255 }),
        fc.boolean(),
        (text, at, byte, isCut) => {
          const changed = isCut ? text.slice(0, at % text.length) : text.slice()
          if (!isCut) changed[at % text.length] = byte
          isFormatError(() => decodeModelState(changed))
          isFormatError(() => readManifest(decodeOffer(changed).signed, ours.publicKey))
        },
      ),
      { numRuns: sampleCount(3000) },
    )
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const bytes = new TextEncoder().encode(JSON.stringify(value))
        isFormatError(() => decodeModelState(bytes))
        isFormatError(() => decodeOffer(bytes))
      }),
      { numRuns: sampleCount(1000) },
    )
    expect(() => decodeOffer(new Uint8Array(MAXIMUM_OFFER_BYTES + 1))).toThrow('at most')
  })
})

it('a state comes back as it was', () => {
  expect(decodeModelState(encodeModelState(state))).toEqual(state)
})

it('canaries are the stated share, the same for a version every time, and others for the next', () => {
  const gateways = Array.from({ length: 10_000 }, (_, i) => `gateway-${i}`)
  const canaries = (version: number): string[] => gateways.filter((each) => isCanary(each, version, 0.1))
  const [first, next] = [canaries(1), canaries(2)]
  expect(canaries(1)).toEqual(first)
  // six standard deviations
  expect(Math.abs(first.length - 1000)).toBeLessThan(180)
  expect(first.filter((each) => next.includes(each)).length).toBeLessThan(200)
  expect(gateways.some((each) => isCanary(each, 1, 0))).toBe(false)
  expect(gateways.every((each) => isCanary(each, 1, 1))).toBe(true)
})
