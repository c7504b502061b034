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
import { type Message, sentenceOf } from './message.js'

export interface ReceiverRequest {
  readonly url: URL
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

interface Receiver {
  /** Where it is a fixed one. */
  readonly url?: string
  /** The secret is a token from a file, and not the URL. */
  readonly takesToken: boolean
  /** The token has to be given. */
  readonly needsToken?: boolean
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

export const RECEIVERS = {
  slack: {
    takesToken: false,
    request: (message, { url }) =>
      json(url, {
        text: `*${escaped(message.title)}*\n${escaped(sentenceOf(message))}`,
        unfurl_links: false,
        unfurl_media: false,
      }),
  },
  discord: {
    takesToken: false,
    request: (message, { url }) =>
      json(url, {
        content: `**${literal(message.title)}**\n${literal(sentenceOf(message))}`.slice(0, 2000),
        allowed_mentions: { parse: [] },
      }),
  },
  teams: {
    takesToken: false,
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
    takesToken: true,
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
    takesToken: true,
    needsToken: true,
    request: (message, { url, token }) =>
      json(
        url,
        { title: message.title, message: sentenceOf(message), priority: priority(message, GOTIFY) },
        { 'x-gotify-key': token },
      ),
  },
  pushover: {
    url: 'https://api.pushover.net/1/messages.json',
    takesToken: true,
    needsToken: true,
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
} as const satisfies Readonly<Record<string, Receiver>>

export type Preset = keyof typeof RECEIVERS

export function receiverOf(preset: Preset): Receiver {
  return RECEIVERS[preset]
}
