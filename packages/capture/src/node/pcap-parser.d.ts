declare module 'pcap-parser' {
  import type { Readable } from 'node:stream'
  import type { PcapParserLike } from './pcap-parser-types.js'

  export function parse(input: string | Readable): PcapParserLike
}
