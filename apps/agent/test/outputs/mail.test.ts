/** Mail to a real SMTP server of this machine (npm's smtp-server), with and without TLS. */
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/input/clocks.js'
import { startDelivery } from '../../src/outputs/delivery.js'
import { createMail, type MailSettings } from '../../src/outputs/mail.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'
import { keepingLog } from '../support/keeping-log.js'
import { hasProgram, makeCertificate } from '../support/programs.js'
import { idOf, incidentLine } from '../support/sample-incident.js'

const folder = temporaryFolder()
const never = new AbortController().signal
interface Mail {
  readonly from: string
  readonly to: readonly string[]
  readonly secure: boolean
  readonly user: string | undefined
  readonly text: string
}

/** Unfolds headers, and takes quoted-printable back. */
function readable(text: string): string {
  const [head, body = ''] = text.split(/\r\n\r\n(.*)/s)
  const plain = body
    .replace(/=\r\n/g, '')
    .replace(/(?:=[0-9A-F]{2})+/g, (codes) => Buffer.from(codes.replaceAll('=', ''), 'hex').toString())
  return `${head.replace(/\r\n[ \t]/g, ' ')}\r\n\r\n${plain}`
}

async function serving(
  options: SMTPServerOptions & { readonly refuses?: (text: string) => number | null },
  work: (port: number, mails: Mail[]) => Promise<void>,
): Promise<void> {
  const mails: Mail[] = []
  const { refuses = () => null, ...rest } = options
  const server = new SMTPServer({
    authOptional: true,
    disableReverseLookup: true,
    onAuth: ({ username, password }, _, done) =>
      password === 'right horse' ? done(null, { user: username ?? '' }) : done(new Error('wrong password')),
    onData(stream, session, done) {
      const pieces: Buffer[] = []
      stream.on('data', (piece: Buffer) => pieces.push(piece))
      stream.on('end', () => {
        const text = Buffer.concat(pieces).toString()
        const code = refuses(text)
        if (code !== null) {
          done(Object.assign(new Error('not this one'), { responseCode: code }))
          return
        }
        const { mailFrom, rcptTo } = session.envelope
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map((each) => each.address),
          secure: session.secure,
          user: session.user as string | undefined,
          text: readable(text),
        })
        done(null, 'queued as 1')
      })
    },
    ...rest,
  })
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work((server.server.address() as AddressInfo).port, mails)
  } finally {
    await new Promise<void>((resolve) => server.close(resolve))
  }
}

const openMail = (changes: Partial<MailSettings>, clock: Clock = systemClock, mailMillis?: number) =>
  createMail(
    {
      kind: 'mail',
      name: 'mail',
      url: 'smtp://127.0.0.1',
      from: 'oddflow@home.example',
      to: ['me@home.example', 'you@home.example'],
      maximumPerDay: 24,
      ...changes,
    },
    {
      version: '1.2.3',
      hostname: 'gateway',
      alertFile: 'eve.json',
      clock,
      log: keepingLog(),
    },
    mailMillis,
  )

