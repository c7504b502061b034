/**
 * Until programs have nothing left to do but wait: all of their threads sleep, spend no processor time and read nothing,
 * at ten looks in turn. One that waits for a processor does not sleep, so that this holds on a busy machine too. Linux.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** What would change if it did anything; null while it does something. */
function look(pid) {
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => {
    const line = readFileSync(`/proc/${pid}/task/${id}/stat`, 'utf8')
    // behind the name: state, …, processor time of user and system
    return line.slice(line.lastIndexOf(')') + 2).split(' ')
  })
  if (threads.some(([state]) => state !== 'S')) return null
  return threads.map((fields) => fields.slice(11, 13)).join() + readFileSync(`/proc/${pid}/io`, 'utf8')
}

/** @param {...number} pids */
export async function untilIdle(...pids) {
  let before = null
  for (let same = 0; same < 10; ) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    const looks = pids.map(look)
    const now = looks.includes(null) ? null : looks.join()
    same = now !== null && now === before ? same + 1 : 0
    before = now
  }
}
