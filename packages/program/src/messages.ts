/** Messages of a program: one line each on standard error, with control characters shown. */
import { FormatError, OddFlowError, TOO_MANY_FILES } from '@oddflow/core'

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

/** What commander's configureOutput takes. */
interface ErrorOutput {
  outputError(text: string, write: (line: string) => void): void
}

/**
 * commander's own errors in the form of all others: one line with the program's name and a suggestion.
 * @param help the command that prints the help; its first word is the program's name.
 */
export function oneLineErrors(help: string): ErrorOutput {
  const program = help.split(' ', 1)[0]
  return {
    outputError: (text, write) => {
      const message = text
        .trim()
        .replace(/^error: /, '')
        .replace(/\.$/, '')
        .replace(/\n(\(Did you mean [^\n]*\))$/, ' $1')
        .replace(/^option '(?:-\w, )?(--[\w-]+)[^']*' argument '(.*)' is invalid\. /s, '$1 $2: ')
        .replace(/^command-argument value '(.*)' is invalid for argument '(.*)'\. /s, '$2 $1: ')
        .replace(/: Allowed choices are ([^,]*)$/, ': expected $1')
        .replace(/: Allowed choices are /, ': expected one of ')
      write(`${program}: ${printable(message)}; try: ${help}\n`)
    },
  }
}

/** The command line itself is wrong: exit code 2. The message says what to write instead. */
export class UsageError extends Error {}

/** An error about a file, in one line that suggests what to do. */
export class FileError extends OddFlowError {
  override readonly name = 'FileError'
}

const ADVICE: Record<string, string> = {
  ENOENT: 'no such file or folder; check the path',
  EISDIR: 'is a directory; name a file',
  ENOTDIR: 'a part of the path is not a folder; check the path',
  EACCES: 'permission denied; check its owner and mode',
  EPERM: 'not permitted; check its owner and mode',
  ENOSPC: 'no space left; free some or choose another place',
  EROFS: 'the file system is read-only; choose another place',
  EMFILE: TOO_MANY_FILES,
  ENFILE: TOO_MANY_FILES,
  ELOOP: 'symbolic links form a loop; check the path',
  ENAMETOOLONG: 'the name is too long; choose a shorter one',
}

/** Turns an error of node:fs into a FileError; returns our own errors unchanged. */
export function fileError(action: 'read' | 'write', path: string, error: unknown): OddFlowError {
  if (error instanceof OddFlowError) return error
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? 'unknown'
  const folder = /^(.+)[\\/]/.exec(path)?.[1]
  const advice =
    action === 'write' && code === 'ENOENT' && folder !== undefined
      ? `there is no folder ${folder}; create it first`
      : (ADVICE[code] ?? (error instanceof Error ? error.message : String(error)))
  return new FileError(`file.${code}`, `${path}: cannot ${action} it: ${advice}`, { field: path })
}

/** Adds the file's name before the message of one of our errors, and a suggestion after it. */
export function inFile(path: string, error: unknown, advice = ''): unknown {
  if (!(error instanceof OddFlowError)) return error
  const message = `${path}: ${error.message}${advice}`
  const place = {
    ...(error.offsetBytes === undefined ? {} : { offsetBytes: error.offsetBytes }),
    ...(error.field === undefined ? {} : { field: error.field }),
  }
  return error instanceof FormatError
    ? new FileFormatError(error.code, message, place)
    : new OddFlowError(error.code, message, place)
}

class FileFormatError extends OddFlowError {
  override readonly name = 'FormatError'
}

/** How a program speaks to people, one line a message. */
export interface Messages {
  warn(message: string): void
  /** An error after which the command continues or ends. */
  complain(message: string): void
  /** A summary for people, on standard error, so that standard output stays data. */
  note(message: string): void
}

/** `program` stands before warnings and errors. */
export function createMessages(program: string): Messages {
  const say = (line: string): void => {
    process.stderr.write(`${line}\n`)
  }
  return {
    warn: (message) => say(`${program}: warning: ${printable(message)}`),
    complain: (message) => say(`${program}: ${printable(message)}`),
    note: (message) => say(printable(message)),
  }
}

/** A size on a command line or in a configuration: "128M", "1G", "134217728". K, M and G are powers of 1,024. */

const UNITS: Readonly<Record<string, number>> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }

/** Throws UsageError that begins with `flag`. */
export function parseBytes(text: string, flag: string): number {
  const match = /^(\d{1,15})([KMG]?)i?B?$/i.exec(text)
  const bytes = match === null ? 0 : Number(match[1]) * UNITS[match[2]!.toUpperCase()]!
  if (!Number.isSafeInteger(bytes) || bytes === 0) {
    throw new UsageError(`${flag} ${text}: expected a whole number of bytes such as 128M or 1G`)
  }
  return bytes
}
