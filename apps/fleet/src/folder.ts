/**
 * The folder of a server: its certificates, the keys of its users and its configuration.
 *
 *     ca.pem, ca.key          the authority that signs the server's certificate
 *     server.pem, server.key  the certificate, made again when names are added or it is about to expire
 *     admin.seed              the login of oddflow-fleet
 *     gateways.url            where gateways connect, as serve was started last
 *     page.token              the token of the page and of the metrics
 *     gateways/NAME           a line of JSON for each gateway; without the file, the gateway cannot log in
 *     users.conf              all users, written from these files
 *     server.conf             of nats-server; written once
 *     cluster.conf            the same for one of three servers
 *     store/                  the streams
 *
 * The folder's keys make their reader the operator, so only its owner can read it.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes, X509Certificate } from 'node:crypto'
import {
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { hostname, networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { nkeys } from '@nats-io/transport-node'
import { OddFlowError } from '@oddflow/core'
import { fileError, isFleetName, UsageError, writeFileWhole } from '@oddflow/program'
import { z } from 'zod'
import { permissionsOf, sharedSubjects } from './gateways.js'

const AUTHORITY_DAYS = 36_500
const CERTIFICATE_DAYS = 3650
/** A certificate that expires sooner is made again at the start. */
const RENEWAL_DAYS = 90
/** For TLS and for the login: after a restart all gateways come at once, and two seconds, the default, can be too short for each of them. */
const LOGIN_SECONDS = 30
const DAY_MILLIS = 86_400_000

const SERVER_CONF = `# Written once by oddflow-fleet; you may change it. The users are in users.conf, which oddflow-fleet writes.
tls { cert_file: "server.pem", key_file: "server.key", timeout: ${LOGIN_SECONDS} }
jetstream { store_dir: "store" }
include "users.conf"
`
/** Not by options on the command line: nats-server reloads no configuration that they change. */
const CLUSTER_CONF = `# Written once by oddflow-fleet, for each of three servers. Names in capitals are in the environment.
server_name: $NAME
listen: $LISTEN
tls { cert_file: "server.pem", key_file: "server.key", timeout: ${LOGIN_SECONDS} }
jetstream { store_dir: $STORE }
include "users.conf"
cluster {
  name: "oddflow"
  listen: $CLUSTER
  tls { cert_file: "server.pem", key_file: "server.key", ca_file: "ca.pem", verify: true }
  routes: [ $ROUTE_1, $ROUTE_2 ]
}
`

