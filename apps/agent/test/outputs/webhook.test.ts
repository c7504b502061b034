/** Alerts by POST, to a real server of this machine. */
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { type Delivery, startDelivery } from '../../src/outputs/delivery.js'
import { createWebhook } from '../../src/outputs/webhook.js'
import { createMemoryLog } from '../../src/spool/alert-log.js'
import { temporaryFolder } from '../support/folder.js'
import { hastyClock } from '../support/hasty-clock.js'

const folder = temporaryFolder()
const linesOf = (...texts: string[]): Uint8Array[] => texts.map((text) => new TextEncoder().encode(text))
const never = new AbortController().signal

interface Seen {
  readonly url: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A server that gives these answers in turn; the last one is repeated. */
async function serving(
  answers: readonly ((response: ServerResponse) => void)[],
  work: (url: string, seen: Seen[]) => Promise<void>,
): Promise<void> {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      seen.push({ url: request.url ?? '', method: request.method ?? '', headers: request.headers, body })
      answers[Math.min(seen.length, answers.length) - 1](response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

const status =
  (code: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(code, headers).end('thanks')
  }
const EVENTS = { headers: {} }
const webhook = (url: string, tokenFile?: string, patienceMillis = 5000) =>
  createWebhook({
    ...EVENTS,
    name: 'hook',
    url,
    tokenFile,
    version: '1.2.3',
    patienceMillis,
  })

describe('a webhook', () => {
  it('gets a JSON array of events, with the token of the moment', async () => {
    const tokenFile = join(folder, 'token')
    await serving([status(204)], async (url, seen) => {
      const output = webhook(`${url}/alerts?who=me`, tokenFile)
      for (const token of ['first-secret', 'second-secret']) {
        writeFileSync(tokenFile, `${token}\nnot this\n`)
        await output.deliver({ first: 0, lines: linesOf('{"a":1}', '{"b":"ü"}') }, never)
      }
      expect(seen.map(({ headers }) => headers.authorization)).toEqual([
        'Bearer first-secret',
        'Bearer second-secret',
      ])
      expect(seen[0]).toMatchObject({
        method: 'POST',
        url: '/alerts?who=me',
        headers: { 'content-type': 'application/json', 'user-agent': 'oddflow-agent/1.2.3' },
      })
      expect(JSON.parse(seen[0].body)).toEqual([{ a: 1 }, { b: 'ü' }])
    })
  })

  it.each([
    ['an error', status(500), /^http:\/\/127\.0\.0\.1:\d+\/x: answered 500$/],
    ['a refusal', status(404), /answered 404$/],
    ['silence', () => undefined, /no answer within 0\.2 s$/],
    [
      'a long error',
      (response: ServerResponse) => response.writeHead(500).end('x'.repeat(200_000)),
      /answered 500$/,
    ],
    ['a broken connection', (response: ServerResponse) => response.destroy(), /\/x: /],
  ])('that answers with %s has not got them', async (what, answer, says) => {
    await serving([answer], async (url) => {
      const output = webhook(`${url}/x?key=hidden`, undefined, what === 'silence' ? 200 : undefined)
      const failed = output.deliver({ first: 0, lines: linesOf('{}') }, never)
      await expect(failed).rejects.toThrow(says)
      await expect(failed).rejects.not.toThrow(/hidden/)
    })
  })

  it('that answers 200 has got them, whatever length its text has', async () => {
    const endless = (response: ServerResponse): void => {
      const more = (): boolean => response.write('x'.repeat(10_000), () => more())
      more()
    }
    await serving([(response) => response.end('x'.repeat(200_000)), endless], async (url, seen) => {
      const output = webhook(url)
      for (let i = 0; i < 2; i++) await output.deliver({ first: i, lines: linesOf('{}') }, never)
      expect(seen).toHaveLength(2)
    })
  })

  it('that leads elsewhere is not followed', async () => {
    await serving([status(204)], async (elsewhere, followed) => {
      await serving([status(307, { location: elsewhere })], async (url) => {
        await expect(webhook(url).deliver({ first: 0, lines: linesOf('{}') }, never)).rejects.toThrow(
          /answered 307/,
        )
        expect(followed).toEqual([])
      })
    })
  })

  it('names the file of an invalid token, and quotes nothing of it', async () => {
    const tokenFile = join(folder, 'bad')
    for (const text of ['', 'two words of a secret\n', 's\u0000cret']) {
      writeFileSync(tokenFile, text)
      const failed = webhook('http://127.0.0.1:9', tokenFile).deliver(
        { first: 0, lines: linesOf('{}') },
        never,
      )
      await expect(failed).rejects.toThrow(/bad: expected a token/)
      await expect(failed).rejects.not.toThrow(/cret/)
    }
    await expect(
      webhook('http://127.0.0.1:9', join(folder, 'none')).deliver({ first: 0, lines: linesOf('{}') }, never),
    ).rejects.toThrow(/none: cannot read it: no such file/)
  })

  it('that is down for a while gets every alert once it is back, in order and in small posts', async () => {
    const log = createMemoryLog({ maximumBytes: 1_000_000 })
    await serving([status(503), status(503), status(200)], async (url, seen) => {
      const troubles: (string | null)[] = []
      const delivery = await startDelivery({
        log,
        output: webhook(url),
        clock: hastyClock,
        onError: (trouble) => troubles.push(trouble?.message ?? null),
      })
      for (let i = 0; i < 200; i++) log.append(new TextEncoder().encode(`{"n":${i}}`))
      await delivery.drained(never)
      await delivery.stop()
      const delivered = seen
        .slice(2)
        .map(({ body }) => (JSON.parse(body) as { n: number }[]).map(({ n }) => n))
      expect(delivered.flat()).toEqual(Array.from({ length: 200 }, (_, i) => i))
      expect(Math.max(...delivered.map(({ length }) => length))).toBe(64)
      expect(troubles).toEqual([`${url}/: answered 503`, null])
      expect(delivery).toMatchObject({ delivered: 200, dropped: 0, backlog: 0 })
    })
  })

  it('is let go at once when the agent stops', async () => {
    await serving([() => undefined], async (url) => {
      const stop = new AbortController()
      const failed = webhook(url).deliver({ first: 0, lines: linesOf('{}') }, stop.signal)
      setTimeout(() => stop.abort(), 50)
      await expect(failed).rejects.toThrow()
    })
  })
})

/** Numbered alerts to a receiver; its answer to each post is `answer`'s. */
async function deliverTo(
  count: number,
  answer: (numbers: readonly number[], posts: number) => number,
  enough: (delivery: Delivery, posts: number) => boolean = ({ backlog }) => backlog === 0,
  patienceMillis = 5000,
): Promise<{ delivery: Delivery; got: number[]; posts: number; told: string[]; trouble: Error | null }> {
  const got: number[] = []
  const told: string[] = []
  let posts = 0
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      const numbers = (JSON.parse(body) as { n: number }[]).map(({ n }) => n)
      const code = answer(numbers, posts++)
      if (code < 300) got.push(...numbers)
      // 0: silence
      if (code > 0) response.writeHead(code).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const log = createMemoryLog({ maximumBytes: 1_000_000 })
  const delivery = await startDelivery({
    log,
    output: webhook(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, undefined, patienceMillis),
    clock: hastyClock,
    onSetAside: (lines) => told.push(...lines.map((line) => new TextDecoder().decode(line))),
  })
  for (let i = 0; i < count; i++) log.append(new TextEncoder().encode(`{"n":${i}}`))
  try {
    for (let i = 0; i < 4000 && !enough(delivery, posts); i++) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    const { lastError: trouble } = delivery
    await delivery.stop()
    expect(delivery.delivered + delivery.setAside + delivery.backlog).toBe(count)
    return { delivery, got, posts, told, trouble }
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

describe('a receiver that refuses', () => {
  it.each([400, 413, 422])(
    'some alerts by %i gets all others in order; those are set aside and told',
    async (code) => {
      const bad = [0, 1, 5, 16]
      const { delivery, got, told } = await deliverTo(17, (numbers) =>
        numbers.some((n) => bad.includes(n)) ? code : 204,
      )
      expect(got).toEqual(Array.from({ length: 17 }, (_, i) => i).filter((n) => !bad.includes(n)))
      expect(told).toEqual(bad.map((n) => `{"n":${n}}`))
      expect(delivery).toMatchObject({ delivered: 13, setAside: 4, backlog: 0, lastError: null })
    },
  )

  it.each([413, 503])('more than a few at a time by %i gets all of them, a few at a time', async (code) => {
    const { delivery, got, posts } = await deliverTo(100, ({ length }) => (length > 3 ? code : 204))
    expect(got).toEqual(Array.from({ length: 100 }, (_, i) => i))
    expect(delivery.setAside).toBe(0)
    expect(posts).toBeLessThan(150)
  })

  it('more than a few at a time by silence gets all of them too', async () => {
    const answer = ({ length }: readonly number[]): number => (length > 3 ? 0 : 204)
    const { delivery, got } = await deliverTo(20, answer, undefined, 200)
    // a slow machine may have been silent for so long once more
    expect([...new Set(got)]).toEqual(Array.from({ length: 20 }, (_, i) => i))
    expect(delivery.setAside).toBe(0)
  })

  it('whatever alerts, of whatever number at a time: each is delivered once or set aside', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 150 }),
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 2, max: 9 }),
        async (count, most, every) => {
          const isBad = (n: number): boolean => (n * 7919) % every === 1
          const { got, told } = await deliverTo(count, (numbers) =>
            numbers.length > most ? 413 : numbers.some(isBad) ? 400 : 200,
          )
          const all = Array.from({ length: count }, (_, i) => i)
          expect(got).toEqual(all.filter((n) => !isBad(n)))
          expect(told).toHaveLength(count - got.length)
        },
      ),
      { numRuns: 15 },
    )
  })

  describe('everything', () => {
    let pauses: number[] = []
    beforeEach(() => {
      pauses = []
      vi.spyOn(hastyClock, 'sleep').mockImplementation((millis, signal) => {
        if (millis >= 500) pauses.push(millis)
        return systemClock.sleep(1, signal)
      })
    })
    afterEach(() => {
      vi.restoreAllMocks()
    })

    it('and is mended before the pauses have grown to a minute, gets all', async () => {
      const { got, delivery } = await deliverTo(50, () => (pauses.length < 7 ? 400 : 200))
      expect(got).toEqual(Array.from({ length: 50 }, (_, i) => i))
      expect(delivery.setAside).toBe(0)
    })

    it('for good is in trouble, and costs an alert a minute at most', async () => {
      const { delivery, trouble } = await deliverTo(
        50,
        () => 400,
        ({ setAside }) => setAside >= 3,
      )
      // before the first that is set aside, then before each
      expect(pauses.slice(0, 9)).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
      expect(delivery.setAside).toBeLessThanOrEqual(pauses.filter((millis) => millis === 60_000).length + 1)
      expect(trouble?.message).toMatch(/answered 400$/)
      expect(delivery.delivered).toBe(0)
    })
  })
})

describe('whatever a server does with the connection', () => {
  it.each([
    ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['nothing', ''],
    ['half an answer', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12'],
    ['an endless number of early answers', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000)],
    ['noise', '\u0000\u0001\u0002\r\n\r\n'],
  ])('%s is a failure, and soon', async (_, answer) => {
    for (const ends of [true, false]) {
      const server = createSocketServer((socket) => {
        socket.on('error', () => undefined)
        socket.once('data', () => (ends ? socket.end(answer) : socket.write(answer)))
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      const output = webhook(`http://127.0.0.1:${port}/a`, undefined, 300)
      const batch = { first: 0, lines: linesOf('{}') }
      await expect(output.deliver(batch as never, never)).rejects.toThrow(/^http:\/\/127\.0\.0\.1/)
      server.close()
    }
  })
})
