#!/usr/bin/env node
/** The `oddflow-fleet` program. Exit codes: 0 done, 1 unusable data or server, or captures set aside, 2 wrong command line. */
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { JetStreamError } from '@nats-io/jetstream'
import { ConnectionError, RequestError, TimeoutError } from '@nats-io/transport-node'
import { OddFlowError, plural } from '@oddflow/core'
import {
  createLineWriter,
  createMessages,
  jsonLine,
  oneLineErrors,
  printable,
  reportFailure,
  stopOnSignals,
  stoppedExitCode,
  UsageError,
} from '@oddflow/program'
import { completionCommand } from '@oddflow/program/completion'
import { createProgress } from '@oddflow/program/progress'
import { Command, InvalidArgumentError } from 'commander'
import {
  type Archive,
  lastFailed,
  openArchive,
  readStatus,
  rest,
  type ServerOptions,
  type Status,
  WAIT_SCALE,
  wordsOf,
} from './archive.js'
import { enroll, gatewaysUrlIn, loginOf } from './folder.js'
import { type Gateway, listGateways, prepareGateways, readEvents } from './gateways.js'
import {
  advanceRollout,
  nextStep,
  type PublishOptions,
  prepareModels,
  progressOf,
  publishModel,
  type RolloutProgress,
  readModelStates,
  readOffer,
  type TargetOptions,
  targetOf,
} from './models.js'
import { VERSION } from './score-capture.js'
import { type ServeOptions, serve } from './serve.js'
import { type SubmitOptions, submit } from './submit.js'
import { type WorkOptions, work } from './work.js'

const messages = createMessages('oddflow-fleet')
const SHOWN_FAILURES = 20
const FOLLOW_MILLIS = 2_000

// a reader that goes away early is no fault: … | head
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exitCode = 1
  })
}

try {
  await createProgram().parseAsync(process.argv)
} catch (error) {
  process.exitCode = report(error)
}

function createProgram(): Command {
  const program = new Command('oddflow-fleet')
    .description(
      'Score archives of captures on several machines, and collect the events of gateways, over NATS JetStream.',
    )
    .version(VERSION, '--version', 'print the version and end')
    .helpOption('-h, --help', 'print this help and end')
    .exitOverride()
    .configureOutput(oneLineErrors('oddflow-fleet --help'))
    .addHelpText(
      'after',
      `
Examples:
  nats-server --jetstream --store_dir /var/lib/nats
  oddflow-fleet submit --captures /archive --model home.oddflow
  oddflow-fleet work --captures /archive --results /results
  oddflow-fleet status --follow
  oddflow-fleet serve --folder /var/lib/oddflow-fleet
  oddflow-fleet enroll kitchen --folder /var/lib/oddflow-fleet --seed kitchen.seed
  oddflow-fleet events --folder /var/lib/oddflow-fleet --follow | jq 'select(.event.event_type == "alert")'

Start a worker for each processor core, on any machine that reaches the server. Each worker needs the folder of captures
too, and names it with --captures. Captures in an object store on the server (--bucket) need no folder.
Exit codes: 0 done, 1 unusable data or server, or captures set aside, 2 wrong command line.`,
    )
  program.addCommand(submitCommand())
  program.addCommand(workCommand())
  program.addCommand(statusCommand())
  program.addCommand(serveCommand())
  program.addCommand(enrollCommand())
  program.addCommand(gatewaysCommand())
  program.addCommand(eventsCommand())
  program.addCommand(publishCommand())
  program.addCommand(rolloutCommand())
  program.addCommand(completionCommand(program, VERSION))
  for (const command of program.commands) {
    command.exitOverride().configureOutput(oneLineErrors(`oddflow-fleet ${command.name()} --help`))
  }
  return program
}

function serverCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option(
      '--server <url>',
      'URL of the NATS server: nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ before HOST if it asks for them; for a cluster, several URLs separated by commas (default: nats://127.0.0.1:4222; with --folder tls://127.0.0.1:4222)',
    )
    .option(
      '--folder <folder>',
      'the folder given to oddflow-fleet serve; the login and the certificate authority are read from it',
    )
    .option('--creds <file>', 'credentials file for the server')
    .option('--ca <file>', "certificate authority of the server's TLS certificate (PEM)")
}

