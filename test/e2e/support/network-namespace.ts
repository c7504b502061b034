/** Whether tests can have network namespaces, interfaces and a recorder. */
import { execFileSync } from 'node:child_process'

/** Why not; null where they can. `programs` are needed beside ip and unshare. */
export function whyNoNamespace(programs: readonly string[]): string | null {
  if (process.platform !== 'linux') return 'veth pairs are of Linux'
  if (process.getuid?.() !== 0) return 'not root: no network namespace, no raw socket'
  for (const [program, argument] of [...programs.map((name) => [name, '--version']), ['ip', '-V']]) {
    try {
      execFileSync(program!, [argument!], { stdio: 'ignore' })
    } catch {
      return `${program} is not installed`
    }
  }
  try {
    execFileSync('unshare', ['--net', 'ip', 'link', 'add', 'a0', 'type', 'veth'], { stdio: 'ignore' })
  } catch {
    return 'this system allows no network namespace or veth pair'
  }
  return null
}
