/**
 * Synthetic attacks from small to large, shaped as common programs do them: single SYNs like zmap and Mirai, OpenSSH's
 * handshake with up to six passwords, TLS on port 443, long TXT questions like dnscat2 and iodine. Outside hosts are
 * in networks reserved for tests (RFC 2544, RFC 5180).
 */
import type { Rng } from '@oddflow/core'
import {
  ACK,
  createConnection,
  dnsMessage,
  logUniform,
  type MadeConnection,
  type MadeEnd,
  type MadeFrame,
  type PacketMaker,
  RST,
  SYN,
} from './made-packets.js'

/** The surroundings of synthetic packets: a device and its network. */
export interface MadeSite {
  readonly device: MadeHost
  /** A host of the same network that attacks the device. */
  readonly neighbour: MadeHost
  /** The name server that the device asks. */
  readonly resolver: MadeHost
  /** MAC address of the router to outside hosts; null without a link layer. */
  readonly routerMac: Uint8Array | null
  /** Time from request to answer for most outside hosts and the resolver. */
  readonly roundTripMicros: { readonly low: number; readonly high: number }
  /** A connection that the device keeps open, over which data can leave. */
  readonly openConnection: OpenConnection
}

/** An end without a port. All addresses of a site are of one IP version. */
export type MadeHost = Omit<MadeEnd, 'port'>

/** A long connection in which a made upload hides. */
export interface OpenConnection {
  readonly serverPort: number
  /** Bytes of each exchange: the device asks, the server answers, then both are silent for a while. */
  readonly exchanges: readonly { readonly request: number; readonly answer: number }[]
  readonly intervalMicros: number
}

/** A home network as most are. */
export const DEFAULT_SITE: MadeSite = {
  device: host([192, 168, 1, 50], 0x50, 64),
  neighbour: host([192, 168, 1, 66], 0x66, 64),
  resolver: host([192, 168, 1, 1], 0x01, 64),
  routerMac: macOf(0x01),
  roundTripMicros: { low: 5_000, high: 80_000 },
  openConnection: {
    serverPort: 443,
    exchanges: new Array(10).fill({ request: 60, answer: 60 }),
    intervalMicros: 30_000_000,
  },
}

/** The names of synthetic attacks. */
export type MadeAttackName =
  | 'port-scan'
  | 'host-scan'
  | 'password-guessing'
  | 'download'
  | 'upload'
  | 'beacon'
  | 'flood'
  | 'dns-tunnel'

/** A synthetic attack that can be made in any size. */
export interface MadeAttack {
  readonly name: MadeAttackName
  /** For people: "scan of one host". */
  readonly title: string
  /** What the size counts, in the plural. */
  readonly unit: 'ports' | 'hosts' | 'attempts' | 'bytes' | 'packets/s' | 'bytes of name'
  /** Sizes that make sense, whole numbers. */
  readonly lowest: number
  readonly highest: number
  /**
   * The packets in time order, starting at the maker's clock; each frame is borrowed until the next one. The same for
   * the same size, site, clock and Rng.
   */
  frames(size: number, site: MadeSite, rng: Rng, maker: PacketMaker): Iterable<MadeFrame>
}

