/**
 * A name that a device claims, as text that may be shown: valid UTF-8, printable, of at most 63 characters.
 *
 * Whatever is shown is chosen by whoever sends it. Control and format characters (which turn text around, hide it, or steer a
 * terminal), line ends, private and unassigned code points have no place in a name, so a name that has one is none; white
 * space is one space, and none at the ends.
 */
export const MAXIMUM_NAME_CHARACTERS = 63

const decoder = new TextDecoder('utf-8', { fatal: true })

/** null for what is no name. */
export function cleanName(bytes: Uint8Array): string | null {
  // four bytes a character at most
  if (bytes.length > 4 * MAXIMUM_NAME_CHARACTERS) return null
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    return null
  }
  // DHCP clients of old end a name with a zero byte
  const name = text
    .replace(/\0+$/, '')
    .replace(/\p{Zs}+/gu, ' ')
    .trim()
  if (name === '' || /[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return null
  return [...name].length > MAXIMUM_NAME_CHARACTERS ? null : name
}
