/** The kinds of outputs beside the EVE file, and what the agent asks of each. */
import * as v from 'valibot'
import { mail } from './mail.js'
import { mqtt } from './mqtt.js'
import { type NatsSettings, nats } from './nats.js'
import { filesOf, type Output, type OutputEnvironment, originOf } from './output.js'
import { syslog } from './syslog.js'
import { ntfy, webhook } from './webhook.js'

export const OUTPUTS = [ntfy, mail, webhook, mqtt, nats, syslog] as const

export const OutputSchema = v.variant(
  'kind',
  OUTPUTS.map(({ schema }) => schema),
)
export type OutputSettings = v.InferOutput<(typeof OUTPUTS)[number]['schema']> & { readonly name: string }

/** The output that receives a fleet's models; null if there is none. */
export function fleetOutput(outputs: readonly OutputSettings[]): NatsSettings | null {
  return outputs.find((output): output is NatsSettings => output.kind === 'nats' && output.models) ?? null
}

interface Definition {
  check?(settings: OutputSettings, refuse: (key: string, message: string) => never): void
  target?(settings: OutputSettings): string
  create(settings: OutputSettings, environment: OutputEnvironment): Promise<Output>
}

function definitionOf({ kind }: OutputSettings): Definition {
  return OUTPUTS.find((each) => each.kind === kind) as unknown as Definition
}

function urlOf(output: OutputSettings): string {
  return ('url' in output ? output.url : undefined) ?? ''
}

/** Checks beyond the schema. */
export function checkSettings(output: OutputSettings, refuse: (key: string, message: string) => never): void {
  if (output.caFile !== undefined && /^(http|mqtt):/.test(urlOf(output)))
    refuse('caFile', 'only for https and mqtts; change url, or remove caFile')
  definitionOf(output).check?.(output, refuse)
}

/** The address of an output without secrets. */
export function targetOf(output: OutputSettings): string {
  return definitionOf(output).target?.(output) ?? originOf(urlOf(output))
}

/** Secrets that would cross the network unencrypted, and their receiver. */
export function unencryptedSecrets(output: OutputSettings): { what: string; url: URL }[] {
  if (!/^(http|mqtt):/.test(urlOf(output))) return []
  const url = new URL(urlOf(output))
  return filesOf(output).flatMap(({ what }) =>
    what === 'token' || what === 'password' ? [{ what, url }] : [],
  )
}

/** The files with secrets: all but certificates. */
export function secretsOf(output: OutputSettings): string[] {
  return filesOf(output).flatMap(({ what, path }) => (what === 'certificates' ? [] : [path]))
}

/** Reads the files as the output will. Throws FileError. */
export function checkOutput(output: OutputSettings): void {
  for (const { read, path } of filesOf(output)) read(path)
}

export function createOutput(output: OutputSettings, environment: OutputEnvironment): Promise<Output> {
  return definitionOf(output).create(output, environment)
}