describe('a mail', () => {
  it('is plain text of sentences, a thread for each incident', async () => {
    await serving({ disabledCommands: ['STARTTLS', 'AUTH'] }, async (port, mails) => {
      const output = await openMail({ url: `smtp://127.0.0.1:${port}` })
      const line = incidentLine()
      expect(await output.deliver({ first: 0, lines: [line] }, never)).toMatch(/^answered 250 .*queued as 1/)
      await output.close()
      expect(mails).toHaveLength(1)
      const [{ from, to, text }] = mails
      expect(from).toBe('oddflow@home.example')
      expect(to).toEqual(['me@home.example', 'you@home.example'])
      expect(text).toMatch(/^Subject: \[gateway\] Camera \(192\.0\.2\.23\): scan \(medium\)\r$/m)
      expect(text).toContain(`Message-ID: <${idOf(line)}@oddflow-agent>`)
      expect(text).toContain(`References: <${'cb12ab34'.repeat(4)}@oddflow-agent>`)
      expect(text).toMatch(/^Content-Type: text\/plain; charset=utf-8\r$/m)
      expect(text.split('was contacted on 16 ports')).toHaveLength(2)
      expect(text).toContain('What to do: Find the scanning device.')
      expect(text).toContain('More: oddflow-agent incidents show cb12ab34')
    })
  })

  it('of several messages is called after the gravest', async () => {
    await serving({ disabledCommands: ['STARTTLS', 'AUTH'] }, async (port, mails) => {
      const output = await openMail({ url: `smtp://127.0.0.1:${port}` })
      const lines = (['low', 'high', 'medium'] as const).map((level, i) =>
        incidentLine({ level, reports: i, kind: level === 'high' ? 'address-taken' : 'new-device' }),
      )
      await output.deliver({ first: 0, lines }, never)
      await output.close()
      expect(mails).toHaveLength(1)
      expect(mails[0].text).toMatch(
        /^Subject: \[gateway\] Camera \(192\.0\.2\.23\): address taken \(high\), and 2 more\r$/m,
      )
      expect(mails[0].text).toContain(`Message-ID: <${idOf(lines[1])}@oddflow-agent>`)
    })
  })

  it('carries no header, link or control character that a device put into its name', async () => {
    await serving({ disabledCommands: ['STARTTLS', 'AUTH'] }, async (port, mails) => {
      const output = await openMail({ url: `smtp://127.0.0.1:${port}` })
      const name = 'TV\r\nBcc: spy@evil.example\r\n\r\nhttps://evil.example/\u001b[2J\u202e'
      const device = { mac: null, address: '192.0.2.1', name }
      await output.deliver({ first: 0, lines: [incidentLine({ device, summary: `${name} spoke.` })] }, never)
      await output.close()
      const [{ to, text }] = mails
      expect(to).toEqual(['me@home.example', 'you@home.example'])
      expect(text).not.toMatch(/^Bcc:/m)
      expect(text).not.toMatch(/:\/\/|\u001b|\u202e/)
    })
  })

  it('is sent over TLS with a password, or not at all', async (context) => {
    if (!hasProgram('openssl')) context.skip('openssl is not installed')
    const pem = makeCertificate(folder)
    const passwordFile = join(folder, 'password')
    writeFileSync(passwordFile, 'right horse\n')
    const login = { username: 'me', passwordFile, caFile: join(folder, 'cert.pem') }
    const batch = { first: 0, lines: [incidentLine()] }
    for (const secure of [false, true]) {
      const scheme = secure ? 'smtps' : 'smtp'
      await serving({ ...pem, secure, authOptional: false }, async (port, mails) => {
        const url = `${scheme}://127.0.0.1:${port}`
        const output = await openMail({ url, ...login })
        await output.deliver(batch, never)
        await output.close()
        expect(mails).toMatchObject([{ secure: true, user: 'me' }])
        const untrusting = await openMail({ url, ...login, caFile: undefined })
        const failed = untrusting.deliver(batch, never)
        // one on this machine is spoken to without STARTTLS, and this one takes no mail without a login
        await expect(failed).rejects.toThrow(secure ? /certificate/ : /.../)
        await untrusting.close()
        writeFileSync(passwordFile, 'wrong\n')
        const locked = await openMail({ url, ...login })
        const refused = locked.deliver(batch, never)
        await expect(refused).rejects.toThrow(/wrong password|Invalid login/)
        await expect(refused).rejects.not.toMatchObject({ name: 'RefusedError' })
        await locked.close()
        writeFileSync(passwordFile, 'right horse\n')
        expect(mails).toHaveLength(1)
      })
    }
    await serving({ disabledCommands: ['STARTTLS'] }, async (port, mails) => {
      const output = await openMail({ url: `smtp://127.0.0.1:${port}`, ...login })
      await expect(output.deliver(batch, never)).rejects.toThrow(/STARTTLS/)
      await output.close()
      expect(mails).toEqual([])
    })
  })
})