function submitCommand(): Command {
  return serverCommand(
    'submit',
    'Queue captures. A capture that is already queued or scored is not queued again.',
  )
    .argument('[path...]', 'files or folders below --captures, or objects of --bucket (default: all)')
    .option('--captures <folder>', 'folder of captures; the workers need it too', '.')
    .option('--bucket <name>', 'object store on the server that holds the captures')
    .option('--model <file>', 'model to judge flows with; without one, flows are extracted without verdicts')
    .option('--retry-failed', 'queue again the captures that were set aside')
    .action(async (paths: string[], options: GivenServer & SubmitOptions) => {
      await withArchive(options, async (archive) => {
        const progress = createProgress()
        const { queued, waiting, done, failed, setAside } = await submit(
          archive,
          paths,
          options,
          (count, total) => {
            if (count === 1) progress.stage('queueing captures', total)
            progress.update(count)
          },
          (line) => messages.note(printable(line)),
        )
        progress.stop()
        process.stdout.write(
          `queued ${queued}, set aside ${setAside}; queued before ${waiting}, scored before ${done}, set aside before ${failed}\n`,
        )
        if (setAside > 0) process.exitCode = 1
      })
    })
}

function workCommand(): Command {
  return serverCommand('work', 'Score queued captures, one at a time, until Ctrl-C.')
    .requiredOption('--results <folder>', 'folder for Parquet files: day=YYYY-MM-DD/ID.parquet')
    .option('--captures <folder>', 'folder of captures; needed unless all are in object stores')
    .option('--until-empty', 'end when no capture is queued or being scored')
    .action(async (options: GivenServer & WorkOptions) => {
      await withArchive(options, async (archive) => {
        const { done, failed } = await work(archive, options, stopOnSignals(), (line) =>
          messages.note(printable(line)),
        )
        messages.note(`${plural(done, 'capture')} scored, ${failed} set aside`)
        process.exitCode = failed > 0 ? 1 : (stoppedExitCode() ?? 0)
      })
    })
}

function statusCommand(): Command {
  return serverCommand(
    'status',
    'Show how many captures are waiting, being scored, and scored, and which were set aside and why.',
  )
    .option('--follow', 'repeat every two seconds until no capture is left')
    .option('--json', 'print one JSON object')
    .action(async (options: GivenServer & { follow?: boolean; json?: boolean }) => {
      await withArchive(options, async (archive) => {
        for (;;) {
          const status = await readStatus(archive)
          const isOver = status.waiting + status.inProgress === 0
          if (options.follow === true && !isOver) {
            messages.note(statusText(status))
            await pause(FOLLOW_MILLIS)
            continue
          }
          const failures = await lastFailed(archive, SHOWN_FAILURES)
          if (options.json === true) process.stdout.write(`${JSON.stringify({ ...status, failures })}\n`)
          else {
            process.stdout.write(`${statusText(status)}\n`)
            for (const { name, reason } of failures) {
              process.stdout.write(`set aside: ${printable(name)}: ${printable(reason)}\n`)
            }
          }
          process.exitCode = status.failed > 0 ? 1 : 0
          return
        }
      })
    })
}

function serveCommand(): Command {
  return new Command('serve')
    .description(
      'Run a server on this machine to which gateways connect: nats-server with its streams, a status page and metrics.',
    )
    .requiredOption(
      '--folder <folder>',
      'keys, certificates, configuration and stored events; made at the first start',
    )
    .option('--listen <host:port>', 'address where gateways connect', '0.0.0.0:4222')
    .option('--page <host:port>', 'address of the page and the metrics', '127.0.0.1:9480')
    .option(
      '--host <names>',
      'further names or addresses of this machine for its certificate, separated by commas',
    )
    .option(
      '--server <urls>',
      'use these servers and start none; they must run with the configuration in the folder',
    )
    .action(async (options: ServeOptions) => {
      await serve(options, stopOnSignals(), (line) => messages.note(printable(line)))
    })
}

function enrollCommand(): Command {
  return new Command('enroll')
    .description('Make the key of a gateway and let it log in.')
    .argument('<gateway>', 'name of the gateway')
    .requiredOption('--folder <folder>', 'folder of oddflow-fleet serve')
    .requiredOption('--seed <file>', "new file for the gateway's private key (a NATS seed)")
    .option('--group <name>', 'a group; the gateway also accepts models for this group')
    .action((gateway: string, { folder, seed, group }: { folder: string; seed: string; group?: string }) => {
      enroll(folder, gateway, seed, group ?? null)
      const models = group === undefined ? '' : `, models: true, group: ${group}`
      process.stdout.write(
        `Copy ${seed} and ${join(folder, 'ca.pem')} to the gateway, and add the output to its configuration:\n` +
          `  - { kind: nats, url: '${gatewaysUrlIn(folder)}', gateway: ${gateway}, seedFile: ${basename(seed)}, caFile: ca.pem${models} }\n`,
      )
    })
}

