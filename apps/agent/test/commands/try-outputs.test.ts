/** A test incident through outputs to real receivers of this machine, and what doctor says came back. */
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tryOutputs } from '../../src/commands/doctor.js'
import { parseConfig } from '../../src/config/read-config.js'
import { settingsFrom } from '../../src/config/settings-from.js'
import { systemClock } from '../../src/input/clocks.js'
import { createOutput } from '../../src/outputs/registry.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { freePort, hasMosquitto, startBroker, subscribe } from '../support/mosquitto.js'
import { incidentLine } from '../support/sample-incident.js'

const folder = temporaryFolder()

function settingsOf(outputs: readonly string[]) {
  const text = `interface: eth0\nmodel: a\neve: eve.json\noutputs:\n${outputs.map((each) => `  - {${each}}\n`).join('')}`
  return settingsFrom({ fold: true, config: join(folder, 'agent.yaml') }, parseConfig(text))
}
const tried = async (...outputs: string[]): Promise<string[]> =>
  (await tryOutputs(settingsOf(outputs), systemClock, keepingLog())).map(
    ({ state, detail }) => `${state} ${detail}`,
  )

it('says of each output what its receiver answered, or why it has not got it', async () => {
  const bodies: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      body += piece
    })
    request.on('end', () => {
      bodies.push(body)
      response.writeHead(request.url === '/closed' ? 403 : request.url === '/odd' ? 422 : 200).end()
    })
  })
  const receiver = createSocketServer((socket) => socket.resume())
  for (const each of [server, receiver]) {
    await new Promise<void>((resolve) => each.listen(0, '127.0.0.1', resolve))
  }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { port } = receiver.address() as AddressInfo
  try {
    const said = await tried(
      `kind: webhook, url: '${url}/open'`,
      `kind: webhook, name: closed, url: '${url}/closed'`,
      `kind: webhook, name: odd, url: '${url}/odd'`,
      `kind: ntfy, url: '${url}/home-1'`,
      `kind: syslog, protocol: tcp, host: 127.0.0.1, port: ${port}`,
      `kind: syslog, name: nobody, protocol: tcp, host: 127.0.0.1, port: 9`,
      `kind: webhook, name: keyless, url: '${url}/open', tokenFile: none`,
      `kind: mail, url: 'smtp://127.0.0.1:9', from: a@example.org, to: [b@example.org]`,
    )
    expect(said).toEqual([
      `ok webhook: ${url}: answered 200`,
      `missing closed: ${url}/closed: answered 403`,
      `missing odd: ${url}/odd: answered 422`,
      `ok ntfy: ${url}: answered 200`,
      `ok syslog: tcp://127.0.0.1:${port}: read to the end by the receiver`,
      expect.stringMatching(/^missing nobody: tcp:\/\/127\.0\.0\.1:9: .*ECONNREFUSED/),
      expect.stringMatching(/^missing keyless: .*none: cannot read it/),
      expect.stringMatching(/^missing mail: smtp:\/\/127\.0\.0\.1:9: .*ECONNREFUSED/),
    ])
    const [event] = bodies.map((body) => JSON.parse(body)).find(Array.isArray) ?? []
    expect(event).toMatchObject({ alert: { signature_id: 1_790_059 }, oddflow: { test: true } })
    const push = bodies.map((body) => JSON.parse(body)).find((body) => body.topic === 'home-1')
    expect(push.message).toMatch(/^This is a test by oddflow-agent on .*Nothing has happened\./)
  } finally {
    server.closeAllConnections()
    server.close()
    receiver.close()
  }
})

it('leaves the session of a running agent with the broker alone', async (context) => {
  if (!hasMosquitto) context.skip('mosquitto and mosquitto_sub are not installed')
  const port = await freePort()
  const keys = `kind: mqtt, url: 'mqtt://127.0.0.1:${port}', prefix: gw`
  expect(await tried(keys)).toEqual([expect.stringMatching(/^missing mqtt: .*ECONNREFUSED/)])
  const broker = await startBroker(port, folder)
  const subscriber = await subscribe(port)
  const [settings] = settingsOf([keys]).outputs
  const running = await createOutput(settings, {
    version: '1',
    hostname: 'h',
    alertFile: 'eve.json',
    clock: systemClock,
    log: keepingLog(),
  })
  const statuses = (): string[] =>
    subscriber.messages.filter(([topic]) => topic === 'gw/status').map(([, payload]) => payload)
  try {
    await subscriber.until(() => statuses().length === 1)
    expect(await tried(keys)).toEqual([
      `ok mqtt: mqtt://127.0.0.1:${port}: acknowledged by the broker (MQTT 5)`,
    ])
    await subscriber.until((messages) => messages.some(([topic]) => topic === 'gw/alerts'))
    await running.deliver({ first: 0, lines: [incidentLine()] }, new AbortController().signal)
    expect(statuses()).toEqual(['online'])
  } finally {
    await running.close()
    await subscriber.stop()
    await broker.stop()
  }
})
