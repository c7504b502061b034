/** A server at home, whose certificate no public authority has signed: trusted by a CA file, and by nothing less. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { createMqtt } from '../../src/outputs/mqtt.js'
import { createWebhook } from '../../src/outputs/webhook.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { freePort, hasMosquitto, startBroker } from '../support/mosquitto.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const never = new AbortController().signal
const EVENTS = {
  name: 'hook',
  headers: {},
  version: '1',
}
const batch = { first: 0, lines: [new TextEncoder().encode('{}')] }

const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
const hasOpenssl = (() => {
  try {
    return openssl('version') !== null
  } catch {
    return false
  }
})()

if (hasOpenssl) {
  for (const name of ['ca', 'other'])
    openssl(
      ...`req -x509 -newkey ed25519 -nodes -keyout ${name}.key -out ${name}.pem -days 2 -subj /CN=${name}`.split(
        ' ',
      ),
    )
  openssl(...'req -newkey ed25519 -nodes -keyout server.key -out server.csr -subj /CN=server'.split(' '))
  writeFileSync(inFolder('names'), 'subjectAltName=IP:127.0.0.1')
  openssl(
    ...'x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names'.split(
      ' ',
    ),
  )
  writeFileSync(
    inFolder('both.pem'),
    `a comment\n${readFileSync(inFolder('other.pem'), 'utf8')}\n${readFileSync(inFolder('ca.pem'), 'utf8')}`,
  )
}

describe.skipIf(!hasOpenssl)('a CA file', () => {
  it('lets a webhook trust its authority, and no other', async () => {
    const options = { key: readFileSync(inFolder('server.key')), cert: readFileSync(inFolder('server.pem')) }
    const server = createServer(options, (_, response) => response.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const post = (caFile?: string): Promise<string> =>
      createWebhook({ ...EVENTS, url, caFile }).deliver(batch, never)
    await post(inFolder('ca.pem'))
    await post(inFolder('both.pem'))
    await expect(post(inFolder('other.pem'))).rejects.toThrow(/certificate|issuer/)
    await expect(post()).rejects.toThrow(/certificate|issuer/)
    await new Promise((resolve) => server.close(resolve))
  })

  it('lets MQTT trust its authority, and no other', async (context) => {
    if (!hasMosquitto) context.skip('mosquitto and mosquitto_sub are not installed')
    const port = await freePort()
    const broker = await startBroker(port, folder, undefined, [
      `certfile ${inFolder('server.pem')}`,
      `keyfile ${inFolder('server.key')}`,
      'user root',
    ])
    const attempt = async (caFile?: string): Promise<string | null> => {
      const output = await createMqtt({
        kind: 'mqtt',
        name: 'mqtt',
        url: `mqtts://127.0.0.1:${port}`,
        caFile,
        homeAssistant: false,
        answers: false,
        version: '1',
        hostname: 'gateway',
        alertFile: '/eve.json',
        clock: systemClock,
        log: keepingLog(),
      })
      let trouble: string | null = 'is not connected'
      for (let i = 0; i < 200 && trouble !== null && /is not connected/.test(trouble); i++) {
        await new Promise((resolve) => setTimeout(resolve, 50))
        trouble = await output.deliver(batch, never).then(
          () => null,
          (error: Error) => error.message,
        )
      }
      await output.close()
      return trouble
    }
    try {
      expect(await attempt(inFolder('ca.pem'))).toBe(null)
      expect(await attempt(inFolder('other.pem'))).toMatch(/certificate|issuer/)
      expect(await attempt()).toMatch(/certificate|issuer/)
    } finally {
      await broker.stop()
    }
  }, 60_000)

  it('without a whole certificate is an error that names the file', () => {
    writeFileSync(inFolder('empty.pem'), '')
    writeFileSync(inFolder('key.pem'), readFileSync(inFolder('ca.key')))
    writeFileSync(
      inFolder('cut.pem'),
      readFileSync(inFolder('ca.pem'), 'utf8').replace(/\n[^-\n]+\n-----END/, '\n-----END'),
    )
    for (const name of ['empty.pem', 'key.pem', 'cut.pem', 'none.pem']) {
      expect(() => createWebhook({ ...EVENTS, url: 'https://a/', caFile: inFolder(name) }), name).toThrow(
        /\.pem: (expected certificates in PEM|cannot read it)/,
      )
    }
  })
})
