/** Text from traffic, from files and from command lines, made safe for a terminal or a log. */

/** JSON on one line. Inside JSON text a \u escape is the character itself, so a program reads the same. */
export function jsonLine(value: unknown): string {
  return printable(JSON.stringify(value))
}

/**
 * Control characters could move the cursor or recolour the screen, and bidirectional marks could reorder what
 * is read, so both are shown as \u escapes.
 */
export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
