/** The kinds of outputs beside the EVE file, and what the agent asks of each. */
import * as v from 'valibot'
import { mail } from './mail.js'
import { mqtt } from './mqtt.js'
import { type NatsSettings, nats } from './nats.js'
import { ntfy } from './ntfy.js'
import {
  checkOutputFile,
  type Output,
  type OutputDefinition,
  type OutputEnvironment,
  type OutputFile,
} from './output.js'
import { syslog } from './syslog.js'
import { webhook } from './webhook.js'

export const OUTPUTS = [ntfy, mail, webhook, mqtt, nats, syslog] as const

type Definition = (typeof OUTPUTS)[number]
export type OutputSettings = Definition extends infer Each
  ? Each extends { settings(...given: never[]): infer Settings }
    ? Settings
    : never
  : never

export const OutputSchema = v.variant(
  'kind',
  OUTPUTS.map(({ schema }) => schema),
)

/** The output by which a fleet's models come; null where none do. */
export function fleetOutput(outputs: readonly OutputSettings[]): NatsSettings | null {
  return outputs.find((output): output is NatsSettings => output.kind === 'nats' && output.models) ?? null
}

type AnyDefinition = OutputDefinition<string, v.GenericSchema<unknown, { kind: string }>, OutputSettings>

/** Throws where there is no such kind, which the schema refuses. */
export function definitionOf({ kind }: { readonly kind: string }): AnyDefinition {
  const found = OUTPUTS.find((each) => each.kind === kind)
  if (found === undefined) throw new Error(`no output of kind ${kind}`)
  return found as unknown as AnyDefinition
}

export function filesOf(output: OutputSettings): readonly OutputFile[] {
  return definitionOf(output).files(output)
}

/** Its secrets: all files but certificates. */
export function secretsOf(output: OutputSettings): readonly OutputFile[] {
  return filesOf(output).filter(({ what }) => what !== 'certificates')
}

/** Reads the files as the output will. Throws FileError. */
export function checkOutput(output: OutputSettings): void {
  for (const file of filesOf(output)) checkOutputFile(file)
}

export function createOutput(output: OutputSettings, environment: OutputEnvironment): Promise<Output> {
  return definitionOf(output).create(output, environment)
}
