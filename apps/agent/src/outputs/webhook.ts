/**
 * Webhook: alerts to a web server, by POST, as a JSON array of EVE events.
 *
 * Delivered is what was answered with a status of 2xx. 400, 413 and 422 refuse what was sent (delivery.ts sends fewer at a
 * time, and sets aside what is refused alone). Everything else (another status, a redirect, silence for
 * ten seconds, no connection) is a failure, and the same alerts come again later: a receiver that must not count
 * one twice goes by `oddflow.id`. Redirects are not followed, as they would lead where no configuration points. A
 * token is read from a file for every attempt, so it can be replaced while the agent runs, and is never part of a
 * message or of an error; nor are the URL's query and credentials.
 *
 * A body has at most BATCH alerts. Responses are read to the end and thrown away, up to a bound.
 */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import * as v from 'valibot'
import { path } from '../config/schema-parts.js'
import {
  caFile,
  caFileOf,
  defineOutput,
  type Output,
  originOf,
  outputFile,
  outputName,
  RefusedError,
  readCertificates,
  readToken,
  urlOf,
} from './output.js'

export interface WebhookSettings {
  readonly kind: 'webhook'
  readonly name: string
  /** http or https. */
  readonly url: string
  /** Whose first line is sent as a bearer token. */
  readonly tokenFile: string | null
  /** Certificate authorities that are trusted, in PEM; null: those that Node knows. */
  readonly caFile: string | null
}

export const webhook = defineOutput({
  kind: 'webhook',
  schema: v.strictObject({
    kind: v.literal('webhook'),
    name: outputName,
    url: urlOf(
      /^https?:/,
      'a URL of http or https',
      'Where alerts are posted to, as a JSON array of EVE events.',
    ),
    tokenFile: v.optional(path('A file whose first line is sent as a bearer token.')),
    caFile,
  }),
  settings(given, context): WebhookSettings {
    const { username, password } = new URL(given.url)
    if (username !== '' || password !== '') {
      context.refuse('url', 'a name and a password do not go into it; give tokenFile')
    }
    return {
      kind: 'webhook',
      name: context.name,
      url: given.url,
      tokenFile: context.inFolder(given.tokenFile) ?? null,
      caFile: caFileOf(given, context),
    }
  },
  target: ({ url }) => originOf(url),
  files: ({ tokenFile, caFile }) => [
    ...outputFile('token', tokenFile),
    ...outputFile('certificates', caFile),
  ],
  secretsGoTo: ({ url, tokenFile }) => (tokenFile === null ? null : url),
  memoryBytes: 0,
  create: async (settings, { version }) => createWebhook({ ...settings, version }),
})

export interface WebhookOptions extends WebhookSettings {
  readonly version: string
  /** Silence after which an attempt has failed. */
  readonly patienceMillis?: number
}

const BATCH = 64
const PATIENCE_MILLIS = 10_000
const MAXIMUM_ANSWER_BYTES = 65_536
/** Bad Request, Content Too Large, Unprocessable Content (RFC 9110): the fault is in what was sent. */
const REFUSALS = [400, 413, 422]

/** Throws FileError where the certificates cannot be read. */
export function createWebhook(options: WebhookOptions): Output {
  const url = new URL(options.url)
  const shown = `${url.origin}${url.pathname}`
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest
  const trusted = options.caFile === null ? {} : { ca: readCertificates(options.caFile) }
  const patience = options.patienceMillis ?? PATIENCE_MILLIS

  const post = (body: Uint8Array, token: string | null, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const fail = (what: string): void => reject(new Error(`${shown}: ${what}`))
      const outgoing = send(
        url,
        {
          method: 'POST',
          // alerts are rare: a connection that is kept would be closed by the time of the next
          agent: false,
          ...trusted,
          signal,
          headers: {
            'content-type': 'application/json',
            'content-length': body.length,
            'user-agent': `oddflow-agent/${options.version}`,
            ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          },
        },
        (response) => {
          const { statusCode = 0 } = response
          // now: a server may close the connection before it has read all
          if (REFUSALS.includes(statusCode)) reject(new RefusedError(`${shown}: answered ${statusCode}`))
          let bytes = 0
          response.on('data', (piece: Buffer) => {
            bytes += piece.length
            if (bytes > MAXIMUM_ANSWER_BYTES) outgoing.destroy(new Error('answers with too much'))
          })
          response.on('error', (error) => fail(error.message))
          response.on('end', () => {
            if (statusCode >= 200 && statusCode < 300) resolve()
            else fail(`answered ${statusCode}`)
          })
        },
      )
      const timer = setTimeout(
        () => outgoing.destroy(new Error(`no answer within ${patience / 1000} s`)),
        patience,
      )
      // also what neither answers nor fails, such as a change of protocol
      outgoing.on('close', () => {
        clearTimeout(timer)
        fail('ended the connection without an answer')
      })
      outgoing.on('error', (error) => fail(error.message))
      outgoing.end(body)
    })

  return {
    name: options.name,
    target: shown,
    batch: BATCH,
    async deliver({ lines }, signal) {
      const token = options.tokenFile === null ? null : readToken(options.tokenFile)
      await post(jsonArray(lines), token, signal)
    },
    async close() {},
  }
}

function jsonArray(lines: readonly Uint8Array[]): Uint8Array {
  const parts: Uint8Array[] = [Uint8Array.of(0x5b)]
  for (const [i, line] of lines.entries()) {
    if (i > 0) parts.push(Uint8Array.of(0x2c))
    parts.push(line)
  }
  parts.push(Uint8Array.of(0x5d))
  return Buffer.concat(parts)
}
