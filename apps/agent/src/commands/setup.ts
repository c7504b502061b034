/**
 * `oddflow-agent setup`: asks three questions (the interface, where to report incidents, who approves devices), checks and writes the
 * configuration, installs and starts the service if wanted, and prints a link to the dashboard that signs in once.
 *
 * Each question has a flag, and `--yes` asks nothing. An existing configuration is replaced after a question or with `--replace`, and
 * kept as FILE.old. Typed secrets go into files beside the configuration that only root and the agent's group can read.
 */
import { execFile, execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { FileError, fileError, printable, UsageError } from '@oddflow/program'
import { stringify } from 'yaml'
import { parseConfig } from '../config/read-config.js'
import { interfaceText, isInterfaceName, settingsFrom } from '../config/settings-from.js'
import { askAgent, ControlError } from '../devices/control-socket.js'
import { userId } from '../files/rights.js'
import { PACKAGE_FOLDER } from '../version.js'
import { interfaceNames } from './doctor.js'
import { type StateOptions, stateOf } from './state-of.js'

export interface SetupOptions {
  readonly config: string
  readonly interface?: string
  readonly tell?: string
  readonly passwordFile?: string
  readonly approve?: 'auto' | 'manual'
  readonly service?: boolean
  readonly replace?: boolean
  readonly yes?: boolean
  readonly root: string
  /** The forms of `tell`, one per line. */
  readonly places: string
}

const SERVICE = 'oddflow-agent.service'
const LISTEN = '127.0.0.1:9477'
const LINK_PATIENCE_MILLIS = 15_000

export async function setup(options: SetupOptions): Promise<void> {
  const config = resolve(options.config)
  const questions = createQuestions(options.yes === true)
  try {
    const isReplaced = existsSync(inRoot(options, config))
    if (isReplaced && options.replace !== true) {
      if (options.yes === true)
        throw new UsageError(`${config}: exists already; give --replace to replace it`)
      if (
        !(await questions.ask(
          `${config} exists already. Replace it and keep the old file as .old?`,
          'no',
          isYes,
        ))
      ) {
        say('Nothing was changed.')
        return
      }
    }
    checkText(config, configText(config, 'lo', [], 'auto'))
    const given = options.tell === undefined ? null : placeOf(options.tell, options)
    const name =
      options.interface === undefined
        ? await questions.interface()
        : checkedInterface(options.interface, '--interface: ')
    const told = await questions.told(options, given)
    const approve = options.approve ?? (await questions.approve())
    const { files } = told
    const text = configText(config, name, told.outputs, approve)
    checkText(config, text)
    writeAll(options, config, { ...files, [config]: text })
    say(`${config} was written.`)
    const there = options.root === '/' ? await interfaceNames() : null
    if (there !== null && name !== 'any' && !there.includes(name)) {
      say(`Interface ${name} does not exist now; "ip link" lists the interfaces.`)
    }
    if (told.note !== '') say(told.note)
    const isStarted = await service(options, questions, config, Object.keys(files))
    await sayLink(options, config, isStarted)
  } finally {
    questions.close()
  }
}

function say(line: string): void {
  process.stdout.write(`${printable(line)}\n`)
}

/** Whether the terminal shows typed characters. */
function echo(how: 'echo' | '-echo'): void {
  execFileSync('stty', [how], { stdio: ['inherit', 'ignore', 'ignore'] })
}

function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer)
}

/** A path in the system that is set up. */
function inRoot({ root }: Pick<SetupOptions, 'root'>, path: string): string {
  return root === '/' ? path : join(root, path)
}

interface Told {
  readonly outputs: readonly object[]
  /** Contents by path. */
  readonly files: Readonly<Record<string, string>>
  readonly note: string
  /** Whose password is to be asked for, and the file that it goes to. */
  readonly login?: { readonly user: string; readonly file: string }
}

type Questions = ReturnType<typeof createQuestions>

