/**
 * Names beside tshark's fields: over every capture of the evidence that holds DHCP, DHCPv6 or multicast DNS, the claims that
 * are found are, in order, those that the rule of docs/devices.md makes of what tshark dissects.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createPacketDecoder } from '@oddflow/capture'
import { openCapture } from '@oddflow/capture/node'
import { OddFlowError } from '@oddflow/core'
import { createFlowExtractor } from '@oddflow/flows'
import { describe, expect, it } from 'vitest'
import { findNames } from '../../src/devices/names.js'
import { temporaryFolder } from '../support/folder.js'
import { iatSizeContract } from '../support/rows.js'

const shared = process.env.ODDFLOW_SHARED ?? fileURLToPath(new URL('../../../../../shared', import.meta.url))
const data = join(shared, 'data')
const reason = !existsSync(data)
  ? 'no evidence folder: set ODDFLOW_SHARED'
  : hasTshark()
    ? null
    : 'tshark is not installed'

function hasTshark(): boolean {
  try {
    for (const program of ['tshark', 'mergecap']) execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const PORTS = new Set([67, 547, 5353])

/** What the agent finds, and whether there is a packet to one of the three ports. */
async function ours(path: string): Promise<{ claims: string[]; isCandidate: boolean }> {
  const claims: string[] = []
  let isCandidate = false
  const decoder = createPacketDecoder({})
  const packets = createFlowExtractor({
    contract: iatSizeContract(3),
    onRecord: () => undefined,
  }).createBatch(1024)
  try {
    for await (const frames of openCapture(path, { batchFrames: 1024 })) {
      decoder.decode(frames, packets)
      for (let i = 0; i < packets.count; i++) {
        if (packets.protocol[i] === 17 && PORTS.has(packets.destinationPort[i]!)) isCandidate = true
      }
      findNames(frames, packets, (mac, { name, source }) => claims.push(`${mac} ${source} ${name}`))
    }
  } catch (error) {
    // a damaged capture: what is before the damage counts
    if (!(error instanceof OddFlowError)) throw error
  }
  return { claims, isCandidate }
}

const FIELDS = [
  'eth.src',
  'wlan.sa',
  'udp.dstport',
  'dhcp.type',
  'dhcp.hw.mac_addr',
  'dhcp.option.hostname',
  'dhcp.fqdn.name',
  'dhcpv6.msgtype',
  'dhcpv6.client_domain',
  'ip.src',
  'ipv6.src',
  'dns.flags.response',
  'dns.resp.name',
  'dns.resp.type',
  'dns.a',
  'dns.aaaa',
  'dns.ptr.domain_name',
  'dns.srv.target',
] as const
type Fields = Record<(typeof FIELDS)[number], string[]>

function dissect(path: string): Fields[] {
  const wanted = [...PORTS].map((port) => `udp.dstport==${port}`).join('||')
  const args = [
    '-n',
    '-r',
    path,
    '-Y',
    wanted,
    '-T',
    'fields',
    '-E',
    'separator=/t',
    '-E',
    'aggregator=\u001f',
  ]
  let text: string
  try {
    text = execFileSync('tshark', [...args, ...FIELDS.flatMap((field) => ['-e', field])], {
      maxBuffer: 2 ** 28,
      stdio: ['ignore', 'pipe', 'ignore'],
    }).toString()
  } catch (error) {
    // of a damaged capture what is before the damage
    text = String((error as { stdout: Buffer }).stdout)
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const values = line.split('\t').map((value) => (value === '' ? [] : value.split('\u001f')))
      return Object.fromEntries(FIELDS.map((field, i) => [field, values[i] ?? []])) as Fields
    })
}

const host = (name: string): string | null => /^([^.]+)\.local$/.exec(name)?.[1] ?? null
const instance = (name: string): string | null =>
  /^([^_].*)\._[^.]+\._(?:tcp|udp)\.local$/i.exec(name)?.[1] ?? null

