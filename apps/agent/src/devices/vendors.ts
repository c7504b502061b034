/**
 * Vendors of MAC addresses by a registry file. Three kinds of lines are read:
 *
 *     00:00:0C<tab>Cisco<tab>Cisco Systems, Inc         Wireshark's manuf; longer prefixes as 00:1B:C5:00:00:00/36
 *     00-00-0C   (hex)<tab><tab>Cisco Systems, Inc      IEEE's oui.txt (Debian: ieee-data)
 *     00000C Cisco Systems                              nmap's nmap-mac-prefixes
 *
 * The file is read in blocks and not kept in memory. The longest prefix counts. Other lines are skipped.
 */
import { FormatError } from '@oddflow/core'
import type { FileSystem } from '../files/file-system.js'
import type { Log } from '../log.js'
import type { Device } from './device.js'
import { cleanName, MAXIMUM_NAME_CHARACTERS } from './names.js'

/** Where packages put them: the first that is there is read. */
export const USUAL_REGISTRIES = [
  '/usr/share/wireshark/manuf',
  '/usr/share/ieee-data/oui.txt',
  '/var/lib/ieee-data/oui.txt',
  '/usr/share/nmap/nmap-mac-prefixes',
]

const BLOCK_BYTES = 65_536
const MAXIMUM_LINE_BYTES = 1024
const MAXIMUM_FILE_BYTES = 64 * 1_048_576
const LINE_FEED = 10

/**
 * The vendors of addresses such as "00:00:0c:01:02:03", as far as the registry has them.
 * Rejects with the error of the file system, or FormatError where it is no file.
 */
export async function findVendors(
  files: FileSystem,
  registry: string,
  macs: readonly string[],
): Promise<Map<string, string>> {
  // a pipe would be waited for
  if ((await files.isRegular(registry)) === false) throw new FormatError('vendors', 'is no file')
  const wanted = new Map<string, string[]>()
  for (const mac of macs) {
    const digits = mac.replaceAll(':', '')
    wanted.set(digits.slice(0, 6), [...(wanted.get(digits.slice(0, 6)) ?? []), mac])
  }
  const found = new Map<string, { readonly digits: number; readonly name: string }>()
  const take = (line: Uint8Array): void => {
    const entry = readVendorLine(line)
    if (entry === null) return
    for (const mac of wanted.get(entry.prefix.slice(0, 6)) ?? []) {
      const isLonger = entry.prefix.length > (found.get(mac)?.digits ?? 0)
      if (isLonger && mac.replaceAll(':', '').startsWith(entry.prefix)) {
        found.set(mac, { digits: entry.prefix.length, name: entry.name })
      }
    }
  }
  const file = await files.open(registry, 'follow')
  try {
    await eachLine(file, take)
  } finally {
    await file.close()
  }
  return new Map([...found].map(([mac, { name }]) => [mac, name]))
}

async function eachLine(
  file: { read(position: number, length: number): Promise<Uint8Array> },
  take: (line: Uint8Array) => void,
): Promise<void> {
  let rest = new Uint8Array(0)
  let isTooLong = false
  for (let position = 0; position < MAXIMUM_FILE_BYTES; ) {
    const block = await file.read(position, BLOCK_BYTES)
    if (block.length === 0) break
    position += block.length
    const bytes = new Uint8Array(rest.length + block.length)
    bytes.set(rest)
    bytes.set(block, rest.length)
    let start = 0
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      if (!isTooLong && end - start <= MAXIMUM_LINE_BYTES) take(bytes.subarray(start, end))
      isTooLong = false
      start = end + 1
    }
    // of a line that is too long nothing is carried on
    isTooLong ||= bytes.length - start > MAXIMUM_LINE_BYTES
    rest = isTooLong ? new Uint8Array(0) : bytes.slice(start)
  }
  if (!isTooLong) take(rest)
}

const MANUF =
  /^([0-9a-f]{2}(?:[:-][0-9a-f]{2}){2,5})(?:\/(24|28|32|36|40|44|48))?[ \t]*\t([^\t]+)(?:\t+([^\t]+))?$/i
const OUI_TXT = /^([0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f]{2})\s+\(hex\)\s+(\S.*)$/i
const NMAP = /^([0-9a-f]{6,12}) (?!\s*\(base 16\))(\S.*)$/i

/** null for an invalid line. `prefix`: hexadecimal digits, six or more, in lower case. */
export function readVendorLine(line: Uint8Array): { prefix: string; name: string } | null {
  const first = line[0]
  // a comment, an address, an empty line: most of an oui.txt
  if (first === undefined || first < 0x30 || first > 0x66) return null
  const text = new TextDecoder().decode(line).trimEnd()
  const match = OUI_TXT.exec(text) ?? NMAP.exec(text)
  if (match !== null) return entryOf(match[1], 12, match[2])
  const manuf = MANUF.exec(text)
  if (manuf === null) return null
  return entryOf(manuf[1], manuf[2] === undefined ? 12 : Number(manuf[2]) / 4, manuf[4] ?? manuf[3])
}

function entryOf(prefix: string, digits: number, name: string): { prefix: string; name: string } | null {
  const text = [...name.trim().replaceAll('\t', ' ')]
  const short =
    text.length <= MAXIMUM_NAME_CHARACTERS
      ? text.join('')
      : `${text
          .slice(0, MAXIMUM_NAME_CHARACTERS - 1)
          .join('')
          .trimEnd()}…`
  const clean = cleanName(new TextEncoder().encode(short))
  return clean === null
    ? null
    : { prefix: prefix.replace(/[:-]/g, '').toLowerCase().slice(0, digits), name: clean }
}

export type VendorSeeker = ReturnType<typeof createVendorSeeker>

const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/
/** Between two readings of the registry. */
const TICKS_BETWEEN = 10
const AT_A_TIME = 1024

/**
 * Looks up the vendors of found devices, many at a time: a flood of new ones reads the registry once. Private addresses have no vendor.
 * @param registry - a file; null: the first of the usual ones that is there.
 */
export function createVendorSeeker(files: FileSystem, registry: string | null, log: Pick<Log, 'warn'>) {
  let ticks = 0
  let isSeeking = false
  let isOver = false

  const registryHere = async (): Promise<string | null> => {
    if (registry !== null) return registry
    for (const path of USUAL_REGISTRIES) {
      if ((await files.isRegular(path).catch(() => null)) === true) return path
    }
    return null
  }
  const seek = async (sought: readonly Device[]): Promise<void> => {
    const path = await registryHere()
    if (path === null) {
      isOver = true
      return
    }
    try {
      const vendors = await findVendors(
        files,
        path,
        sought.map(({ key }) => key),
      )
      for (const device of sought) device.vendor = vendors.get(device.key) ?? null
    } catch (error) {
      isOver = true
      log.warn(`${path}: ${(error as Error).message}; devices are shown without their vendors`)
    }
  }
  return {
    /** To be called every second or so with the known devices; sets their `vendor`. */
    tick(devices: Iterable<Device>): void {
      if (isOver || isSeeking || ticks++ % TICKS_BETWEEN !== 0) return
      const sought: Device[] = []
      for (const device of devices) {
        if (device.vendor !== undefined || device.randomised || !MAC.test(device.key)) continue
        sought.push(device)
        if (sought.length === AT_A_TIME) break
      }
      if (sought.length === 0) return
      isSeeking = true
      void seek(sought).finally(() => {
        isSeeking = false
      })
    },
  }
}
