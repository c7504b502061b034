/**
 * Mail: incidents as plain text over SMTP (npm's nodemailer), with TLS: `smtps:` from the start (port 465), `smtp:` by STARTTLS
 * (port 587). Only a server on this machine gets mail without TLS (port 25), unless caFile is given.
 *
 * A mail is delivered when the server answers 250; a mail that it refuses (5xx after the text) is set aside. The messages of a batch are
 * one mail, and the mails of an incident are a thread. After `maximumPerDay` mails in a day, the rest goes out on the next day.
 */
import * as v from 'valibot'
import { systemClock } from '../input/clocks.js'
import { answeredWithin } from '../pipeline/shutdown.js'
import { adviceText, type Message, messagesOf } from './message.js'
import {
  ANSWER_MILLIS,
  defineOutput,
  LOOPBACK,
  type Output,
  type OutputEnvironment,
  path,
  RefusedError,
  readCertificates,
  readSecret,
  type SettingsOf,
  text,
  urlOf,
  whole,
} from './output.js'

const address = v.pipe(
  v.string(),
  v.maxLength(254),
  v.regex(/^[^\s<>@,;:"()[\]\\]+@[A-Za-z0-9.-]+$/, 'a mail address'),
)

const entries = {
  url: urlOf(
    /^smtps?:\/\/(\[[0-9a-fA-F:]+\]|[^/?#@:]+)(:\d+)?\/?$/,
    'smtps://HOST, or smtp://HOST for STARTTLS, with a port at most',
    'The mail server, such as smtps://mail.example.org.',
  ),
  username: v.optional(text('Name to log in with.')),
  passwordFile: v.optional(path('A file whose first line is the password.')),
  from: v.pipe(address, v.description('Address of the sender.')),
  to: v.pipe(
    v.array(address),
    v.minLength(1),
    v.maxLength(16),
    v.description('Addresses of the recipients.'),
  ),
  maximumPerDay: v.optional(
    whole(1, 10_000, 'Maximum number of mails per day (24). Later messages go out together on the next day.'),
    24,
  ),
}
export type MailSettings = SettingsOf<'mail', typeof entries>

export const mail = defineOutput({
  kind: 'mail',
  entries,
  check({ username, passwordFile }, refuse) {
    if ((username === undefined) === (passwordFile === undefined)) return
    refuse(
      username === undefined ? 'passwordFile' : 'username',
      'username and passwordFile belong together; give both',
    )
  },
  memoryBytes: 16 * 1_048_576,
  create: (settings, environment) => createMail(settings, environment),
})

const MAIL_BATCH = 32
/** For a whole mail: a server that sends a byte now and then is never silent. */
const MAIL_MILLIS = 60_000
const FIRST_REFUSAL = 500
const LEVELS = ['low', 'medium', 'high']

export async function createMail(
  settings: MailSettings,
  environment: OutputEnvironment,
  mailMillis = MAIL_MILLIS,
): Promise<Output> {
  const { url, maximumPerDay, passwordFile } = settings
  const { hostname, clock, log } = environment
  const { createTransport } = await import('nodemailer')
  const transport = createTransport(connectionOf(settings))
  // an unreadable password is an error at the start
  if (passwordFile !== undefined) readSecret(passwordFile)
  let day = ''
  let sentToday = 0
  const send = async (messages: readonly Message[], signal: AbortSignal): Promise<string> => {
    const isLast = sentToday + 1 >= maximumPerDay
    const mail = { ...mailOf(settings, hostname, messages, isLast), signal }
    const { response, rejected } = await transport.sendMail(mail)
    if (rejected.length > 0)
      log.warn(`${url}: refuses ${rejected.length} of the recipients: ${rejected.join(', ')}`)
    return `answered ${response}`
  }
  return {
    name: settings.name,
    target: url,
    batch: MAIL_BATCH,
    async deliver(batch, signal) {
      const messages = messagesOf(batch)
      if (messages.length === 0) return ''
      const now = new Date(clock.wallMicros() / 1000).toDateString()
      if (now !== day) sentToday = 0
      day = now
      if (sentToday >= maximumPerDay) {
        throw new Error(
          `${url}: ${maximumPerDay} mails were sent today (maximumPerDay); the others wait until tomorrow`,
        )
      }
      try {
        const why = `did not take a mail within ${mailMillis / 1000} s`
        const answer = await answeredWithin(systemClock, mailMillis, signal, why, (limit) =>
          send(messages, limit),
        )
        sentToday++
        return answer
      } catch (error) {
        throw refusalOf(url, error as Error & { code?: string; responseCode?: number })
      }
    },
    async close() {
      transport.close()
    },
  }
}

function connectionOf({ url, caFile }: MailSettings) {
  const { protocol, hostname: host, port } = new URL(url)
  const isOwn = protocol === 'smtp:' && LOOPBACK.test(host) && caFile === undefined
  return {
    host: host.replace(/^\[|\]$/g, ''),
    port: Number(port) || (protocol === 'smtps:' ? 465 : isOwn ? 25 : 587),
    secure: protocol === 'smtps:',
    ...(isOwn ? { ignoreTLS: true } : { requireTLS: true }),
    ...(caFile === undefined ? {} : { tls: { ca: readCertificates(caFile) } }),
    connectionTimeout: ANSWER_MILLIS,
    greetingTimeout: ANSWER_MILLIS,
    socketTimeout: ANSWER_MILLIS,
    dnsTimeout: ANSWER_MILLIS,
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

/** @param isLast - of today, which it says. */
function mailOf(
  { from, to, maximumPerDay, username, passwordFile }: MailSettings,
  hostname: string,
  messages: readonly Message[],
  isLast: boolean,
) {
  // the subject is about the most severe
  const { id, incident, title } = messages.reduce((lead, each) =>
    LEVELS.indexOf(each.level) > LEVELS.indexOf(lead.level) ? each : lead,
  )
  const more = messages.length === 1 ? '' : `, and ${messages.length - 1} more`
  const last = `This is mail ${maximumPerDay} of at most ${maximumPerDay} today. Later incidents are mailed tomorrow; "oddflow-agent incidents list" shows them now.`
  return {
    from: { name: 'OddFlow', address: from },
    to: [...to],
    subject: `[${hostname}] ${title}${more}`,
    text: [...messages.map(paragraphs), ...(isLast ? [last] : [])].join('\n\n\n'),
    messageId: `<${id}@oddflow-agent>`,
    ...(incident === '' ? {} : { references: `<${incident}@oddflow-agent>` }),
    headers: { 'auto-submitted': 'auto-generated' },
    // read for each mail, so that the file can be replaced
    ...(username === undefined || passwordFile === undefined
      ? {}
      : { auth: { user: username, pass: readSecret(passwordFile) } }),
  }
}

/** A failed login or an unknown recipient is no refusal of the text. */
function refusalOf(url: string, error: Error & { code?: string; responseCode?: number }): Error {
  const message = `${url}: ${error.message}`
  const isRefusal = error.code === 'EMESSAGE' && (error.responseCode ?? 0) >= FIRST_REFUSAL
  return isRefusal ? new RefusedError(message) : new Error(message)
}

function paragraphs(message: Message): string {
  const { title, time, summary, facts, incident } = message
  const parts = [
    `${title}\n${time.slice(0, 19).replace('T', ' ')} UTC`,
    summary,
    facts.map((fact) => `- ${fact}`).join('\n'),
    adviceText(message),
    incident === '' ? '' : `More: oddflow-agent incidents show ${incident.slice(0, 8)}`,
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}
