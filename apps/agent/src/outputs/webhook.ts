/**
 * Webhook: alerts to a web server, by POST. By default a JSON array of EVE events; with `preset` or `body` a request for each message
 * for people (message.ts).
 *
 * A status of 2xx means delivered; 400, 413 and 422 refuse the content; any other is a failure. Redirects are not followed. Secrets are
 * read for every attempt. Messages and errors contain no secret, nor the URL's query, credentials and secret path.
 */
import { createHmac } from 'node:crypto'
import * as v from 'valibot'
import type { AlertBatch } from '../spool/alert-log.js'
import { type Message, oneByOne, sentenceOf } from './message.js'
import {
  ANSWER_MILLIS,
  BATCH,
  defineOutput,
  type Output,
  optional,
  path,
  RefusedError,
  readCertificates,
  readSecret,
  readToken,
  readUrl,
  type SettingsOf,
  text,
  urlOf,
} from './output.js'

/**
 * Requests as the receivers of messages take them, each by its own documentation.
 *
 *     slack      api.slack.com/messaging/webhooks          text of mrkdwn: & < > are escaped
 *     discord    discord.com/developers, Execute Webhook   content, 2000 characters at most; no user is mentioned
 *     teams      Workflows, "when a webhook request is received": an adaptive card
 *     ntfy       docs.ntfy.sh/publish, "Publish as JSON": to the server's root, with the topic in the body
 *     gotify     gotify.net/docs/pushmsg: the application's token in X-Gotify-Key
 *     pushover   pushover.net/api: a form with token and user, message of 1024 and title of 250 characters at most
 */

