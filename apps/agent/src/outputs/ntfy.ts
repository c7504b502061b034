/** ntfy: each incident as a push message to the phones that follow a topic (docs.ntfy.sh). A webhook of its preset. */
import * as v from 'valibot'
import { path } from '../config/schema-parts.js'
import { caFile, caFileOf, defineOutput, originOf, outputFile, outputName, urlOf } from './output.js'
import { createWebhook } from './webhook.js'

export interface NtfySettings {
  readonly kind: 'ntfy'
  readonly name: string
  /** Of the topic. */
  readonly url: string
  /** Whose first line is an access token; null: anybody may publish. */
  readonly tokenFile: string | null
  readonly caFile: string | null
}

export const ntfy = defineOutput({
  kind: 'ntfy',
  schema: v.strictObject({
    kind: v.literal('ntfy'),
    name: outputName,
    url: urlOf(
      /^https?:\/\/[^/?#]+\/([^?#]*\/)?[A-Za-z0-9_-]{1,64}$/,
      'a URL of http or https that ends with a topic',
      'The topic, such as https://ntfy.sh/a-name-that-is-hard-to-guess: who knows it can read along.',
    ),
    tokenFile: v.optional(path('A file whose first line is an access token.')),
    caFile,
  }),
  settings: (given, context): NtfySettings => ({
    kind: 'ntfy',
    name: context.name,
    url: given.url,
    tokenFile: context.inFolder(given.tokenFile) ?? null,
    caFile: caFileOf(given, context),
  }),
  target: ({ url }) => originOf(url),
  files: ({ tokenFile, caFile }) => [
    ...outputFile('token', tokenFile),
    ...outputFile('certificates', caFile),
  ],
  secretsGoTo: ({ url, tokenFile }) => (tokenFile === null ? null : url),
  memoryBytes: 0,
  create: async (settings, { version }) =>
    createWebhook({
      ...settings,
      version,
      preset: 'ntfy',
      urlFile: null,
      user: '',
      body: null,
      headers: {},
      signatureFile: null,
    }),
})
