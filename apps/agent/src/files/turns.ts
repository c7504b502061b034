/** Work that is done one piece after another, whatever becomes of the piece before. */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>

export function createTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
}