function createQuestions(isSilent: boolean) {
  let lines: Interface | null = null
  let answers: AsyncIterator<string> | null = null
  const read = async (question: string, otherwise: string, isSecret: boolean): Promise<string> => {
    if (lines === null) {
      lines = createInterface({ input: process.stdin, terminal: false })
      answers = lines[Symbol.asyncIterator]()
    }
    const isHidden = isSecret && process.stdin.isTTY
    if (isHidden) echo('-echo')
    process.stdout.write(`${question}${otherwise === '' ? '' : ` [${otherwise}]`} `)
    const { value, done } = (await answers?.next()) ?? { value: undefined, done: true }
    if (isHidden) echo('echo')
    if (isHidden || !process.stdin.isTTY) process.stdout.write('\n')
    if (done === true)
      throw new UsageError(
        'the input ended before all questions were answered; give options, or --yes for the defaults',
      )
    return value.trim() === '' ? otherwise : value.trim()
  }
  /** Asks again while `check` throws UsageError for the answer. */
  const ask = async <T>(
    question: string,
    otherwise: string,
    check: (answer: string) => T,
    isSecret = false,
  ): Promise<T> => {
    for (;;) {
      const answer = isSilent ? otherwise : await read(question, otherwise, isSecret)
      try {
        return check(answer)
      } catch (error) {
        if (isSilent || !(error instanceof UsageError)) throw error
        say(error.message)
      }
    }
  }
  return {
    ask,
    async interface(): Promise<string> {
      const { names, likely } = await interfacesHere()
      const choices = names.map((name, i) => `  ${i + 1}  ${name}`).join('\n')
      return ask(
        `Which interface carries the traffic of your devices?\n${choices}\n>`,
        likely,
        (answer) => names[Number(answer) - 1] ?? checkedInterface(answer, isSilent ? '--interface: ' : ''),
      )
    },
    /** @param given - the place of --tell; null: it is asked for. */
    async told(options: SetupOptions, given: Told | null): Promise<Told> {
      const question = `Where should the agent report incidents?\n${options.places}\n>`
      const told = given ?? (await ask(question, 'none', (answer) => placeOf(answer, options)))
      if (told.login === undefined) return told
      const { user, file } = told.login
      if (isSilent)
        throw new UsageError(`--tell: the user ${user} needs a password; give --password-file too`)
      const password = await ask(`Password of ${user}:`, '', neededPassword, true)
      return { ...told, files: { [file]: `${password}\n` } }
    },
    approve: () =>
      ask(
        'Who approves a device when its model is ready: auto (the agent, so no device stays unwatched) or manual (you)?',
        'auto',
        (answer) => {
          if (answer === 'auto' || answer === 'manual') return answer
          throw new UsageError(`${answer}: expected auto or manual`)
        },
      ),
    close: () => lines?.close(),
  }
}

/** Throws UsageError, which begins with `place`. */
function checkedInterface(name: string, place: string): string {
  if (isInterfaceName(name)) return name
  throw new UsageError(`${place}${interfaceText(name)}`)
}

function neededPassword(answer: string): string {
  if (answer !== '') return answer
  throw new UsageError('expected a password')
}

/** All but the loopback, and the likely one for devices: a bridge, else an interface without the default route. */
async function interfacesHere(): Promise<{ names: string[]; likely: string }> {
  const names = ((await interfaceNames()) ?? []).filter((name) => name !== 'lo')
  const routes = await readFile('/proc/net/route', 'utf8').catch(() => '')
  const outward = /^(\S+)\s+00000000\s/m.exec(routes)?.[1]
  const likely =
    names.find((name) => /^br(-|\d)/.test(name)) ?? names.find((name) => name !== outward) ?? outward ?? ''
  return { names, likely }
}

/** The output for an answer, as a run would take it. Throws UsageError. */
function placeOf(given: string, options: SetupOptions): Told {
  const told = toldBy(given, options)
  const config = resolve(options.config)
  checkText(config, configText(config, 'lo', told.outputs, 'auto'))
  return told
}

