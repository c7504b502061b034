/**
 * A machine behind ssh: the bundle is copied into a folder of its own there, its hash is checked by the Node that is
 * to run it, its results come back over the connection, and the folder goes, whatever happened.
 *
 * The folder belongs to a connection of its own, whose far end, the keeper, makes it, says its name, and removes it as
 * soon as its input ends: when the work is done, and also when this process dies. The program ends when its own
 * connection does, between two items; the keeper ends one that does not, with all that it started, before the folder
 * goes. Should no end of a connection ever be seen there (a cable was pulled), both have a limit of time of their own,
 * where that machine has `timeout`.
 * Should the keeper fail, the folder is removed from here, and an error says where it stands if that fails too. Host
 * keys are always checked, nothing is forwarded, nothing is asked for on a terminal. A remote command is a string for a
 * shell, so its words are quoted one by one and its scripts are constants.
 */
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import {
  completeRun,
  type ProcessOutcome,
  type ProgramOptions,
  programArguments,
  runProcess,
  runProgram,
  TargetError,
  type TargetRun,
  whyFailed,
} from './reach.js'
import type { SshTarget } from './target.js'
import { PROGRAM_FILE, WORK_FILE } from './work.js'

/** For what is not the work itself. */
const CONNECT_SECONDS = 20
const HOUSEKEEPING_MILLIS = 60_000
const HOUSEKEEPING_BYTES = 10_000
/** What is given to the far end above the time that is waited for here. */
const GRACE_SECONDS = 60

/**
 * $0: where the folder is to be made; $1: seconds. The process that the folder's `pid` names leads a group where
 * `timeout` started it, or where sshd did. A number that the system has given to another program since is left alone.
 */
const KEEP_FOLDER = `umask 077
d=$(mktemp -d "$0/oddflow-bench.XXXXXXXXXX") || exit 1
finish() {
  p=$(cat "$d/pid" 2>/dev/null)
  case $p in
    ''|*[!0-9]*) ;;
    *)
      if [ ! -r "/proc/$p/cmdline" ] || grep -qF -- "$d" "/proc/$p/cmdline"; then
        kill -9 "-$p" 2>/dev/null || kill -9 "$p" 2>/dev/null
      fi ;;
  esac
  rm -rf -- "$d"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
printf '%s\\n' "$d"
if timeout -s KILL 5 true 2>/dev/null; then timeout -s KILL "$1" cat > /dev/null; else cat > /dev/null; fi`
/** $0: the folder; $1: seconds; then the program. Busybox of old has a `timeout` that takes no such words. */
const RUN_PROGRAM = `echo $$ > "$0/pid" || exit 1
s=$1
shift
if timeout -s KILL 5 true 2>/dev/null; then exec timeout -s KILL "$s" "$@"; fi
exec "$@"`
const HASHES =
  'const{createHash}=require("node:crypto"),{readFileSync}=require("node:fs");for(const f of process.argv.slice(1))console.log(createHash("sha256").update(readFileSync(f)).digest("hex"))'
const BROUGHT_NODE = 'node'

/** Throws TargetError that begins with the target's name. */
export async function runSsh(target: SshTarget, options: ProgramOptions): Promise<TargetRun> {
  const { name, bringNode } = target
  if (bringNode !== undefined && !existsSync(bringNode)) {
    throw new TargetError('target', `${name}: ${bringNode} is not there`)
  }
  const keeper = await keepFolder(target)
  const work = runInFolder(target, options, keeper.folder)
  const failure = await work.then(
    () => null,
    (error: unknown) => error,
  )
  const left = await keeper.remove()
  if (left !== null && (failure === null || failure instanceof TargetError)) {
    const first = failure === null ? `${name}:` : `${failure.message};`
    throw new TargetError('target', `${first} ${left}`)
  }
  return work
}

async function runInFolder(target: SshTarget, options: ProgramOptions, folder: string): Promise<TargetRun> {
  const { name, bringNode } = target
  await copy(target, options, folder)
  const node = bringNode === undefined ? (target.node ?? 'node') : `${folder}/${BROUGHT_NODE}`
  await checkHashes(target, options, folder, node)
  const seconds = `${target.timeoutSeconds + GRACE_SECONDS}`
  const program = [node, `${folder}/${PROGRAM_FILE}`, ...programArguments(options, name)]
  const words = ['sh', '-c', RUN_PROGRAM, folder, seconds, ...program]
  const [command, args] = sshCommand(target, words)
  return completeRun(name, await runProgram(command, args, options))
}

interface Keeper {
  readonly folder: string
  /** null when it is gone; otherwise what a person has to know. */
  remove(): Promise<string | null>
}

async function keepFolder(target: SshTarget): Promise<Keeper> {
  let release = (): void => {}
  let say = (_: string): void => {}
  const until = new Promise<void>((resolve) => {
    release = resolve
  })
  const said = new Promise<string>((resolve) => {
    say = resolve
  })
  // as long as copying and running may take
  const seconds = 2 * target.timeoutSeconds + (4 * HOUSEKEEPING_MILLIS) / 1000
  const words = ['sh', '-c', KEEP_FOLDER, target.directory, `${seconds + GRACE_SECONDS}`]
  const [command, args] = sshCommand(target, words)
  const ended = runProcess(command, args, {
    timeoutMillis: seconds * 1000,
    maximumOutputBytes: HOUSEKEEPING_BYTES,
    onLine: say,
    until,
  })
  const first = await Promise.race([said, ended])
  if (typeof first !== 'string') throw new TargetError('target', `${target.name}: ${whyFailed(first)}`)
  const folder = ownFolder(target, first.replace(/\r$/, ''))
  if (folder === null) {
    release()
    await ended
    throw new TargetError(
      'target',
      `${target.name}: expected the name of a new folder in ${target.directory}, found ${JSON.stringify(first.slice(0, 80))}`,
    )
  }
  return {
    folder,
    async remove() {
      release()
      const outcome = await ended
      if (outcome.ended === null && outcome.code === 0) return null
      const answer = await remote(target, ['rm', '-rf', '--', folder])
      if (answer.ended === null && answer.code === 0) return null
      return `${folder} may have been left there (${whyFailed(answer)}); remove it by hand`
    },
  }
}