function gatewaysCommand(): Command {
  return serverCommand(
    'gateways',
    'List the gateways: their health, version and events. Creates their streams if they are missing.',
  )
    .option('--json', 'print one JSON array')
    .action(async (options: GivenServer & { json?: boolean }) => {
      await withArchive(options, async (archive) => {
        await prepareGateways(archive)
        await prepareModels(archive)
        const gateways = await listGateways(archive)
        if (options.json === true) process.stdout.write(`${JSON.stringify(gateways)}\n`)
        else if (gateways.length === 0) messages.note('no gateway has sent an event or a status')
        for (const gateway of options.json === true ? [] : gateways) {
          process.stdout.write(`${printable(gatewayText(gateway))}\n`)
        }
      })
    })
}

function eventsCommand(): Command {
  return serverCommand('events', 'Print the stored events of gateways as JSON lines, the oldest first.')
    .option('--gateway <name>', 'print only the events of this gateway')
    .option('--follow', 'keep waiting for new events, until Ctrl-C')
    .action(async (options: GivenServer & { gateway?: string; follow?: boolean }) => {
      await withArchive(options, async (archive) => {
        await prepareGateways(archive)
        const lines = createLineWriter()
        for await (const event of readEvents(archive, options, stopOnSignals())) {
          lines.line(jsonLine(event))
          if (options.follow === true) lines.flush()
        }
        lines.flush()
      })
    })
}

function gatewayText({ name, events, lastEvent, status }: Gateway): string {
  const health =
    status === null
      ? 'no status'
      : `${status.isWell ? 'well' : 'ill'} at ${status.at}, version ${status.version}${status.isWell ? '' : `: ${status.reasons.join('; ')}`}`
  const last = lastEvent === null ? '' : `, last ${lastEvent}`
  return `${name.padEnd(24)} ${plural(events, 'event').padStart(14)}${last}; ${health}`
}

function publishCommand(): Command {
  return serverCommand(
    'publish',
    'Sign a model and offer it to a gateway or a group. A few gateways of a group get it first.',
  )
    .argument('<model>', 'model file that oddflow train wrote')
    .option('--gateway <name>', 'offer the model to this gateway')
    .option('--group <name>', 'offer the model to the gateways of this group')
    .requiredOption('--key <file>', 'private key (Ed25519, PEM); it never leaves this machine')
    .option(
      '--canaries <percent>',
      'percent of the gateways of the group that get the model first',
      numberIn(0, 100),
      10,
    )
    .option(
      '--shadow-minutes <minutes>',
      'minutes in which the new model judges without effect beside the one in use, before it replaces it',
      numberIn(0, 10_080),
      60,
    )
    .option(
      '--new-key',
      'allow a --key that did not sign the current offer; without this option, publish refuses it',
    )
    .action(async (model: string, options: ServerOptions & PublishOptions) => {
      await withArchive(options, async (archive) => {
        await prepareModels(archive)
        const { target, version, lostVersion, sha256, lastGood } = await publishModel(archive, model, options)
        if (lostVersion !== null) {
          messages.warn(
            `gateways had version ${lostVersion}, which this server does not have; they refuse lower versions, so this is version ${version}`,
          )
        }
        process.stdout.write(
          `${target}: version ${version} (${sha256.slice(0, 16)}) is offered; a roll-back goes to ${lastGood === null ? "the model of each gateway's configuration" : lastGood.slice(0, 16)}\n`,
        )
      })
    })
}

interface RolloutOptions extends ServerOptions, TargetOptions {
  readonly canaryHours: number
  readonly follow?: boolean
  readonly toAll?: boolean
  readonly rollBack?: boolean
  readonly json?: boolean
}

