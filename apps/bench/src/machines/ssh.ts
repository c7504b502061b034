/**
 * A machine behind ssh, by one connection: the bundle goes there on standard input, the results come back. A script
 * there kills the program and removes the folder when either ends; words of the remote command are quoted one by one.
 */
import { chmodSync, copyFileSync, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openScratchFolder } from '@oddflow/program'
import {
  completeRun,
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

const CONNECT_SECONDS = 20
/** For the far end to clean up after its input has ended. */
const GRACE_SECONDS = 60
const ARCHIVE_LIMITS = { timeoutMillis: 600_000, maximumOutputBytes: 10_000 }

/**
 * $0: folder; $1: bytes of the archive; $2: seconds; $3: Node, empty if in the archive; then the program's words.
 * `timeout` leads a process group, so that children are killed too; old busybox lacks these options.
 */
const RUN = `umask 077
d=$(mktemp -d "$0/oddflow-bench.XXXXXXXXXX") || exit 1
p=
finish() {
  if [ -n "$p" ]; then kill -9 "-$p" 2>/dev/null || kill -9 "$p" 2>/dev/null; fi
  rm -rf -- "$d"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
head -c "$1" | tar -xof - -C "$d" || exit 1
limit="timeout -s KILL $2"
timeout -s KILL 5 true 2>/dev/null || limit=
node=\${3:-$d/node}
shift 3
exec 3<&0
$limit "$node" "$d/${PROGRAM_FILE}" "$@" <&3 & p=$!
{ cat <&3 >/dev/null; kill -9 "-$p" || kill -9 "$p"; } >/dev/null 2>&1 &
w=$!
wait "$p"
s=$?
p=
kill "$w" 2>/dev/null
exit "$s"`

/** Throws TargetError that begins with the target's name. */
export async function runSsh(target: SshTarget, options: ProgramOptions): Promise<TargetRun> {
  const { name, bringNode, directory } = target
  if (bringNode !== undefined && !existsSync(bringNode)) {
    throw new TargetError('target', `${name}: ${bringNode} not found`)
  }
  const scratch = openScratchFolder('oddflow-bench-ssh')
  try {
    const archive = await pack(target, options, scratch.path)
    const words = [
      ...[
        'sh',
        '-c',
        RUN,
        directory,
        `${statSync(archive).size}`,
        `${target.timeoutSeconds + GRACE_SECONDS}`,
      ],
      ...[bringNode === undefined ? (target.node ?? 'node') : '', ...programArguments(options, name)],
    ]
    const args = [...connection(target), '-T', '--', at(target), words.map(quoteWord).join(' ')]
    const sending = { input: archive, graceMillis: 1000 * GRACE_SECONDS }
    const run = await runProgram('ssh', args, options, sending)
    if (run.process.signal === 'SIGKILL') {
      const left = `a folder ${directory}/oddflow-bench.* may have been left there; remove it by hand`
      throw new TargetError('target', `${name}: ${run.failure}; ${left}`)
    }
    return completeRun(name, run)
  } finally {
    scratch.remove()
  }
}

/** The bundle, and Node where it goes along, in one file of `folder`. */
async function pack(
  { name, bringNode }: SshTarget,
  { bundle }: ProgramOptions,
  folder: string,
): Promise<string> {
  const archive = join(folder, 'bundle.tar')
  const files = [PROGRAM_FILE, WORK_FILE, 'models', 'rows'].filter((file) =>
    existsSync(join(bundle.folder, file)),
  )
  if (bringNode !== undefined) {
    copyFileSync(bringNode, join(folder, 'node'))
    chmodSync(join(folder, 'node'), 0o700)
  }
  const node = bringNode === undefined ? [] : ['-C', folder, 'node']
  const packed = await runProcess(
    'tar',
    ['-cf', archive, '-C', bundle.folder, ...files, ...node],
    ARCHIVE_LIMITS,
  )
  if (packed.code !== 0) {
    throw new TargetError('target', `${name}: packing the bundle: ${whyFailed(packed)}`)
  }
  return archive
}

function connection(target: SshTarget): string[] {
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
    ...(target.port === undefined ? [] : ['-p', `${target.port}`]),
  ]
}

/** ssh's options are split at blanks unless they are quoted, and % begins a word of its own. */
const optionPath = (path: string): string => `"${path.replaceAll('%', '%%')}"`

const at = ({ user, host }: SshTarget): string => (user === undefined ? host : `${user}@${host}`)

/** One word of a POSIX shell, whatever is in it. */
export function quoteWord(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
