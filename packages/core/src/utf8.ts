/**
 * UTF-8, through the platform's own encoder and decoder, which every browser and Node have. The packages
 * are compiled without the DOM's or Node's type libraries so that neither can be leaned on by accident;
 * the two classes are therefore declared here, with no more than what is used.
 */

declare const TextEncoder: new () => { encode(text: string): Uint8Array<ArrayBuffer> }
declare const TextDecoder: new (label: 'utf-8', options: { fatal: true; ignoreBOM: true }) => Utf8Decoder

export interface Utf8Decoder {
  /** Throws TypeError at a byte sequence that is not UTF-8. */
  decode(bytes?: Uint8Array, options?: { stream: boolean }): string
}

/** Lone surrogates become U+FFFD: callers that promise a round trip refuse them first (`isWellFormed`). */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

/** A decoder that keeps a byte order mark as a character and throws at malformed input. */
export function createUtf8Decoder(): Utf8Decoder {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
}

/** The text, or null when the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return createUtf8Decoder().decode(bytes)
  } catch {
    return null
  }
}

/** Whether a string has no lone surrogate, so that UTF-8 can carry it. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text)
}
