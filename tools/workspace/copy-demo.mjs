/**
 * Puts the lab captures and the Python scorer into the trainer before it is packed, so that an installed package has
 * what a checkout has. The copies are not kept in the repository.
 */
import { cpSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

for (const [from, to] of [
  ['test/fixtures/lab', 'demo'],
  ['python', 'python'],
]) {
  const target = fileURLToPath(new URL(`../../apps/trainer/${to}`, import.meta.url))
  rmSync(target, { recursive: true, force: true })
  cpSync(fileURLToPath(new URL(`../../${from}`, import.meta.url)), target, { recursive: true })
}