/** What is written to and removed later is this path: it must be the one that was asked for. */
function ownFolder({ directory }: SshTarget, said: string): string | null {
  const start = `${directory.replace(/\/+$/, '')}/`
  const path = said.replace(/\/{2,}/g, '/')
  const isOwn = path.startsWith(start) && /^oddflow-bench\.[A-Za-z0-9]{10}$/.test(path.slice(start.length))
  return isOwn ? path : null
}

async function copy(
  target: SshTarget,
  { bundle, timeoutMillis }: ProgramOptions,
  folder: string,
): Promise<void> {
  const from = [PROGRAM_FILE, WORK_FILE, 'models', 'rows'].map((name) => join(bundle.folder, name))
  const to = `${at(target, true)}:${folder}`
  const scp = async (args: readonly string[]): Promise<void> => {
    const answer = await runProcess('scp', [...connection(target, '-P'), '-q', ...args], {
      timeoutMillis,
      maximumOutputBytes: HOUSEKEEPING_BYTES,
    })
    if (answer.ended !== null || answer.code !== 0) {
      throw new TargetError('target', `${target.name}: copying the bundle: ${whyFailed(answer)}`)
    }
  }
  await scp(['-r', '--', ...from.filter(existsSync), `${to}/`])
  if (target.bringNode === undefined) return
  await scp(['--', target.bringNode, `${to}/${BROUGHT_NODE}`])
  const answer = await remote(target, ['chmod', '700', `${folder}/${BROUGHT_NODE}`])
  if (answer.code !== 0) throw new TargetError('target', `${target.name}: ${whyFailed(answer)}`)
}

/** That program and work arrived as they left; the program then checks the rest by the work's own hashes. */
async function checkHashes(
  target: SshTarget,
  { bundle }: ProgramOptions,
  folder: string,
  node: string,
): Promise<void> {
  const files = [PROGRAM_FILE, WORK_FILE]
  const answer = await remote(target, [node, '-e', HASHES, ...files.map((file) => `${folder}/${file}`)])
  if (answer.ended !== null || answer.code !== 0) {
    throw new TargetError('target', `${target.name}: ${basename(node)} there: ${whyFailed(answer)}`)
  }
  const expected = [bundle.work.files[PROGRAM_FILE], bundle.sha256]
  if (answer.stdout.trim().split(/\s+/).join(' ') !== expected.join(' ')) {
    throw new TargetError('target', `${target.name}: the bundle did not arrive as it left (hashes differ)`)
  }
}

function remote(target: SshTarget, words: readonly string[]): Promise<ProcessOutcome> {
  const [command, args] = sshCommand(target, words)
  return runProcess(command, args, {
    timeoutMillis: HOUSEKEEPING_MILLIS,
    maximumOutputBytes: HOUSEKEEPING_BYTES,
  })
}

function sshCommand(target: SshTarget, words: readonly string[]): [string, string[]] {
  return ['ssh', [...connection(target, '-p'), '-T', '--', at(target, false), words.map(quoteWord).join(' ')]]
}

/** Options that ssh and scp share; `portOption` is not one of them. */
function connection(target: SshTarget, portOption: '-p' | '-P'): string[] {
  const options = [
    'BatchMode=yes',
    'StrictHostKeyChecking=yes',
    `ConnectTimeout=${CONNECT_SECONDS}`,
    'ServerAliveInterval=15',
    'ServerAliveCountMax=4',
    'ClearAllForwardings=yes',
    'ForwardAgent=no',
    'ForwardX11=no',
    'PermitLocalCommand=no',
    ...(target.knownHostsFile === undefined
      ? []
      : [`UserKnownHostsFile=${optionPath(target.knownHostsFile)}`, 'GlobalKnownHostsFile=/dev/null']),
    ...(target.identityFile === undefined ? [] : ['IdentitiesOnly=yes']),
  ]
  return [
    ...(target.configFile === undefined ? [] : ['-F', target.configFile]),
    ...options.flatMap((option) => ['-o', option]),
    ...(target.identityFile === undefined ? [] : ['-i', target.identityFile]),
    ...(target.port === undefined ? [] : [portOption, `${target.port}`]),
  ]
}

/** ssh's options are split at blanks unless they are quoted, and % begins a word of its own. */
const optionPath = (path: string): string => `"${path.replaceAll('%', '%%')}"`

/** scp takes an IPv6 address in brackets alone. */
function at({ user, host }: SshTarget, forScp: boolean): string {
  const place = forScp && host.includes(':') ? `[${host}]` : host
  return user === undefined ? place : `${user}@${place}`
}

/** One word of a POSIX shell, whatever is in it. */
export function quoteWord(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