/** All synthetic attacks, with the range of sizes that are tried. */
export const MADE_ATTACKS: readonly MadeAttack[] = [
  {
    name: 'port-scan',
    title: 'scan of one host',
    unit: 'ports',
    lowest: 1,
    highest: 1000,
    // a neighbour probes ports of the device, most of them closed
    *frames(size, { device, neighbour }, rng, maker) {
      for (let i = 0; i < size; i++) {
        const probe = {
          client: { ...neighbour, port: ephemeralPort(rng) },
          server: { ...device, port: 1 + rng.nextBelow(10_000) },
          roundTripMicros: logUniform(rng, 200, 3_000),
        }
        yield* probed(maker, rng, probe, rng.nextFloat() < 0.03 ? 'open' : 'closed')
        maker.clock.micros += Math.round(logUniform(rng, 500, 20_000))
      }
    },
  },
  {
    name: 'host-scan',
    title: 'scan of many hosts',
    unit: 'hosts',
    lowest: 1,
    highest: 1000,
    // the device looks for others to infect; most addresses do not answer
    *frames(size, site, rng, maker) {
      const port = SCANNED_PORTS[rng.nextBelow(SCANNED_PORTS.length)]!
      for (let i = 0; i < size; i++) {
        const probe = {
          client: { ...site.device, port: ephemeralPort(rng) },
          server: outsideHost(site, rng, port),
          roundTripMicros: outsideRoundTrip(site, rng),
        }
        const kind = rng.nextFloat()
        yield* probed(maker, rng, probe, kind < 0.9 ? 'silent' : kind < 0.98 ? 'closed' : 'open')
        maker.clock.micros += Math.round(logUniform(rng, 500, 20_000))
      }
    },
  },
  {
    name: 'password-guessing',
    title: 'password guessing (SSH)',
    unit: 'attempts',
    lowest: 1,
    highest: 300,
    // a neighbor tries passwords on the device's SSH server, which closes after six (MaxAuthTries)
    *frames(size, { device, neighbour }, rng, maker) {
      for (let left = size; left > 0; left -= 6) {
        const ssh = createConnection(maker, rng, {
          client: { ...neighbour, port: ephemeralPort(rng) },
          server: { ...device, port: 22 },
          roundTripMicros: logUniform(rng, 300, 3_000),
          packetGapMicros: 100,
        })
        yield* sshLogin(ssh, Math.min(left, 6), rng, maker)
        maker.clock.micros += Math.round(logUniform(rng, 1_000, 100_000))
      }
    },
  },
  {
    name: 'download',
    title: 'download',
    unit: 'bytes',
    lowest: 1,
    highest: 10_000_000,
    *frames(size, site, rng, maker) {
      const tls = outsideConnection(site, rng, maker, 443)
      yield* tlsHandshake(tls, rng)
      yield* tls.send('client', 200 + rng.nextBelow(300))
      yield* tls.send('server', size)
      yield* tls.close()
    },
  },
  {
    name: 'upload',
    title: 'upload, open connection',
    unit: 'bytes',
    lowest: 1,
    highest: 10_000_000,
    // the connection behaves as usual, and once in between the data are sent
    *frames(size, site, rng, maker) {
      const { serverPort, intervalMicros, exchanges } = site.openConnection
      const connection = outsideConnection(site, rng, maker, serverPort)
      const uploadAt = rng.nextBelow(exchanges.length)
      yield* connection.open()
      for (const [i, { request, answer }] of exchanges.entries()) {
        yield* connection.send('client', request)
        yield* connection.send('server', answer)
        if (i === uploadAt) yield* connection.send('client', size)
        yield* connection.acknowledge()
        maker.clock.micros += Math.round(intervalMicros * (0.95 + 0.1 * rng.nextFloat()))
      }
    },
  },
  {
    name: 'beacon',
    title: 'beacon, every minute',
    unit: 'bytes',
    lowest: 1,
    highest: 100_000,
    // a short connection to the same host outside; as many bytes each way
    *frames(size, site, rng, maker) {
      const port = BEACON_PORTS[rng.nextBelow(BEACON_PORTS.length)]!
      const server = outsideHost(site, rng, port)
      for (let i = 0; i < 5; i++) {
        const start = maker.clock.micros
        const connection = outsideConnection(site, rng, maker, port, server)
        yield* connection.open()
        yield* connection.send('client', size)
        yield* connection.send('server', size)
        yield* connection.close()
        maker.clock.micros = start + Math.round(60_000_000 * (0.95 + 0.1 * rng.nextFloat()))
      }
    },
  },
  {
    name: 'flood',
    title: 'UDP flood, 5 s',
    unit: 'packets/s',
    lowest: 1,
    highest: 10_000,
    // the device takes part in an attack on a host outside
    *frames(size, site, rng, maker) {
      const from = { ...site.device, port: ephemeralPort(rng) }
      const to = outsideHost(site, rng, 1 + rng.nextBelow(65_535))
      const bytes = FLOOD_PAYLOADS[rng.nextBelow(FLOOD_PAYLOADS.length)]!
      const start = maker.clock.micros
      const packets = 5 * size
      for (let i = 0; i < packets; i++) {
        maker.clock.micros = start + Math.floor((i * 1e6) / size)
        yield maker.udp(from, to, bytes)
      }
    },
  },
  {
    name: 'dns-tunnel',
    title: 'tunnel in DNS',
    unit: 'bytes of name',
    lowest: 12,
    highest: 250,
    *frames(size, site, rng, maker) {
      for (let i = 0; i < 10; i++) {
        const from = { ...site.device, port: ephemeralPort(rng) }
        const to = { ...site.resolver, port: 53 }
        const id = rng.nextBelow(65_536)
        const name = tunnelName(size, rng)
        yield maker.udp(from, to, dnsMessage(id, name, null))
        maker.clock.micros += Math.round(outsideRoundTrip(site, rng))
        // the answers carry little: the data go out
        yield maker.udp(to, from, dnsMessage(id, name, 5 + rng.nextBelow(20)))
        maker.clock.micros += Math.round(logUniform(rng, 50_000, 500_000))
      }
    },
  },
]

/** telnet and SSH, what Mirai and its kin look for. */
const SCANNED_PORTS = [23, 2323, 22, 80, 8080, 5555]
const BEACON_PORTS = [443, 80, 8080, 4444]
/** Bytes; 512 is Mirai's. */
const FLOOD_PAYLOADS = [18, 512, 1024, 1400]

