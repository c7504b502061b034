/** "1 row", "2 rows". Regular plurals only. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** What is wrong where the system answers EMFILE or ENFILE, and what to do. */
export const TOO_MANY_FILES =
  'too many open files; close some or raise the limit (ulimit -n, or LimitNOFILE= of a unit)'

/**
 * One base class, so that a program can tell a refusal by OddFlow from other errors. A message says what was expected,
 * what was found and where; its parts are fields, so that a program can word them itself.
 */

export interface OddFlowErrorPlace {
  /** Byte offset in the file or buffer that was read. */
  readonly offsetBytes?: number
  /** Name of the parameter, header field or tensor. */
  readonly field?: string
  /** The end of the message, after a comma. A program may replace it, for example by the name of a flag. */
  readonly hint?: string
}

/** Base of every error that OddFlow throws on purpose. `code` is stable; messages may change. */
export class OddFlowError extends Error {
  override readonly name: string = 'OddFlowError'
  readonly code: string
  readonly offsetBytes: number | undefined
  readonly field: string | undefined
  readonly hint: string | undefined
  /** What was expected and what was found: the message without format, field, byte and hint. */
  readonly detail: string

  /** A `message` that begins with the field and a colon has the rest as its detail. */
  constructor(code: string, message: string, place: OddFlowErrorPlace = {}, format?: string) {
    const { offsetBytes, field, hint } = place
    const where = format === undefined || offsetBytes === undefined ? '' : ` (byte ${offsetBytes})`
    super(
      `${format === undefined ? '' : `${format}: `}${message}${hint === undefined ? '' : `, ${hint}`}${where}`,
    )
    this.code = code
    this.offsetBytes = offsetBytes
    this.field = field
    this.hint = hint
    const named = `${field}: `
    this.detail = field !== undefined && message.startsWith(named) ? message.slice(named.length) : message
  }
}

/** A bad call: a parameter out of range, shapes that do not fit, an unknown name. */
export class ArgumentError extends OddFlowError {
  override readonly name = 'ArgumentError'
  constructor(message: string, field?: string, hint?: string) {
    super('argument', message, placeOf(field, hint))
  }
}

/** An invalid file or buffer: its format, the place, what was expected and found. */
export class FormatError extends OddFlowError {
  override readonly name = 'FormatError'
  readonly format: string
  constructor(format: string, message: string, place: OddFlowErrorPlace = {}) {
    super(`format.${format}`, message, place, format)
    this.format = format
  }
}

/** Data that a method cannot work with: too few rows, no spread, a matrix that is not positive definite. */
export class DataError extends OddFlowError {
  override readonly name = 'DataError'
  constructor(message: string, field?: string, hint?: string) {
    super('data', message, placeOf(field, hint))
  }
}

/** Rows and model were made under different feature contracts. */
export class ContractMismatchError extends OddFlowError {
  override readonly name = 'ContractMismatchError'
  constructor(message: string, field?: string) {
    super('contract', message, placeOf(field))
  }
}

function placeOf(field?: string, hint?: string): OddFlowErrorPlace {
  return { ...(field === undefined ? {} : { field }), ...(hint === undefined ? {} : { hint }) }
}