function toldBy(given: string, { config, passwordFile }: SetupOptions): Told {
  const of = (output: object, more: Partial<Told> = {}): Told => ({
    outputs: [output],
    files: {},
    note: '',
    ...more,
  })
  if (given === 'none') return { outputs: [], files: {}, note: '' }
  if (given === 'ntfy') {
    const url = `https://ntfy.sh/oddflow-${randomBytes(12)
      .toString('base64url')
      .replace(/[^A-Za-z0-9]/g, 'x')}`
    const note = `Subscribe to the topic ${url} in the ntfy app. Anyone who knows its name can read your incidents.`
    return of({ kind: 'ntfy', url }, { note })
  }
  const address = given.replace(/^webhook:/, '')
  const isWebhook = address !== given
  if (!URL.canParse(address)) throw new UsageError(`${given}: expected none, ntfy or a URL`)
  const url = new URL(address)
  if (isWebhook && (!/^https?:$/.test(url.protocol) || url.username !== ''))
    throw new UsageError(`${given}: expected webhook: and a URL of http or https without a user`)
  const secret = join(dirname(resolve(config)), 'tell.secret')
  if (/^(mqtt|smtp)s?:$/.test(url.protocol)) {
    const { username: user } = url
    const own = passwordFile === undefined ? secret : resolve(passwordFile)
    const login = user === '' ? {} : { username: decoded(user, given), passwordFile: own }
    const more = user === '' || passwordFile !== undefined ? {} : { login: { user, file: secret } }
    const server = `${url.protocol}//${url.host}`
    if (url.protocol.startsWith('mqtt')) return of({ kind: 'mqtt', url: server, ...login }, more)
    const to = url.searchParams.getAll('to')
    if (to.length === 0) throw new UsageError(`${given}: add the recipient, such as ?to=me@example.org`)
    return of({ kind: 'mail', url: server, ...login, from: url.searchParams.get('from') ?? to[0], to }, more)
  }
  const preset = presetOf(url)
  if (preset === null && !isWebhook) return of({ kind: 'ntfy', url: given })
  // the URL itself is secret
  return of(
    { kind: 'webhook', ...(preset === null ? {} : { preset }), urlFile: secret },
    { files: { [secret]: `${address}\n` } },
  )
}

/** Throws UsageError. */
function decoded(user: string, given: string): string {
  try {
    return decodeURIComponent(user)
  } catch {
    throw new UsageError(`${given}: the user ${user} has a % that no two hexadecimal digits of UTF-8 follow`)
  }
}

function presetOf({ hostname, pathname }: URL): string | null {
  if (hostname === 'hooks.slack.com') return 'slack'
  if (/(^|\.)discord(app)?\.com$/.test(hostname) && pathname.startsWith('/api/webhooks/')) return 'discord'
  return /\.(webhook\.office\.com|logic\.azure\.com|api\.powerplatform\.com)$/.test(hostname) ? 'teams' : null
}

/** The folders of the systemd unit; beside the configuration if that is not in /etc. */
function placesOf(config: string): { eve: string; state: string } {
  return config.startsWith('/etc/')
    ? { eve: '/var/log/oddflow-agent/eve.json', state: '/var/lib/oddflow-agent' }
    : { eve: join(dirname(config), 'eve.json'), state: join(dirname(config), 'state') }
}

function configText(
  config: string,
  name: string,
  outputs: readonly object[],
  approve: 'auto' | 'manual',
): string {
  const keys = {
    interface: name,
    ...placesOf(config),
    models: { per: 'device' },
    devices: { approve },
    listen: LISTEN,
    dashboard: {},
    ...(outputs.length === 0 ? {} : { outputs }),
  }
  return `# Written by oddflow-agent setup. All keys: the README of oddflow-agent.\n${stringify(keys)}`
}

/** Throws UsageError as a run would. */
function checkText(config: string, text: string): void {
  const read = parseConfig(text)
  const [error] = read.errors
  if (error !== undefined) throw new UsageError(`not a valid configuration: ${error.message}`)
  settingsFrom({ config, fold: true }, read)
}

/** Throws FileError. */
function writeAll(options: SetupOptions, config: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    const whole = inRoot(options, path)
    const fresh = `${whole}.${randomBytes(6).toString('hex')}`
    try {
      mkdirSync(dirname(whole), { recursive: true })
      writeFileSync(fresh, text, { mode: path === config ? 0o644 : 0o640, flag: 'wx' })
      if (existsSync(whole)) renameSync(whole, `${whole}.old`)
      renameSync(fresh, whole)
    } catch (error) {
      throw fileError('write', path, error)
    }
  }
}

