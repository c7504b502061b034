/**
 * decodeBase64: bytes that stand in source files as text, such as WebAssembly modules.
 *
 * Own, because neither Node's Buffer nor the browser's atob is everywhere. For text that we wrote ourselves: what is
 * not of the alphabet is not looked for.
 */
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** The bytes of `text`, which is base64 with padding and without line breaks (RFC 4648, section 4). */
export function decodeBase64(text: string): Uint8Array {
  const length = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length
  const out = new Uint8Array((length * 3) >> 2)
  let bits = 0
  for (let i = 0, at = 0; i < length; i++) {
    bits = (bits << 6) | ALPHABET.indexOf(text[i]!)
    if ((i & 3) > 0) out[at++] = bits >> (6 - 2 * (i & 3))
  }
  return out
}
