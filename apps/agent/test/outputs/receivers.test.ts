/** What receivers of messages get: each as its documentation has it, from a configuration and over HTTP. */
import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/read-config.js'
import { settingsFrom } from '../../src/config/settings-from.js'
import { systemClock } from '../../src/input/clocks.js'
import { createOutput, targetOf } from '../../src/outputs/registry.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { idOf, incidentLine } from '../support/sample-incident.js'

const folder = temporaryFolder()
const never = new AbortController().signal
writeFileSync(join(folder, 'token'), 'tk_secret\n')
const SENTENCE =
  'Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66. What to do: Find the scanning device. If you did not start the scan, disconnect it. [incident cb12ab34]'
const TITLE = 'Camera (192.0.2.23): scan (medium)'

interface Seen {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Delivers to a server what a configuration asks for; `URL` in it is the server's address. */
async function delivered(
  keys: string,
  lines: readonly Uint8Array[] = [incidentLine()],
  status: (seen: Seen) => number = () => 200,
): Promise<{ seen: Seen[]; answer: string | Error; target: string }> {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      const one = { url: request.url ?? '', headers: request.headers, body }
      seen.push(one)
      response.writeHead(status(one)).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  writeFileSync(join(folder, 'url'), `${url}/services/T0/B0/secret\n`)
  try {
    const [output] = outputsOf(keys.replaceAll('URL', url))
    const open = await createOutput(output, {
      version: '1.2.3',
      hostname: 'gateway',
      alertFile: 'eve.json',
      clock: systemClock,
      log: keepingLog(),
    })
    const answer = await open.deliver({ first: 0, lines }, never).catch((error: Error) => error)
    await open.close()
    return { seen, answer, target: open.target }
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

function outputsOf(keys: string) {
  const text = `interface: eth0\nmodel: a.oddflow\neve: eve.json\noutputs:\n  - {${keys}}\n`
  return settingsFrom({ fold: true, config: join(folder, 'agent.yaml') }, parseConfig(text)).outputs
}

/** Strict: a field that the documentation does not have would fail. */
const text = v.pipe(v.string(), v.minLength(1))
const SHAPES = {
  slack: v.strictObject({ text, unfurl_links: v.boolean(), unfurl_media: v.boolean() }),
  discord: v.strictObject({
    content: v.pipe(text, v.maxLength(2000)),
    allowed_mentions: v.strictObject({ parse: v.tuple([]) }),
  }),
  teams: v.strictObject({
    type: v.literal('message'),
    attachments: v.tuple([
      v.strictObject({
        contentType: v.literal('application/vnd.microsoft.card.adaptive'),
        contentUrl: v.null(),
        content: v.strictObject({
          $schema: text,
          type: v.literal('AdaptiveCard'),
          version: v.literal('1.4'),
          body: v.array(
            v.strictObject({
              type: v.literal('TextBlock'),
              text,
              wrap: v.literal(true),
              weight: v.optional(v.picklist(['Bolder'])),
            }),
          ),
        }),
      }),
    ]),
  }),
  ntfy: v.strictObject({
    topic: v.pipe(v.string(), v.regex(/^[-_A-Za-z0-9]{1,64}$/)),
    title: text,
    message: text,
    priority: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(5)),
    tags: v.array(text),
  }),
  gotify: v.strictObject({ title: text, message: text, priority: v.pipe(v.number(), v.integer()) }),
}

describe('a preset', () => {
  it.each([
    ['slack', 'urlFile: url', '/services/T0/B0/secret'],
    ['discord', 'urlFile: url', '/services/T0/B0/secret'],
    ['teams', 'urlFile: url', '/services/T0/B0/secret'],
    ['ntfy', "url: 'URL/base/home-1', tokenFile: token", '/base/'],
    ['gotify', "url: 'URL/message', tokenFile: token", '/message'],
  ] as const)('%s posts JSON of its shape, with the sentence', async (preset, keys, path) => {
    const { seen, answer, target } = await delivered(`kind: webhook, preset: ${preset}, ${keys}`)
    expect(answer).toBe('answered 200')
    expect(seen).toHaveLength(1)
    expect(seen[0].url).toBe(path)
    expect(seen[0].headers['content-type']).toBe('application/json')
    const body = v.parse(SHAPES[preset] as v.GenericSchema, JSON.parse(seen[0].body))
    expect(JSON.stringify(body).replaceAll('\\\\', '')).toContain(SENTENCE)
    expect(target).not.toContain('secret')
    const secret = { ntfy: seen[0].headers.authorization, gotify: seen[0].headers['x-gotify-key'] }
    expect(secret).toEqual({
      ntfy: preset === 'ntfy' ? 'Bearer tk_secret' : undefined,
      gotify: preset === 'gotify' ? 'tk_secret' : undefined,
    })
  })

  it('pushover posts a form', async () => {
    const { seen } = await delivered(
      "kind: webhook, preset: pushover, url: 'URL/1/messages.json', tokenFile: token, user: u1",
    )
    expect(seen[0].headers['content-type']).toBe('application/x-www-form-urlencoded')
    expect(Object.fromEntries(new URLSearchParams(seen[0].body))).toEqual({
      token: 'tk_secret',
      user: 'u1',
      title: TITLE,
      message: SENTENCE,
      priority: '0',
    })
    // its own address where none is given
    const [output] = outputsOf('kind: webhook, preset: pushover, tokenFile: token, user: u1')
    expect(targetOf(output)).toBe('https://api.pushover.net')
  })

  it('escapes what the receiver would read as markup', async () => {
    const line = incidentLine({ summary: '<!channel> *a* [b](c) & @everyone' })
    const slack = await delivered('kind: webhook, preset: slack, urlFile: url', [line])
    expect(JSON.parse(slack.seen[0].body).text).toContain('&lt;!channel&gt; *a* [b](c) &amp; @everyone')
    const discord = await delivered('kind: webhook, preset: discord, urlFile: url', [line])
    expect(JSON.parse(discord.seen[0].body).content).toContain('\\*a\\* \\[b\\]\\(c\\)')
  })

  it('says how urgent a message is', async () => {
    const priorityOf = async (keys: string, line: Uint8Array): Promise<number> =>
      JSON.parse((await delivered(keys, [line])).seen[0].body).priority
    const ntfy = "kind: ntfy, url: 'URL/home-1'"
    expect(await priorityOf(ntfy, incidentLine({ level: 'low' }))).toBe(3)
    expect(await priorityOf(ntfy, incidentLine({ level: 'high' }))).toBe(5)
    expect(await priorityOf(ntfy, incidentLine({ level: 'high' }, 'over'))).toBe(2)
  })

  it('that fails midway sends the rest, and nothing twice', async () => {
    const lines = [1, 2, 3].map((reports) => incidentLine({ reports, summary: `number ${reports}` }))
    let isDown = true
    const { seen, answer } = await delivered("kind: ntfy, url: 'URL/home-1'", lines, ({ body }) =>
      isDown && body.includes('number 2') ? 503 : 200,
    )
    expect(String(answer)).toMatch(/answered 503$/)
    isDown = false
    expect(seen.map(({ body }) => JSON.parse(body).message)).toEqual([
      expect.stringContaining('number 1'),
      expect.stringContaining('number 2'),
    ])
  })
})

describe('a body of the configuration', () => {
  it('has placeholders in its texts replaced, and stays JSON whatever is in them', async () => {
    const line = incidentLine({ summary: 'a "quoted" \\ sentence' })
    const { seen } = await delivered(
      "kind: webhook, url: 'URL/x', headers: {X-Room: home}, body: {msg: 'now: {{summary}}', tags: ['{{ level }}', x], n: 3, ref: '{{id}}'}",
      [line],
    )
    expect(JSON.parse(seen[0].body)).toEqual({
      msg: 'now: a "quoted" \\ sentence',
      tags: ['medium', 'x'],
      n: 3,
      ref: idOf(line),
    })
    expect(seen[0].headers['x-room']).toBe('home')
  })

  it('may be a text', async () => {
    const { seen } = await delivered("kind: webhook, url: 'URL/x', body: '{{title}} ({{change}})'")
    expect(seen[0].body).toBe(`${TITLE} (opened)`)
    expect(seen[0].headers['content-type']).toBe('text/plain; charset=utf-8')
  })
})

describe('a signature', () => {
  it('is the one of GitHub’s documentation ("Validating webhook deliveries")', async () => {
    writeFileSync(join(folder, 'key'), "It's a Secret to Everybody\n")
    const { seen } = await delivered("kind: webhook, url: 'URL/x', body: 'Hello, World!', signatureFile: key")
    expect(seen[0].headers['x-hub-signature-256']).toBe(
      'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
    )
  })

  it('covers the array of events too', async () => {
    writeFileSync(join(folder, 'key'), 'k\n')
    const { seen } = await delivered("kind: webhook, url: 'URL/x', signatureFile: key")
    expect(JSON.parse(seen[0].body)).toHaveLength(1)
    expect(seen[0].headers['x-hub-signature-256']).toBe(
      `sha256=${createHmac('sha256', 'k').update(seen[0].body).digest('hex')}`,
    )
  })
})

describe('a configuration', () => {
  it.each([
    ['kind: webhook', /url: is missing; give url or urlFile/],
    ["kind: webhook, url: 'http://a/', urlFile: url", /urlFile: url is given too/],
    ["kind: webhook, preset: slack, url: 'https://a/', tokenFile: token", /tokenFile: slack takes no token/],
    ["kind: webhook, preset: gotify, url: 'https://a/'", /preset: gotify needs a token/],
    ['kind: webhook, preset: pushover, tokenFile: token', /user: pushover needs a user key/],
    ["kind: webhook, url: 'https://a/', user: u", /user: only for preset: pushover/],
    ["kind: webhook, preset: slack, urlFile: url, body: 'x'", /body: slack has its own/],
    [
      "kind: webhook, url: 'https://a/', body: {a: ['{{sumary}}']}",
      /body: \{\{sumary\}\}: expected one of title/,
    ],
    ["kind: webhook, url: 'https://a/', headers: {Host: x}", /headers: the agent sets Host/],
    ["kind: ntfy, url: 'https://ntfy.sh/'", /url/],
  ])('%s is refused', (keys, says) => {
    expect(() => {
      const { errors } = parseConfig(`outputs:\n  - {${keys}}\n`)
      if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join())
      outputsOf(keys)
    }).toThrow(says)
  })

  it('with an invalid URL file names the file, and quotes nothing of it', async () => {
    for (const held of ['http://192.0.2.1/secret', 'secret', 'ftp://secret/']) {
      const { answer } = await deliveredWith(held)
      expect(String(answer)).toMatch(/other: expected a URL of https in its first line/)
      expect(String(answer)).not.toContain('secret')
    }
  })
})

async function deliveredWith(held: string): Promise<{ answer: string | Error }> {
  writeFileSync(join(folder, 'other'), `${held}\n`)
  return delivered('kind: webhook, preset: slack, urlFile: other')
}