/** Installs and starts the service if wanted. Resolves to true if it runs now. */
async function service(
  options: SetupOptions,
  questions: Questions,
  config: string,
  secrets: readonly string[],
): Promise<boolean> {
  const isImage = options.root !== '/'
  const hasSystemd = isImage || existsSync('/run/systemd/system')
  if (options.service === false || !hasSystemd) return false
  const refusal =
    userId() !== 0
      ? 'only root can install a service'
      : config === '/etc/oddflow/agent.yaml'
        ? null
        : 'the unit reads /etc/oddflow/agent.yaml'
  if (refusal !== null) {
    if (options.service === true) throw new UsageError(`--service: ${refusal}`)
    return false
  }
  const wants =
    options.service ?? (await questions.ask('Install and start the service (systemd)?', 'yes', isYes))
  if (!wants) return false
  const run = promisify(execFile)
  const where = isImage ? [`--root=${options.root}`] : []
  try {
    const packaged = ['/lib/systemd/system', '/usr/lib/systemd/system'].some((folder) =>
      existsSync(inRoot(options, join(folder, SERVICE))),
    )
    if (!packaged) {
      install(options, 'deploy/oddflow-agent.sysusers', '/etc/sysusers.d/oddflow-agent.conf')
      install(options, `deploy/${SERVICE}`, `/etc/systemd/system/${SERVICE}`)
      await run('systemd-sysusers', [...where, 'oddflow-agent.conf'])
    }
    giveToGroup(options, secrets)
    if (!isImage) await run('systemctl', ['daemon-reload'])
    await run('systemctl', [...where, 'enable', SERVICE])
    if (!isImage) await run('systemctl', ['restart', SERVICE])
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string }
    throw new FileError('file.service', `the service could not be installed: ${(stderr || message).trim()}`)
  }
  say(`The service ${SERVICE} ${isImage ? 'starts with the machine' : 'runs, and starts with the machine'}.`)
  return !isImage
}

function install(options: SetupOptions, from: string, to: string): void {
  const whole = inRoot(options, to)
  mkdirSync(dirname(whole), { recursive: true })
  copyFileSync(fileURLToPath(new URL(from, PACKAGE_FOLDER)), whole)
  chmodSync(whole, 0o644)
}

/** Gives files to root and the agent's group, oddflow. */
function giveToGroup(options: SetupOptions, files: readonly string[]): void {
  const groups = readFileSync(inRoot(options, '/etc/group'), 'utf8')
  const group = Number(/^oddflow:[^:]*:(\d+):/m.exec(groups)?.[1] ?? Number.NaN)
  if (Number.isNaN(group)) throw new FileError('file.group', 'there is no group oddflow')
  for (const file of files) chownSync(inRoot(options, file), 0, group)
}

/** Without the service the agent has no user, no folders and no right to record, and it refuses to run as root. */
function sayOwnUser({ root }: Pick<SetupOptions, 'root'>, config: string): void {
  if (root !== '/') return
  const { eve, state } = placesOf(config)
  const folders = [...new Set([state, dirname(eve)])].join(' ')
  say(
    'The agent refuses to run as root. Run it as a user of its own, such as oddflow (useradd --system oddflow). As root,',
  )
  say('make the folders of this user, and let tcpdump record:')
  say(`  install -d -m 700 -o oddflow -g oddflow ${folders}`)
  say('  setcap cap_net_raw+eip $(command -v tcpdump)')
  say('Then run the commands below as this user: write "sudo -u oddflow" in front.')
}

/** Prints the link to the dashboard of a running agent, else how to start one. */
async function sayLink(options: SetupOptions, config: string, isStarted: boolean): Promise<void> {
  const { state } = placesOf(config)
  for (let waited = 0; options.root === '/'; waited += 500) {
    const link = await dashboardLinkOf(state).catch(() => null)
    if (link !== null) {
      say('Open the dashboard within 5 minutes; the link signs in once:')
      say(link)
      return
    }
    if (!isStarted || waited >= LINK_PATIENCE_MILLIS) break
    await pause(500)
  }
  if (isStarted) say('The agent has not answered yet; see "journalctl -u oddflow-agent", then:')
  else {
    if (userId() === 0) sayOwnUser(options, config)
    say(`Check the machine: oddflow-agent doctor -c ${config} --try`)
    say(`Start the agent:   oddflow-agent run -c ${config}`)
  }
  say(`Open the dashboard: oddflow-agent dashboard-link -c ${config}`)
}

/** null if no agent with a dashboard runs. */
async function dashboardLinkOf(state: string): Promise<string | null> {
  const answer = (await askAgent(state, '/dashboard')) as { link: string } | null
  return answer?.link ?? null
}

/** `oddflow-agent dashboard-link` */
export async function dashboardLink(options: StateOptions): Promise<void> {
  const state = await stateOf(options)
  const link = await dashboardLinkOf(state)
  if (link === null) {
    throw new ControlError(
      'control.nothing',
      `${state}: no agent with a dashboard is running; start it first`,
    )
  }
  process.stdout.write(`${link}\n`)
}
