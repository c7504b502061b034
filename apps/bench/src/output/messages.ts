/** Text for people, on standard error; data, on standard output. Control characters are shown, not sent. */

export function printable(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export function complain(message: string): void {
  process.stderr.write(`oddflow-bench: ${printable(message)}\n`)
}

export function note(message: string): void {
  process.stderr.write(`${printable(message)}\n`)
}

export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`)
}
