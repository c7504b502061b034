/** The Python that has scikit-learn: Debian's own has Debian's packages, whatever else is on the path. */
import { runProcess } from '../machines/reach/run-process.js'

const PYTHONS = ['/usr/bin/python3', 'python3']
const LIMITS = { timeoutMillis: 60_000, maximumOutputBytes: 100_000 }

/** null where none has. */
export async function findPython(): Promise<string | null> {
  for (const command of PYTHONS) {
    if ((await runProcess(command, ['-c', 'import sklearn'], LIMITS)).code === 0) return command
  }
  return null
}
