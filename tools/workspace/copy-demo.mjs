/**
 * Puts the lab captures into the trainer before it is packed, so that `oddflow demo` works from an installed
 * package as it does in a checkout. The copy is not kept in the repository.
 */
import { cpSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const target = fileURLToPath(new URL('../../apps/trainer/demo', import.meta.url))
rmSync(target, { recursive: true, force: true })
cpSync(fileURLToPath(new URL('../../test/fixtures/lab', import.meta.url)), target, { recursive: true })