/** Creates what is missing. @param hosts - further names and addresses by which gateways reach the server. */
export function prepareFolder(folder: string, hosts: readonly string[], tell: Tell): Users {
  const at = (name: string): string => join(folder, name)
  // of versions without accounts; a server of such a version may run still, so nothing is moved here
  const [before, now] = [at('store/jetstream/$G'), at(`store/jetstream/${STREAMS_ACCOUNT}`)]
  if (existsSync(before) && !existsSync(now)) {
    throw new UsageError(
      `the events are in ${before}: stop the server of ${folder}, then run: mv '${before}' '${now}'`,
    )
  }
  try {
    mkdirSync(at('gateways'), { recursive: true, mode: 0o700 })
    if (!existsSync(at('ca.pem'))) makeAuthority(folder)
    const names = namesOf(hosts)
    if (!isCertificateGood(at('server.pem'), names)) makeCertificate(folder, names)
    if (!existsSync(at('admin.seed'))) writeSeed(at('admin.seed'), nkeys.createUser())
    if (!existsSync(at('page.token'))) {
      writeFileSync(at('page.token'), `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600 })
    }
    if (!existsSync(at('server.conf'))) writeFileWhole(at('server.conf'), SERVER_CONF)
    if (!existsSync(at('cluster.conf'))) writeFileWhole(at('cluster.conf'), CLUSTER_CONF)
    return writeUsers(folder, tell)
  } catch (error) {
    throw fileError('write', folder, error)
  }
}

export interface Users {
  readonly gateways: readonly string[]
  /** `usersChanged` before they were read. */
  readonly changed: number
}

/** Another number when a gateway was enrolled or removed. */
export const usersChanged = (folder: string): number => statSync(join(folder, 'gateways')).mtimeMs

/** The login of oddflow-fleet. */
export const loginOf = (folder: string) => ({
  seed: join(folder, 'admin.seed'),
  ca: join(folder, 'ca.pem'),
})

/** The URL by which gateways reach the server that runs with the folder, or would with the default port. */
export function gatewaysUrlIn(folder: string): string {
  const path = join(folder, 'gateways.url')
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : `tls://${hostname()}:4222`
}

/** Keeps the URL for `enroll`. */
export const writeGatewaysUrl = (folder: string, url: string): void =>
  writeFileWhole(join(folder, 'gateways.url'), `${url}\n`)

type Tell = (line: string) => void

/** The account of the streams and of oddflow-fleet, and that of all gateways. */
const STREAMS_ACCOUNT = 'FLEET'
const GATEWAYS_ACCOUNT = 'GATEWAYS'

/**
 * Writes users.conf from the gateways' files. A file that is not a gateway's is reported and left out. The gateways
 * have an account without streams and API: the server answers to any subject that a request names as its reply, so in
 * the streams' account a gateway could name a request that removes a stream.
 */
export function writeUsers(folder: string, tell: Tell): Users {
  const changed = usersChanged(folder)
  const gateways = gatewaysIn(folder, tell)
  const listOf = (values: readonly object[]): string =>
    `[\n${values.map((value) => `    ${JSON.stringify(value)}\n`).join('')}  ]`
  const admin = { nkey: publicKeyIn(join(folder, 'admin.seed')) }
  const { services, streams } = sharedSubjects()
  const shared = <T>(of: (subject: string) => T): object[] => [
    ...services.map((subject) => ({ service: of(subject) })),
    ...streams.map((subject) => ({ stream: of(subject) })),
  ]
  writeFileWhole(
    join(folder, 'users.conf'),
    `authorization { timeout: ${LOGIN_SECONDS} }
accounts {
  ${STREAMS_ACCOUNT} { jetstream: enabled, users: ${listOf([admin])}, exports: ${listOf(shared((subject) => subject))} }
  ${GATEWAYS_ACCOUNT} { users: ${listOf(gateways.map(userOf))}, imports: ${listOf(shared((subject) => ({ account: STREAMS_ACCOUNT, subject })))} }
}
`,
  )
  return { gateways: gateways.map(({ name }) => name), changed }
}

interface EnrolledGateway {
  readonly name: string
  readonly nkey: string
  /** Whose models it takes too. */
  readonly group: string | null
}

const userOf = ({ name, nkey, group }: EnrolledGateway) => ({ nkey, permissions: permissionsOf(name, group) })
const gatewayFile = z.object({
  nkey: z.string().regex(/^U[A-Z2-7]{55}$/),
  group: z.string().refine(isFleetName).nullable(),
})

/** Sorted by name. */
function gatewaysIn(folder: string, tell: Tell): EnrolledGateway[] {
  const gateways: EnrolledGateway[] = []
  for (const name of readdirSync(join(folder, 'gateways')).filter(isFleetName).sort()) {
    const path = join(folder, 'gateways', name)
    try {
      gateways.push({ name, ...gatewayFile.parse(JSON.parse(readFileSync(path, 'utf8'))) })
    } catch {
      tell(
        `${path}: expected {"nkey":"U…","group":null}; this gateway cannot log in: remove the file and enroll it again`,
      )
    }
  }
  return gateways
}

/**
 * Makes the key of a gateway, writes its seed to a new file that only its owner may read, and lets it log in: it may write
 * its own events, status and state of its model, read the models that are offered to it and its group, and nothing else.
 */
export function enroll(folder: string, name: string, seedFile: string, group: string | null): void {
  for (const each of group === null ? [name] : [name, group]) {
    if (!isFleetName(each)) {
      throw new UsageError(`${each}: expected at most 63 lowercase letters, digits and hyphens`)
    }
  }
  if (!existsSync(join(folder, 'gateways'))) {
    throw new UsageError(`${folder}: is not a fleet folder; run oddflow-fleet serve first`)
  }
  const key = nkeys.createUser()
  const path = join(folder, 'gateways', name)
  const whole = join(folder, 'gateways', `.${name}.${process.pid}`)
  try {
    writeFileSync(whole, `${JSON.stringify({ nkey: key.getPublicKey(), group })}\n`, { mode: 0o600 })
    // root may enroll for a server that runs as another user
    const { uid, gid } = statSync(join(folder, 'gateways'))
    chownSync(whole, uid, gid)
    linkSync(whole, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw fileError('write', path, error)
    throw new UsageError(`${name}: is enrolled already; remove ${path} first to give it another key`)
  } finally {
    rmSync(whole, { force: true })
  }
  try {
    writeSeed(seedFile, key)
  } catch (error) {
    rmSync(path)
    throw fileError('write', seedFile, error)
  }
}

function writeSeed(path: string, key: ReturnType<typeof nkeys.createUser>): void {
  writeFileSync(path, `${new TextDecoder().decode(key.getSeed())}\n`, { mode: 0o600, flag: 'wx' })
}

function publicKeyIn(seedFile: string): string {
  return nkeys.fromSeed(new TextEncoder().encode(readFileSync(seedFile, 'utf8').trim())).getPublicKey()
}

/** This machine's own names and addresses are always among them. */
function namesOf(hosts: readonly string[]): string[] {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  // a link-local address has a zone, which certificates do not know
  const addresses = own.map(({ address }) => address).filter((address) => !/^fe80:/i.test(address))
  return [...new Set(['localhost', '127.0.0.1', hostname(), ...hosts, ...addresses])]
}

const isAddress = (name: string): boolean => /^[\d.]+$|:/.test(name)

function isCertificateGood(path: string, names: readonly string[]): boolean {
  if (!existsSync(path)) return false
  const certificate = new X509Certificate(readFileSync(path))
  const daysLeft = (Date.parse(certificate.validTo) - Date.now()) / DAY_MILLIS
  const covers = (name: string): boolean =>
    (isAddress(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined
  return daysLeft > RENEWAL_DAYS && names.every(covers)
}

function makeAuthority(folder: string): void {
  openssl(folder, [
    ...['-keyout', 'ca.key', '-out', 'ca.pem', '-days', String(AUTHORITY_DAYS), '-subj', '/CN=OddFlow fleet'],
    ...['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign'],
  ])
}

function makeCertificate(folder: string, names: readonly string[]): void {
  for (const name of names) {
    if (!/^[A-Za-z0-9.:_-]{1,253}$/.test(name)) {
      throw new UsageError(`--host: ${name}: expected a host name or an IP address`)
    }
  }
  const subjects = names.map((name) => `${isAddress(name) ? 'IP' : 'DNS'}:${name}`).join(',')
  openssl(folder, [
    ...['-CA', 'ca.pem', '-CAkey', 'ca.key', '-keyout', 'server.key', '-out', 'server.pem'],
    ...['-days', String(CERTIFICATE_DAYS), '-subj', '/CN=OddFlow fleet server'],
    ...['-addext', `subjectAltName=${subjects}`, '-addext', 'basicConstraints=critical,CA:FALSE'],
    ...['-addext', 'extendedKeyUsage=serverAuth,clientAuth'],
  ])
}

function openssl(folder: string, options: readonly string[]): void {
  const key = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  try {
    execFileSync('openssl', [...key, ...options], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  } catch (error) {
    const { code, stderr } = error as NodeJS.ErrnoException & { stderr?: Buffer }
    const reason =
      code === 'ENOENT' ? 'not found; install OpenSSL 3' : String(stderr).trim().split('\n').at(-1)
    throw new OddFlowError('fleet.openssl', `openssl: ${reason}`)
  }
}
