/** Where alerts go beside the EVE file, what is kept of their packets, and which are told as one. */
import {
  DEFAULT_EVIDENCE_BYTES,
  DEFAULT_FOLD,
  type EvidenceSettings,
  FACILITIES,
  type FoldSettings,
  type OutputSettings,
} from '../settings.js'
import type { Given } from './given.js'

const SYSLOG_PORT = 514

/** Throws UsageError. */
export function outputsFrom({ config: { outputs }, inFolder, refuse }: Given): OutputSettings[] {
  const names = new Set(['eve'])
  return (outputs ?? []).map((output, i) => {
    const name = output.name ?? output.kind
    if (names.has(name)) {
      refuse(
        ['outputs', i],
        `outputs[${i}]: ${JSON.stringify(name)} is another output's; give each a name of its own`,
      )
    }
    names.add(name)
    if (output.kind !== 'syslog' && output.caFile !== undefined && !/^(https|mqtts):/.test(output.url)) {
      refuse(['outputs', i, 'caFile'], `outputs[${i}].caFile: only for https and mqtts; change url`)
    }
    if (output.kind === 'webhook') {
      const { username, password } = new URL(output.url)
      if (username !== '' || password !== '') {
        refuse(
          ['outputs', i, 'url'],
          `outputs[${i}].url: a name and a password do not go into it; give tokenFile`,
        )
      }
      const tokenFile = inFolder(output.tokenFile) ?? null
      return { kind: 'webhook', name, url: output.url, tokenFile, caFile: inFolder(output.caFile) ?? null }
    }
    if (output.kind === 'mqtt') {
      const { url, username = null, prefix = null, homeAssistant = 'homeassistant' } = output
      const { password } = new URL(url)
      if (password !== '') {
        refuse(['outputs', i, 'url'], `outputs[${i}].url: a password goes into a file; give passwordFile`)
      }
      return {
        kind: 'mqtt',
        name,
        url,
        username,
        passwordFile: inFolder(output.passwordFile) ?? null,
        caFile: inFolder(output.caFile) ?? null,
        prefix,
        homeAssistant: homeAssistant === false ? null : homeAssistant,
      }
    }
    const { protocol = 'udp', host, port = SYSLOG_PORT, facility = 'daemon' } = output
    return { kind: 'syslog', name, protocol, host, port, facility: FACILITIES.indexOf(facility) }
  })
}

/** Throws UsageError. */
export function evidenceFrom({ config: { evidence }, inFolder, bytes }: Given): EvidenceSettings | null {
  if (evidence === undefined) return null
  const { directory, limit } = evidence
  const limitBytes = bytes(['evidence', 'limit'], limit, DEFAULT_EVIDENCE_BYTES)
  return { directory: inFolder(directory), limitBytes }
}

/** null: every alert is given out by itself. */
export function foldFrom({ options, config: { fold } }: Given): FoldSettings | null {
  if (!options.fold || fold === false) return null
  return {
    windowSeconds: fold?.windowSeconds ?? DEFAULT_FOLD.windowSeconds,
    kindsPerDevice: fold?.kindsPerDevice ?? DEFAULT_FOLD.kindsPerDevice,
  }
}