describe('more mails than a day may have', () => {
  it('wait, and go out together on the next day, each event once', async () => {
    await serving({ disabledCommands: ['STARTTLS', 'AUTH'] }, async (port, mails) => {
      let micros = Date.parse('2026-03-01T12:00:00') * 1000
      const clock = { ...hastyClock, wallMicros: () => micros }
      const log = createMemoryLog({ maximumBytes: 1_000_000 })
      const output = await openMail({ url: `smtp://127.0.0.1:${port}`, maximumPerDay: 2 }, clock)
      const delivery = await startDelivery({ log, output, clock })
      const lines = Array.from({ length: 7 }, (_, i) => incidentLine({ reports: i + 1 }))
      for (const [i, line] of lines.entries()) {
        log.append(line)
        if (i < 2) await delivery.drained(never)
      }
      await expect
        .poll(() => delivery.lastError?.message ?? '')
        .toMatch(/2 mails were sent today \(maximumPerDay\)/)
      expect(mails).toHaveLength(2)
      expect(mails[0].text).not.toContain('What comes later')
      expect(mails[1].text).toContain('This is mail 2 of at most 2 today.')
      expect(delivery).toMatchObject({ delivered: 2, backlog: 5 })
      for (let days = 0; days < 10 && delivery.backlog > 0; days++) {
        micros += 86_400_000_000
        const before = delivery.backlog
        await expect.poll(() => delivery.backlog < before).toBe(true)
      }
      await delivery.drained(never)
      await delivery.stop()
      const shown = mails.flatMap(({ text }) => [...text.matchAll(/^Camera \(192\.0\.2\.23\): scan/gm)])
      expect(shown).toHaveLength(7)
      expect(mails.length).toBeLessThan(7)
    })
  })

  it('are counted by mails that people get: other events take none', async () => {
    await serving({ disabledCommands: ['STARTTLS', 'AUTH'] }, async (port, mails) => {
      const output = await openMail({ url: `smtp://127.0.0.1:${port}`, maximumPerDay: 1 })
      const alert = new TextEncoder().encode(
        JSON.stringify({ timestamp: '', alert: { signature: '' }, oddflow: { id: 'a', incident: 'b' } }),
      )
      for (let i = 0; i < 3; i++) expect(await output.deliver({ first: 0, lines: [alert] }, never)).toBe('')
      await output.deliver({ first: 0, lines: [incidentLine()] }, never)
      await output.close()
      expect(mails).toHaveLength(1)
    })
  })
})

it('a mail that the server refuses is set aside, and the others arrive', async () => {
  await serving(
    { disabledCommands: ['STARTTLS', 'AUTH'], refuses: (text) => (text.includes('number 3') ? 554 : null) },
    async (port, mails) => {
      const log = createMemoryLog({ maximumBytes: 1_000_000 })
      const told: string[] = []
      const output = await openMail({ url: `smtp://127.0.0.1:${port}` })
      const delivery = await startDelivery({
        log,
        output,
        clock: hastyClock,
        onSetAside: (_, { message }) => told.push(message),
      })
      for (let i = 1; i <= 5; i++) log.append(incidentLine({ reports: i, summary: `number ${i}` }))
      await delivery.drained(never)
      await delivery.stop()
      expect(delivery).toMatchObject({ delivered: 4, setAside: 1 })
      expect(told).toEqual([expect.stringMatching(/smtp:\/\/127\.0\.0\.1:\d+: .*not this one/)])
      const all = mails.map(({ text }) => text).join()
      expect([1, 2, 3, 4, 5].filter((n) => all.includes(`number ${n}`))).toEqual([1, 2, 4, 5])
    },
  )
})

it('a server that is silent is a failure, and the stop of the agent ends the wait', async () => {
  const { createServer } = await import('node:net')
  const server = createServer(() => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const output = await openMail({ url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}` })
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 50)
  await expect(output.deliver({ first: 0, lines: [incidentLine()] }, stop.signal)).rejects.toThrow('stopped')
  await output.close()
  server.close()
})

it('a server that says a byte now and then, without an end, is a failure, and is let go', async () => {
  const { createServer } = await import('node:net')
  let open = 0
  const server = createServer((socket) => {
    open++
    socket.on('error', () => undefined)
    socket.write('220 ready\r\n')
    const more = setInterval(() => socket.write('250-more\r\n'), 10)
    socket.on('close', () => {
      clearInterval(more)
      open--
    })
    socket.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const output = await openMail({ url: `smtp://127.0.0.1:${port}` }, systemClock, 200)
  await expect(output.deliver({ first: 0, lines: [incidentLine()] }, never)).rejects.toThrow(
    'did not take a mail within 0.2 s',
  )
  await expect.poll(() => open, { timeout: 5000 }).toBe(0)
  await output.close()
  server.close()
})
