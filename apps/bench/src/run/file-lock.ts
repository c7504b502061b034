/**
 * A lock beside a file, with the number of the process that holds it: a second run is kept out, and a lock left behind
 * by a run that is gone is taken over. It lies beside the file itself, whatever path led there: two runs that came by a
 * symbolic link and by the file's own name meet.
 */
import { lstatSync, readFileSync, readlinkSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { isRunning } from '@oddflow/program'
import { FileError } from '../errors.js'

/** What is there of a path, with no symbolic link in it; its last part need not be there. The folder must be. */
export function realTarget(path: string): string {
  let target = path
  // as many links as Linux follows
  for (let links = 0; links < 40; links++) {
    target = join(realpathSync(dirname(target)), basename(target))
    if (lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return target
    target = resolve(dirname(target), readlinkSync(target))
  }
  throw Object.assign(new Error('too many links'), { code: 'ELOOP' })
}

/** `target`: of `realTarget`. Gives back what releases it. Throws FileError when another run holds it. */
export function takeLock(target: string): () => void {
  const lock = `${target}.lock`
  for (let attempt = 0; ; attempt++) {
    try {
      writeFileSync(lock, `${process.pid}\n`, { flag: 'wx' })
      return () => rmSync(lock, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || attempt === 3) throw error
    }
    if (!lstatSync(lock, { throwIfNoEntry: false })?.isFile()) {
      throw new FileError('file.locked', `its lock ${lock} is no file of such a run; remove it`)
    }
    const owner = Number(readFileSync(lock, 'utf8'))
    if (owner !== process.pid && isRunning(owner)) {
      throw new FileError('file.locked', `another run (process ${owner}) has it open; if not, remove ${lock}`)
    }
    rmSync(lock, { force: true })
  }
}