interface ReceiverRequest {
  readonly url: URL
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

interface Receiver {
  /** Where it is a fixed one. */
  readonly url?: string
  /** A token from a file; without one, the URL is the secret. */
  readonly token?: 'optional' | 'needed'
  readonly needsUser?: boolean
  readonly request: (
    message: Message,
    to: { readonly url: URL; readonly token: string; readonly user: string },
  ) => ReceiverRequest
}

/** low, medium, high, and the end of an incident. */
type Steps = readonly [number, number, number, number]
const NTFY: Steps = [3, 4, 5, 2]
const GOTIFY: Steps = [4, 6, 8, 2]
const PUSHOVER: Steps = [0, 0, 1, -1]

function priority({ change, level }: Message, steps: Steps): number {
  return change === 'over' ? steps[3] : steps[['low', 'medium', 'high'].indexOf(level)]
}

function json(url: URL, value: unknown, headers: Readonly<Record<string, string>> = {}): ReceiverRequest {
  return { url, body: JSON.stringify(value), headers: { 'content-type': 'application/json', ...headers } }
}

/** Characters that Markdown gives a meaning. */
function literal(text: string): string {
  return text.replace(/[\\`*_{}[\]<>()#+!|~-]/g, '\\$&')
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }
const escaped = (text: string): string => text.replace(/[&<>]/g, (c) => ENTITIES[c])

type Preset = 'slack' | 'discord' | 'teams' | 'ntfy' | 'gotify' | 'pushover'

const RECEIVERS: Readonly<Record<Preset, Receiver>> = {
  slack: {
    request: (message, { url }) =>
      json(url, {
        text: `*${escaped(message.title)}*\n${escaped(sentenceOf(message))}`,
        unfurl_links: false,
        unfurl_media: false,
      }),
  },
  discord: {
    request: (message, { url }) =>
      json(url, {
        content: `**${literal(message.title)}**\n${literal(sentenceOf(message))}`.slice(0, 2000),
        allowed_mentions: { parse: [] },
      }),
  },
  teams: {
    request: (message, { url }) =>
      json(url, {
        type: 'message',
        attachments: [
          {
            contentType: 'application/vnd.microsoft.card.adaptive',
            contentUrl: null,
            content: {
              $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
              type: 'AdaptiveCard',
              version: '1.4',
              body: [
                { type: 'TextBlock', text: literal(message.title), weight: 'Bolder', wrap: true },
                { type: 'TextBlock', text: literal(sentenceOf(message)), wrap: true },
              ],
            },
          },
        ],
      }),
  },
  ntfy: {
    token: 'optional',
    request(message, { url, token }) {
      const topic = decodeURIComponent(url.pathname.slice(url.pathname.lastIndexOf('/') + 1))
      const root = new URL(url)
      root.pathname = url.pathname.slice(0, url.pathname.lastIndexOf('/') + 1)
      return json(
        root,
        {
          topic,
          title: message.title,
          message: sentenceOf(message),
          priority: priority(message, NTFY),
          tags: [message.change === 'over' ? 'white_check_mark' : 'warning'],
        },
        token === '' ? {} : { authorization: `Bearer ${token}` },
      )
    },
  },
  gotify: {
    token: 'needed',
    request: (message, { url, token }) =>
      json(
        url,
        { title: message.title, message: sentenceOf(message), priority: priority(message, GOTIFY) },
        { 'x-gotify-key': token },
      ),
  },
  pushover: {
    url: 'https://api.pushover.net/1/messages.json',
    token: 'needed',
    needsUser: true,
    request: (message, { url, token, user }) => ({
      url,
      body: new URLSearchParams({
        token,
        user,
        title: message.title.slice(0, 250),
        message: sentenceOf(message).slice(0, 1024),
        priority: String(priority(message, PUSHOVER)),
      }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    }),
  },
}

/** Sent by the agent itself, or a secret. */
const OWN_HEADERS = /^(host|connection|content-length|transfer-encoding|authorization|x-hub-signature-256)$/i

const entries = optional(
  {
    url: urlOf(
      /^https?:/,
      'a URL of http or https',
      'Where alerts are posted to: a JSON array of EVE events, unless preset or body is given.',
    ),
    urlFile: path('A file whose first line is the URL, where the URL itself is the secret.'),
    preset: v.pipe(
      v.picklist(Object.keys(RECEIVERS) as Preset[]),
      v.description('Send each incident as a sentence, in the format of this receiver.'),
    ),
    user: text('The user or group key, for the preset pushover.'),
    body: v.pipe(
      v.union([v.pipe(v.string(), v.maxLength(65_536)), v.record(v.string(), v.unknown())]),
      v.description(
        'Send each incident with this body. An object is sent as JSON, a string as plain text. {{title}}, {{summary}}, {{level}}, {{kind}}, {{change}}, {{device}}, {{incident}}, {{id}} and {{time}} are replaced in strings.',
      ),
    ),
    headers: v.pipe(
      v.record(
        v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]{1,64}$/, 'letters, digits and hyphens')),
        v.pipe(v.string(), v.maxLength(1024), v.regex(/^[\x20-\x7e]*$/, 'visible ASCII characters')),
      ),
      v.description('Further HTTP headers. Put a secret into tokenFile, not here.'),
    ),
    signatureFile: path(
      'A file whose first line is a key: X-Hub-Signature-256 has the HMAC-SHA256 of the body under it.',
    ),
    tokenFile: path("A file whose first line is sent as a bearer token, or as the preset's token."),
  },
  { headers: {} },
)

export const webhook = defineOutput({
  kind: 'webhook',
  entries,
  check({ url, urlFile, tokenFile, preset, user, body, headers }, refuse) {
    const receiver = preset === undefined ? null : RECEIVERS[preset]
    if (url !== undefined && urlFile !== undefined) refuse('urlFile', 'url is given too; remove one of them')
    if (url === undefined && urlFile === undefined && receiver?.url === undefined)
      refuse('url', 'is missing; give url or urlFile')
    const { username, password } = new URL(url ?? 'https://in.file')
    if (username !== '' || password !== '')
      refuse('url', 'must not contain a name or a password; give tokenFile')
    if (receiver !== null && body !== undefined)
      refuse('body', `${preset} has its own; remove preset or body`)
    if (receiver !== null && receiver.token === undefined && tokenFile !== undefined)
      refuse('tokenFile', `${preset} takes no token: its URL is the secret; give urlFile`)
    if (receiver?.token === 'needed' && tokenFile === undefined)
      refuse('preset', `${preset} needs a token; give tokenFile`)
    if ((receiver?.needsUser === true) !== (user !== undefined))
      refuse(
        'user',
        user === undefined ? `${preset} needs a user key; give user` : 'only for preset: pushover; remove it',
      )
    const own = Object.keys(headers).find((name) => OWN_HEADERS.test(name))
    if (own !== undefined) refuse('headers', `the agent sets ${own}; remove it`)
    const unknown = unknownPlaceholder(body)
    if (unknown !== undefined) refuse('body', `{{${unknown}}}: expected one of ${PLACEHOLDERS.join(', ')}`)
  },
  target(settings) {
    const url = fixedUrl(settings)
    return url === null ? `the URL in ${settings.urlFile}` : url.origin
  },
  create: async (settings, { version }) => createWebhook({ ...settings, version }),
})

/** ntfy: each incident as a push message to the phones that follow a topic (docs.ntfy.sh), by the webhook of its preset. */
export const ntfy = defineOutput({
  kind: 'ntfy',
  entries: {
    url: urlOf(
      /^https?:\/\/[^/?#]+\/([^?#]*\/)?[A-Za-z0-9_-]{1,64}$/,
      'a URL of http or https that ends with a topic',
      'The topic, such as https://ntfy.sh/a-name-that-is-hard-to-guess: anyone who knows it can read the incidents.',
    ),
    tokenFile: v.optional(path('A file whose first line is an access token.')),
  },
  create: async (settings, { version }) =>
    createWebhook({ ...settings, version, preset: 'ntfy', headers: {} }),
})

/** null: the URL is in `urlFile`. */
function fixedUrl({ url, urlFile, preset }: Pick<WebhookOptions, 'url' | 'urlFile' | 'preset'>): URL | null {
  if (urlFile !== undefined) return null
  return new URL(url ?? (preset === undefined ? undefined : RECEIVERS[preset].url) ?? '')
}

export interface WebhookOptions extends Omit<SettingsOf<'webhook', typeof entries>, 'kind'> {
  readonly version: string
  /** Silence after which an attempt has failed. */
  readonly patienceMillis?: number
}

const MAXIMUM_ANSWER_BYTES = 65_536
/** Bad Request, Content Too Large, Unprocessable Content (RFC 9110): the fault is in what was sent. */
const REFUSALS = [400, 413, 422]

/** Throws FileError if the certificates cannot be read. */
export function createWebhook(options: WebhookOptions): Output {
  const { preset, body, urlFile, tokenFile, user = '' } = options
  const receiver = preset === undefined ? null : RECEIVERS[preset]
  const fixed = fixedUrl(options)
  // the path is a part of the secret
  const shown =
    fixed === null ? `the URL in ${urlFile}` : `${fixed.origin}${receiver === null ? fixed.pathname : ''}`
  const sender: Sender = {
    shown,
    trusted: options.caFile === undefined ? {} : { ca: readCertificates(options.caFile) },
    patienceMillis: options.patienceMillis ?? ANSWER_MILLIS,
    signatureFile: options.signatureFile,
    headers: { ...options.headers, 'user-agent': `oddflow-agent/${options.version}` },
  }
  const url = (): URL => new URL(fixed ?? readUrl(urlFile ?? ''))
  const token = (): string => (tokenFile === undefined ? '' : readToken(tokenFile))
  const withToken = (contentType: string): Record<string, string> => {
    const bearer = token()
    return { 'content-type': contentType, ...(bearer === '' ? {} : { authorization: `Bearer ${bearer}` }) }
  }
  const postEvents = async ({ lines }: AlertBatch, signal: AbortSignal): Promise<string> => {
    const events = `[${lines.map((line) => new TextDecoder().decode(line)).join(',')}]`
    return post(sender, { url: url(), body: events, headers: withToken('application/json') }, signal)
  }
  const requestOf = (message: Message): ReceiverRequest => {
    if (receiver !== null) return receiver.request(message, { url: url(), token: token(), user })
    const type = typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json'
    return { url: url(), body: filled(body, message), headers: withToken(type) }
  }
  return {
    name: options.name,
    target: shown,
    batch: BATCH,
    deliver:
      receiver === null && body === undefined
        ? postEvents
        : oneByOne(async (message, signal) => post(sender, requestOf(message), signal)),
    async close() {},
  }
}

interface Sender {
  /** The URL without its secret part. */
  readonly shown: string
  readonly trusted: { readonly ca?: string[] }
  readonly patienceMillis: number
  readonly signatureFile: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

/** Resolves to the status. */
async function post(
  { shown, trusted, patienceMillis, signatureFile, headers: own }: Sender,
  { url, body, headers }: ReceiverRequest,
  signal: AbortSignal,
): Promise<string> {
  const { request } = url.protocol === 'https:' ? await import('node:https') : await import('node:http')
  return new Promise((resolve, reject) => {
    const fail = (what: string): void => reject(new Error(`${shown}: ${what}`))
    const bytes = Buffer.from(body)
    const signature =
      signatureFile === undefined ? {} : { 'x-hub-signature-256': signatureOf(bytes, signatureFile) }
    const outgoing = request(
      url,
      {
        method: 'POST',
        // alerts are rare: a kept connection would be closed before the next one
        agent: false,
        ...trusted,
        signal,
        headers: { ...headers, ...own, 'content-length': bytes.length, ...signature },
      },
      (response) => {
        const { statusCode = 0 } = response
        // at once: a server may close the connection before it has read all
        if (REFUSALS.includes(statusCode)) reject(new RefusedError(`${shown}: answered ${statusCode}`))
        const settle = (): void => {
          if (statusCode >= 200 && statusCode < 300) resolve(`answered ${statusCode}`)
          else fail(`answered ${statusCode}`)
        }
        let answerBytes = 0
        response.on('data', (piece: Buffer) => {
          answerBytes += piece.length
          if (answerBytes <= MAXIMUM_ANSWER_BYTES) return
          settle()
          outgoing.destroy()
        })
        response.on('error', (error) => fail(error.message))
        response.on('end', settle)
      },
    )
    const timer = setTimeout(
      () => outgoing.destroy(new Error(`no answer within ${patienceMillis / 1000} s`)),
      patienceMillis,
    )
    // also without an answer or an error, as at a change of protocol
    outgoing.on('close', () => {
      clearTimeout(timer)
      fail('ended the connection without an answer')
    })
    outgoing.on('error', (error) => fail(error.message))
    outgoing.end(bytes)
  })
}

function signatureOf(body: Uint8Array, file: string): string {
  return `sha256=${createHmac('sha256', readSecret(file)).update(body).digest('hex')}`
}

const PLACEHOLDERS = [
  'title',
  'summary',
  'level',
  'kind',
  'change',
  'device',
  'incident',
  'id',
  'time',
] as const
const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g

/** The text, or a value as JSON, with each text in it replaced; keys stay. */
function mapTexts(body: unknown, of: (text: string) => string): string {
  if (typeof body === 'string') return of(body)
  return JSON.stringify(body, (_, value) => (typeof value === 'string' ? of(value) : value))
}

function unknownPlaceholder(body: unknown): string | undefined {
  const names: string[] = []
  mapTexts(body, (text) => {
    names.push(...Array.from(text.matchAll(PLACEHOLDER), ([, name]) => name))
    return text
  })
  return names.find((name) => !PLACEHOLDERS.some((each) => each === name))
}

function filled(body: unknown, message: Message): string {
  const textFor = (_: string, name: (typeof PLACEHOLDERS)[number]): string => message[name]
  return mapTexts(body, (text) => text.replace(PLACEHOLDER, textFor))
}
