/**
 * What to say about bytes that begin no capture: what was expected, what was found, and, where the first
 * bytes are those of a well-known format, how to go on.
 */
const KNOWN: readonly { readonly bytes: readonly number[]; readonly advice: string }[] = [
  { bytes: [0x1f, 0x8b], advice: 'gzip within: decompress it once more' },
  { bytes: [0x28, 0xb5, 0x2f, 0xfd], advice: 'zstd: decompress it first with "zstd -d"' },
  { bytes: [0xfd, 0x37, 0x7a, 0x58], advice: 'xz: decompress it first with "unxz"' },
  { bytes: [0x42, 0x5a, 0x68], advice: 'bzip2: decompress it first with "bunzip2"' },
  { bytes: [0x50, 0x4b, 0x03, 0x04], advice: 'a zip archive: unpack it first with "unzip"' },
  {
    bytes: [0x73, 0x6e, 0x6f, 0x6f],
    advice: 'a snoop capture: convert it with "editcap -F pcap IN OUT"',
  },
  {
    bytes: [0x93, 0x4e, 0x55, 0x4d],
    advice: 'a NumPy array: it holds feature rows, not packets',
  },
]

/** @param data at least four bytes */
export function describeUnknownMagic(data: Uint8Array): string {
  const first = data.subarray(0, 4)
  const hex = Array.from(first, (byte) => byte.toString(16).padStart(2, '0')).join(' ')
  const text = Array.from(first, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'))
  const known = KNOWN.find(({ bytes }) => bytes.every((byte, i) => data[i] === byte))
  const advice =
    known?.advice ?? 'give a file written by tcpdump, dumpcap or Wireshark, or convert it with "editcap"'
  return `not a capture: expected a pcap or pcapng magic number, found ${hex} ("${text.join('')}"); ${advice}`
}