const OF_CLIENTS = new Set(['1', '3', '4', '5', '6', '8', '9', '11'])

/** Types of the records alone: tshark has those that an NSEC record (47) lists under the same field, behind its own. */
function recordTypes({ 'dns.resp.type': types, 'dns.resp.name': names }: Fields): string[] {
  let listed = types.length - names.length
  const records: string[] = []
  let last = 0
  let isInList = false
  for (const type of types) {
    isInList &&= listed > 0 && type !== '47' && Number(type) > last
    last = isInList ? Number(type) : 0
    if (isInList) listed--
    else records.push(type)
    isInList ||= type === '47'
  }
  return records
}

/** The claim that the rule makes of a packet's fields. */
function claimOf(packet: Fields): string | null {
  const mac = packet['eth.src'][0] ?? packet['wlan.sa'][0] ?? 'none'
  const port = packet['udp.dstport'][0]
  if (port === '67') {
    if (packet['dhcp.type'][0] !== '1' || packet['dhcp.hw.mac_addr'][0] !== mac) return null
    const name = packet['dhcp.option.hostname'][0] ?? packet['dhcp.fqdn.name'][0]?.split('.')[0]
    return name === undefined ? null : `${mac} dhcp ${name}`
  }
  if (port === '547') {
    // relayed messages are not opened
    if (!OF_CLIENTS.has(packet['dhcpv6.msgtype'][0] ?? '')) return null
    const name = packet['dhcpv6.client_domain'][0]?.split('.')[0]
    return name === undefined ? null : `${mac} dhcpv6 ${name}`
  }
  if (packet['dns.flags.response'][0] !== '1' && packet['dns.flags.response'][0] !== 'True') return null
  const values = {
    '1': [...packet['dns.a']],
    '28': [...packet['dns.aaaa']],
    '12': [...packet['dns.ptr.domain_name']],
    '33': [...packet['dns.srv.target']],
  }
  const sender = packet['ipv6.src'][0] ?? packet['ip.src'][0]
  const family = packet['ipv6.src'].length > 0 ? '28' : '1'
  let [own, service, called]: (string | null)[] = [null, null, null]
  for (const [i, type] of recordTypes(packet).entries()) {
    const owner = packet['dns.resp.name'][i] ?? ''
    const value = values[type as keyof typeof values]?.shift() ?? ''
    if (type === '1' || type === '28') {
      if (type !== family) continue
      if (value !== sender) return null
      own ??= host(owner)
    } else if (type === '12') called ??= instance(value)
    else if (type === '33') {
      called ??= instance(owner)
      service ??= host(value)
    }
  }
  own ??= service
  if (own !== null) return `${mac} mdns ${own}`
  return called === null ? null : `${mac} mdns-service ${called}`
}

function captures(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.p?cap(ng)?(\.gz)?$/.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
}

describe('names of devices', () => {
  it('are those that tshark dissects, in the captures of the evidence', async (context) => {
    if (reason !== null) context.skip(reason)
    const found: string[] = []
    const candidates: string[] = []
    let tried = 0
    for (const folder of ['captures', 'golden-captures', 'pairs'].map((name) => join(data, name))) {
      for (const path of sampleOf(captures(folder))) {
        tried++
        const { claims, isCandidate } = await ours(path)
        if (!isCandidate) continue
        candidates.push(path)
        found.push(...claims)
      }
    }
    // one after the other in one file, since tshark takes longer to start than to read
    const all = join(temporaryFolder(), 'all.pcapng')
    execFileSync('mergecap', ['-a', '-w', all, ...candidates], { stdio: 'ignore' })
    const expected = dissect(all).flatMap((packet) => claimOf(packet) ?? [])
    expect(candidates.length).toBeGreaterThan(tried / 8)
    expect(found.length).toBeGreaterThan(3 * candidates.length)
    expect(found).toEqual(expected)
  }, 240_000)
})
