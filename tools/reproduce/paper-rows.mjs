/** Where the paper authors' feature rows are: not in the repository, so a script asks for them and says what it misses. */
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../..')

/** data/paper under ODDFLOW_SHARED, or ../shared beside the checkout. */
export const PAPER_ROWS = join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/paper')

/** Ends the program with exit code 2 when `folder` has no rows. */
export function requireRows(folder) {
  if (existsSync(join(folder, 'ctu'))) return
  console.error(`no rows in ${folder}: give --data the folder that holds ctu/X_train_r0.npy`)
  process.exit(2)
}