type Probe = Pick<Parameters<typeof createConnection>[2], 'client' | 'server' | 'roundTripMicros'>

/** A SYN and what comes of it: nothing, RST, or SYN-ACK and RST. */
function* probed(
  maker: PacketMaker,
  rng: Rng,
  { client, server, roundTripMicros }: Probe,
  port: 'silent' | 'closed' | 'open',
): Iterable<MadeFrame> {
  const sequence = rng.nextUint32()
  const acknowledgement = (sequence + 1) % 2 ** 32
  const segment = (from: MadeEnd, to: MadeEnd, flags: number, sequence: number): MadeFrame =>
    maker.tcp(from, to, { flags, sequence, acknowledgement, bytes: 0, options: 'mss' })
  yield segment(client, server, SYN, sequence)
  if (port === 'silent') return
  maker.clock.micros += Math.round(roundTripMicros)
  if (port === 'closed') {
    yield segment(server, client, RST | ACK, 0)
    return
  }
  yield segment(server, client, SYN | ACK, rng.nextUint32())
  maker.clock.micros += 60
  yield segment(client, server, RST, acknowledgement)
}

/** Sizes as for OpenSSH 9 with hydra's libssh; a refusal takes about two seconds (PAM). */
function* sshLogin(ssh: MadeConnection, attempts: number, rng: Rng, maker: PacketMaker): Iterable<MadeFrame> {
  yield* ssh.open()
  yield* ssh.send('server', 21 + rng.nextBelow(20))
  yield* ssh.send('client', 21 + rng.nextBelow(10))
  yield* ssh.send('client', 900 + rng.nextBelow(600))
  yield* ssh.send('server', 1000 + rng.nextBelow(120))
  yield* ssh.send('client', 48)
  yield* ssh.send('server', 400 + rng.nextBelow(250))
  // new keys, the service, and which methods there are
  yield* ssh.send('client', 60)
  yield* ssh.send('server', 44)
  yield* ssh.send('client', 60)
  yield* ssh.send('server', 52)
  for (let i = 0; i < attempts; i++) {
    yield* ssh.send('client', 68 + 16 * rng.nextBelow(6))
    yield* ssh.acknowledge()
    maker.clock.micros += Math.round(logUniform(rng, 1_500_000, 3_000_000))
    yield* ssh.send('server', 52)
  }
  yield* ssh.close()
}

/** TLS 1.3 with a certificate of a usual size (RFC 8446). */
function* tlsHandshake(tls: MadeConnection, rng: Rng): Iterable<MadeFrame> {
  yield* tls.open()
  yield* tls.send('client', 300 + rng.nextBelow(250))
  yield* tls.send('server', 2_000 + rng.nextBelow(2_500))
  yield* tls.send('client', 64 + rng.nextBelow(20))
}

function outsideConnection(
  site: MadeSite,
  rng: Rng,
  maker: PacketMaker,
  port: number,
  server = outsideHost(site, rng, port),
): MadeConnection {
  return createConnection(maker, rng, {
    client: { ...site.device, port: ephemeralPort(rng) },
    server,
    roundTripMicros: outsideRoundTrip(site, rng),
    packetGapMicros: logUniform(rng, 20, 1_000),
  })
}

function outsideRoundTrip({ roundTripMicros: { low, high } }: MadeSite, rng: Rng): number {
  return logUniform(rng, low, high)
}

/** Some host beyond the router, 8 to 20 hops away. */
function outsideHost({ device, routerMac }: MadeSite, rng: Rng, port: number): MadeEnd {
  const address = new Uint8Array(device.address.length)
  const word = rng.nextUint32()
  if (address.length === 4) address.set([198, 18 + (word & 1)])
  else address.set([0x20, 0x01, 0, 2])
  address.set([word >>> 24, 1 + (((word >>> 16) & 0xff) % 254)], address.length - 2)
  return { address, mac: routerMac, hopLimit: 44 + rng.nextBelow(13), port }
}

/** As Linux gives them. */
function ephemeralPort(rng: Rng): number {
  return 32_768 + rng.nextBelow(28_232)
}

/** A name of the given length: hexadecimal labels of at most 61 characters under a short domain. */
function tunnelName(length: number, rng: Rng): string {
  const domain = '.t.example'
  const last = length - domain.length - 1
  let data = ''
  for (let i = 0; i <= last; i++) data += i % 61 === 60 && i < last ? '.' : rng.nextBelow(16).toString(16)
  return data + domain
}

function host(address: readonly number[], macEnd: number, hopLimit: number): MadeHost {
  return { address: Uint8Array.from(address), mac: macOf(macEnd), hopLimit }
}

/** Locally administered. */
function macOf(end: number): Uint8Array {
  return Uint8Array.of(2, 0, 0, 0, 0, end)
}
