declare module 'pcap-parser' {
  import type { Readable } from 'node:stream'
  import type { PcapParserLike } from './pcap-parser-frames.js'

  /** module.exports. */
  const pcapParser: { parse(input: string | Readable): PcapParserLike }
  export default pcapParser
}
