/**
 * Whether a request comes from the dashboard's own page, or from another page that a browser has open.
 *
 * *DNS rebinding*: a stranger's page gives its own name this machine's address, and the browser takes both for one
 * site. Its Host header is that name, so only addresses, names without a dot (localhost, or what a container network
 * calls the agent: no public page has such a name), the machine's own name and those of the configuration are taken.
 * *Forged requests*: what another page makes the browser send has another Origin, and no right one can be forged by
 * a page. A request that changes something must have one, unless it shows the token itself, as a script does.
 */
import { isIP } from 'node:net'
import { hostname } from 'node:os'

/** The host of a Host header without its port; null for what is none. */
export function hostOf(header: string | undefined): string | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?$/.exec(header ?? '')
  return match === null ? null : (match[1] ?? match[2]).toLowerCase()
}

export function isOwnHost(header: string | undefined, names: readonly string[]): boolean {
  const host = hostOf(header)
  if (host === null) return false
  if (!host.includes('.') || isIP(host) !== 0) return true
  return [hostname(), ...names].some((name) => name.toLowerCase() === host)
}

/** Whether an Origin is that of the page that the Host header names; https where a proxy speaks it. */
export function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return origin === `http://${host}` || origin === `https://${host}`
}