function rolloutCommand(): Command {
  return serverCommand(
    'rollout',
    'Show the state of the model offered to a gateway or a group. With --follow, --to-all or --roll-back, also change it.',
  )
    .option('--gateway <name>', 'the model offered to this gateway')
    .option('--group <name>', 'the model offered to this group')
    .option(
      '--follow',
      'keep running: after --canary-hours, offer the model to all gateways or roll it back; then end',
    )
    .option('--canary-hours <hours>', 'hours until other gateways get the model too', numberIn(0, 720), 24)
    .option('--to-all', 'offer the model to all gateways of the group now')
    .option('--roll-back', 'offer the last good model in its place now')
    .option('--json', 'print one JSON object a line')
    .action(async (options: RolloutOptions) => {
      if ([options.follow, options.toAll, options.rollBack].filter(Boolean).length > 1) {
        throw new UsageError('expected one of --follow, --to-all and --roll-back')
      }
      await withArchive(options, async (archive) => {
        await prepareModels(archive)
        await rollOut(archive, options)
      })
    })
}

async function rollOut(archive: Archive, options: RolloutOptions): Promise<void> {
  const target = targetOf(options)
  const stop = stopOnSignals()
  let last = ''
  for (;;) {
    const offer = await readOffer(archive, target)
    if (offer === null) throw new UsageError(`${target.name}: no model is offered; see oddflow-fleet publish`)
    const progress = progressOf(offer, await readModelStates(archive))
    const line = options.json === true ? JSON.stringify(progress) : rolloutText(progress)
    if (line !== last) process.stdout.write(`${line}\n`)
    last = line
    const isTimeOver = Date.now() - progress.publishedMillis >= 3_600_000 * options.canaryHours
    const step =
      options.toAll === true
        ? 'to-all'
        : options.rollBack === true
          ? 'roll-back'
          : options.follow === true
            ? nextStep(progress, offer.rollback !== null, isTimeOver)
            : 'over'
    if (step === 'to-all' || step === 'roll-back') {
      const next = progressOf(await advanceRollout(archive, offer, step), new Map())
      messages.note(
        step === 'to-all'
          ? `${next.target}: version ${next.version} is offered to all gateways`
          : `${next.target}: rolled back: version ${next.version} is ${next.sha256 === null ? "the model of each gateway's configuration" : next.sha256.slice(0, 16)}`,
      )
      if (step === 'roll-back') process.exitCode = 1
    }
    if (step === 'over' || step === 'roll-back' || options.toAll === true || stop.aborted) return
    await rest(FOLLOW_MILLIS * WAIT_SCALE, stop)
  }
}

function rolloutText(progress: RolloutProgress): string {
  const { target, version, sha256, share, gateways, offered, notReached, reasons } = progress
  const { shadow, proving, inUse, refused, rolledBack, using } = progress
  const model = sha256 === null ? 'the configured model' : sha256.slice(0, 16)
  const lines = [
    `${target}: version ${version} (${model}), offered to ${offered} of ${gateways} gateways (${(100 * share).toFixed(0)} %): ${notReached} not reached, ${shadow} in shadow, ${proving} proving, ${inUse} in use, ${refused} refused, ${rolledBack} rolled back; ${plural(using, 'gateway')} use it`,
    ...reasons.map((reason) => `  ${printable(reason)}`),
  ]
  return lines.join('\n')
}

function numberIn(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() !== '' && value >= least && value <= most) return value
    throw new InvalidArgumentError(`expected a number from ${least} to ${most}`)
  }
}

function statusText({ waiting, inProgress, done, failed, capturesPerSecond }: Status): string {
  const rate = capturesPerSecond === null ? '' : ` (${capturesPerSecond.toFixed(1)} captures/s)`
  return `${waiting} waiting, ${inProgress} being scored, ${done} scored${rate}, ${failed} set aside`
}

interface GivenServer extends Omit<ServerOptions, 'server' | 'seed'> {
  readonly server?: string
  readonly folder?: string
}

async function withArchive(options: GivenServer, use: (archive: Archive) => Promise<void>): Promise<void> {
  const { server, folder, ...rest } = options
  const archive = await openArchive(
    folder === undefined
      ? { ...rest, server: server ?? 'nats://127.0.0.1:4222' }
      : { ...rest, ...loginOf(folder), server: server ?? 'tls://127.0.0.1:4222' },
  )
  try {
    await use(archive)
  } finally {
    await archive.close()
  }
}

function report(error: unknown): number {
  const isServers = [JetStreamError, ConnectionError, RequestError, TimeoutError].some(
    (kind) => error instanceof kind,
  )
  return reportFailure(
    'oddflow-fleet',
    isServers ? new OddFlowError('fleet.server', `the server: ${wordsOf(error)}`) : error,
  )
}
