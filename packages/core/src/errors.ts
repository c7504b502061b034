/** A count with its noun, as every message of the packages and programs says it. Regular plurals alone. */

/** "1 row", "2 rows". */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/**
 * Errors: one base class, so that a program can tell what OddFlow refuses from what went wrong otherwise.
 *
 * A message says what was expected and what was found, with the byte offset or the field where there is
 * one. Bad calls and bad files throw; bad packets never do, they are counted by reason.
 */

export interface OddFlowErrorPlace {
  /** Byte offset in the file or buffer that was read. */
  readonly offsetBytes?: number
  /** Name of the parameter, header field or tensor. */
  readonly field?: string
}

/** Base of every error that OddFlow throws on purpose. `code` is stable; messages may be reworded. */
export class OddFlowError extends Error {
  override readonly name: string = 'OddFlowError'
  readonly code: string
  readonly offsetBytes: number | undefined
  readonly field: string | undefined

  constructor(code: string, message: string, place: OddFlowErrorPlace = {}) {
    super(message)
    this.code = code
    this.offsetBytes = place.offsetBytes
    this.field = place.field
  }
}

/** A bad call: a parameter out of range, shapes that do not fit, an unknown name. */
export class ArgumentError extends OddFlowError {
  override readonly name = 'ArgumentError'
  constructor(message: string, field?: string) {
    super('argument', message, field === undefined ? {} : { field })
  }
}

/** A file or buffer that is not what it should be: which format, where, what was expected and found. */
export class FormatError extends OddFlowError {
  override readonly name = 'FormatError'
  constructor(format: string, message: string, place: OddFlowErrorPlace = {}) {
    const where = place.offsetBytes === undefined ? '' : ` (byte ${place.offsetBytes})`
    super(`format.${format}`, `${format}: ${message}${where}`, place)
  }
}

/** Data that a method cannot work with: too few rows, no spread, a matrix that is not positive definite. */
export class DataError extends OddFlowError {
  override readonly name = 'DataError'
  constructor(message: string, field?: string) {
    super('data', message, field === undefined ? {} : { field })
  }
}

/** Rows and model were made under different feature contracts. */
export class ContractMismatchError extends OddFlowError {
  override readonly name = 'ContractMismatchError'
  constructor(message: string, field?: string) {
    super('contract', message, field === undefined ? {} : { field })
  }
}
