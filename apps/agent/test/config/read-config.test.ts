import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFAULT_SUMMARY_TIMEOUTS } from '@oddflow/flows'
import { toJsonSchema } from '@valibot/to-json-schema'
import { parse } from 'valibot'
import { describe, expect, it } from 'vitest'
import { parseConfig, readConfig } from '../../src/config/read-config.js'
import { ConfigSchema, pathText } from '../../src/config/settings.js'
import { parseListen, type RunOptions, settingsFrom } from '../../src/config/settings-from.js'
import { temporaryFolder } from '../support/folder.js'

const errorsOf = (text: string): string[] =>
  parseConfig(text).errors.map(({ line, column, message }) => `${line}:${column}: ${message}`)

describe('a configuration', () => {
  it('is YAML, and every key may be left out', () => {
    expect(parseConfig('')).toMatchObject({ config: {}, errors: [] })
    expect(parseConfig('# nothing\n').config).toEqual(parse(ConfigSchema, {}))
    const { config } = parseConfig(
      'interface: eth0\nmodel: home.oddflow\nfold: false\nmemoryLimit: 96M\nsuppress:\n  - name: ntp\n    port: 123\n',
    )
    expect(config).toMatchObject({
      interface: 'eth0',
      model: 'home.oddflow',
      fold: false,
      memoryLimit: '96M',
      suppress: [{ name: 'ntp', port: 123 }],
    })
  })

  it.each([
    ['modle: home.oddflow\n', ['1:1: modle: no such key']],
    ['model: a\n\nsuppress:\n  - name: x\n    prot: tcp\n', ['5:5: suppress[0].prot: no such key']],
    ['suppress:\n  - port: 123\n', [/^2:5: suppress\[0\]\.name: expected "?name"?, found undefined/]],
    ['memoryLimit: -1\n', [/^1:1: memoryLimit: expected /]],
    ['fold:\n  windowSeconds: 0\n', [/^1:1|^2:3/]],
    ['suppress:\n  - name: x\n    port: 70000\n', ['3:5: suppress[0].port: expected <=65535, found 70000']],
    [
      'suppress:\n  - name: x\n    days: [mon, noday]\n',
      [/^3:17: suppress\[0\]\.days\[1\]: expected .*"mon".*, found "noday"/],
    ],
    ['outputs: [{kind: webhook, url: "file:///etc/passwd"}]\n', [/^1:27: outputs\[0\]\.url: /]],
    ['outputs: [{kind: pigeon}]\n', [/^1:11|^1:12/]],
    ['model: a\nmodel: b\n', [/^2:1: duplicate key$/]],
    ['fold: { seconds: 1, seconds: 2 }\n', [/^1:21: duplicate key$/]],
    ['model: "a\n', [/^\d+:\d+: /]],
    ['model: a\n---\nmodel: b\n', [/^2:1: expected one document, found "---"/]],
    ['- a\n', [/^1:1: expected keys with values/]],
    ['a\n', [/^1:1: expected keys with values/]],
    [
      'a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n',
      [/^1:1: Excessive alias count/],
    ],
  ])('%j is refused at its line and column', (text, expected) => {
    const found = errorsOf(text)
    expect(found).toHaveLength(expected.length)
    for (const [i, wanted] of expected.entries()) {
      expect(found[i]).toEqual(typeof wanted === 'string' ? wanted : expect.stringMatching(wanted))
    }
  })

  it('is looked through in time that grows with its length alone', () => {
    const text = Array.from({ length: 100_000 }, (_, i) => `k${i}: 1\n`).join('')
    const before = process.cpuUsage()
    expect(errorsOf(text)).toEqual(['1:1: k0: no such key'])
    // the search for repeated keys of the parser itself takes a minute
    expect(process.cpuUsage(before).user).toBeLessThan(15e6)
  })

  it('is refused with every wrong value and the first unknown key at once', () => {
    expect(errorsOf('one: 1\ntwo: 2\nmodel: 3\neve: 4\n')).toHaveLength(3)
  })
})

describe('settings', () => {
  const options = (more: Partial<RunOptions> = {}): RunOptions => ({
    fold: true,
    config: '/etc/oddflow/agent.yaml',
    ...more,
  })
  const base = 'interface: eth0\nmodel: home.oddflow\neve: eve.json\n'
  const settings = (text: string, more: Partial<RunOptions> = {}) =>
    settingsFrom(options(more), parseConfig(text))

  it('have models that are made here, with devices, and without one that is given', () => {
    const text = 'interface: eth0\neve: eve.json\nstate: /var/lib/agent\n'
    expect(settings(`${text}models: {}\n`)).toMatchObject({
      model: null,
      models: {
        per: 'device',
        files: {},
        features: { set: 'flow-summary' },
        maximum: 64,
      },
      devices: { approve: 'manual', learnFlows: 100 },
    })
    expect(settings(text, { models: 'all' }).models).toMatchObject({ per: 'all' })
    expect(
      settings(
        `${text}models: { per: group, groups: { cams: ['02:AA:00:00:00:01'] }, files: { cams: c.oddflow } }\n`,
      ).models,
    ).toMatchObject({ groups: { cams: ['02:aa:00:00:00:01'] }, files: { cams: '/etc/oddflow/c.oddflow' } })
    expect(settings(base).models).toBe(null)
  })

  it('make rows of whole flows, and of first packets where that is asked for or models learn on', () => {
    const text = 'interface: eth0\neve: eve.json\nstate: /var/lib/agent\nmodels: '
    const features = (given: string, more = '') =>
      settings(`${text}{ features: ${given} }\n${more}`).models?.features
    const { idleTimeoutMicros, activeTimeoutMicros } = DEFAULT_SUMMARY_TIMEOUTS
    const wholeFlows = {
      set: 'flow-summary',
      cutSeconds: activeTimeoutMicros === null ? null : activeTimeoutMicros / 1e6,
      idleSeconds: idleTimeoutMicros / 1e6,
    }
    for (const given of ['{}', '{ set: flow-summary }']) expect(features(given)).toMatchObject(wholeFlows)
    expect(features('{}', 'learning: { online: false }\n')).toMatchObject(wholeFlows)
    expect(features('{ cutSeconds: 30, idleSeconds: 9 }')).toMatchObject({
      set: 'flow-summary',
      cutSeconds: 30,
      idleSeconds: 9,
    })
    const firstPackets = { set: 'iat-size', packetsPerFlow: 10, cutSeconds: 5, idleSeconds: 60 }
    expect(features('{ set: iat-size, cutSeconds: 5 }')).toEqual(firstPackets)
    expect(features('{ cutSeconds: 5 }', 'learning: { online: true }\n')).toEqual(firstPackets)
    for (const given of ['{ packetsPerFlow: 5 }', '{ set: flow-summary, packetsPerFlow: 5 }']) {
      expect(() => features(given)).toThrow(
        /:4:\d+: models.features.packetsPerFlow: only for set: iat-size, because flow-summary/,
      )
    }
    expect(() => features('{ set: flow-summary }', 'learning: { online: true }\n')).toThrow(
      /:4:\d+: models.features.set: flow-summary models cannot learn online; use iat-size/,
    )
  })

  it('look for names of peers where outputs that there are are to have them', () => {
    const text = 'interface: eth0\neve: eve.json\nmodel: a\nstate: /var/lib/agent\n'
    expect(settings(text).peerNames).toBe(null)
    expect(settings(`${text}devices: {}\npeerNames: [eve]\n`).peerNames).toEqual(['eve'])
    expect(() => settings(`${text}devices: {}\npeerNames: [chat]\n`)).toThrow(
      /:6:\d+: peerNames\[0\]: there is no output chat; expected one of eve/,
    )
    expect(() => settings(`${text}peerNames: []\n`)).toThrow(/:5:\d+: peerNames: .*give devices/)
  })

  it('learn on only where it is asked for', () => {
    const text = 'interface: eth0\neve: eve.json\nstate: /var/lib/agent\nmodels: {}\n'
    expect(settings(text).learning).toBe(null)
    expect(settings(`${text}learning: { online: false, rowsPerHour: 5 }\n`).learning).toBe(null)
    expect(settings(`${text}learning: { online: true, rowsPerHour: 5 }\n`).learning).toEqual({
      rowsPerHour: 5,
      everyRows: 100,
      shadowAgrees: true,
    })
    expect(() => settings(`${base}learning: { online: true }\n`)).toThrow(
      /:4:1: learning: only models made here learn online/,
    )
  })

  it.each([
    ['interface: eth0\neve: e\nmodels: {}\n', /:3:1: models: models need a state folder/],
    [
      'interface: eth0\neve: e\nstate: s\nmodels: { per: group }\n',
      /:4:1: models.groups: per: group needs groups/,
    ],
    [
      'interface: eth0\neve: e\nstate: s\nmodels: { groups: { a: [] } }\n',
      /:4:11: .*has no effect without per: group/,
    ],
    [
      'interface: eth0\neve: e\nstate: s\nmodels: { per: group, groups: { a: [b8:27:eb:00:00:01], b: [b8:27:eb:00:00:01] } }\n',
      /is in two groups/,
    ],
    [
      'interface: eth0\neve: e\nstate: s\nmodels: { files: { all: x } }\n',
      /models.files.all: expected the address of a device/,
    ],
    [
      'interface: eth0\neve: e\nmodel: m\nstate: s\nmodels: { features: { cutSeconds: 5 } }\n',
      /:5:11: models.features: the given models determine how rows are made/,
    ],
    [
      'interface: eth0\neve: e\nstate: s\nmodels: {}\nbudget: { falseAlertsPerDay: 1, calibration: c }\n',
      /:5:\d+: budget.calibration: belongs to one model/,
    ],
  ])('%j is refused, since models are made here', (text, expected) => {
    expect(() => settings(text)).toThrow(expected)
  })

  it('have paths relative to the file, and defaults for the rest', () => {
    expect(settings(`${base}state: /var/lib/agent\n`)).toMatchObject({
      input: { kind: 'live', interface: 'eth0', filter: null },
      model: '/etc/oddflow/home.oddflow',
      eve: '/etc/oddflow/eve.json',
      state: '/var/lib/agent',
      memoryLimitBytes: 128 * 1_048_576,
      spoolBytes: 64 * 1_048_576,
      fold: { windowSeconds: 60, kindsPerDevice: 16 },
      listen: null,
      once: false,
    })
  })

  it('are those of the command line where it says something', () => {
    const given = settings(`${base}memoryLimit: 256M\nlisten: 127.0.0.1:1\n`, {
      read: 'a.pcap',
      eve: 'mine.json',
      fold: false,
      memoryLimit: '96M',
      listen: '[::1]:9477',
    })
    expect(given).toMatchObject({
      input: { kind: 'recorded', path: 'a.pcap' },
      eve: 'mine.json',
      fold: null,
      memoryLimitBytes: 96 * 1_048_576,
      listen: { host: '::1', port: 9477 },
    })
  })

  it('say where alerts go beside the file', () => {
    const { outputs } = settings(
      `${base}outputs:\n  - {kind: webhook, url: 'https://hub.example/alerts', tokenFile: token}\n  - {kind: syslog, name: log-2, protocol: tcp, host: 192.0.2.1, port: 601, facility: local0}\n  - {kind: syslog, host: log.example}\n`,
    )
    expect(outputs).toEqual([
      {
        kind: 'webhook',
        name: 'webhook',
        url: 'https://hub.example/alerts',
        tokenFile: '/etc/oddflow/token',
        headers: {},
      },
      {
        ...{ kind: 'syslog', name: 'log-2', protocol: 'tcp', host: '192.0.2.1', port: 601 },
        facility: 'local0',
      },
      {
        ...{ kind: 'syslog', name: 'syslog', protocol: 'udp', host: 'log.example', facility: 'daemon' },
      },
    ])
  })

  it.each([
    [`${base}read: a.pcap\n`, /agent\.yaml:1:1: interface: read is given too/],
    [`read: a\nmodel: m\neve: e\nfilter: "hots 1"\n`, /agent\.yaml:4:1: .*hots/],
    [`${base}suppress:\n  - name: all\n`, /agent\.yaml:5:5: expected at least one condition/],
    [
      `${base}suppress:\n  - name: x\n    device: fridge\n`,
      /agent\.yaml:6:5: expected an address or a network/,
    ],
    [
      `${base}suppress:\n  - {name: x, port: 1}\n  - {name: x, port: 2}\n`,
      /agent\.yaml:6:6: suppress\[1\]\.name: another rule has the name "x" too/,
    ],
    [
      `${base}localNetworks: [10.0.0.0/8, lan]\n`,
      /agent\.yaml:4:29: expected an address or a network.*"lan"/,
    ],
    [`${base}memoryLimit: much\n`, /agent\.yaml:4:1: memoryLimit much: expected a whole number of bytes/],
    [`${base}listen: everywhere\n`, /agent\.yaml:4:1: listen everywhere: expected HOST:PORT/],
    [
      `${base}outputs:\n  - {kind: syslog, host: a}\n  - {kind: syslog, host: b}\n`,
      /agent\.yaml:6:5: outputs\[1\]: another output has the name "syslog" too/,
    ],
    [
      `${base}outputs: [{kind: webhook, name: eve, url: 'http://a/'}]\n`,
      /outputs\[0\]: another output has the name "eve" too/,
    ],
    [`${base}devices: {}\n`, /agent\.yaml:4:1: devices: without a state folder no device can be approved/],
    ['model: m\neve: e\n', /--read is missing/],
    ['read: r\neve: e\n', /--model is missing/],
    ['read: r\nmodel: m\n', /--eve is missing/],
  ])('%j is refused', (text, says) => {
    expect(() => settings(text)).toThrow(says)
  })
})

it.each([
  ['127.0.0.1:9477', { host: '127.0.0.1', port: 9477 }],
  ['[::]:0', { host: '::', port: 0 }],
  ['localhost:80', { host: 'localhost', port: 80 }],
])('parseListen %s', (text, expected) => expect(parseListen(text, '--listen')).toEqual(expected))

it('pathText', () => expect(pathText(['suppress', 0, 'device'])).toBe('suppress[0].device'))

it('a value of the wrong form is refused in words, and not by a pattern', () => {
  const text = `interface: eth0
model: m.oddflow
eve: e.json
outputs:
  - { kind: webhook, name: 'A b', url: 'ftp://x' }
  - { kind: mqtt, url: 'http://x', prefix: 'a/#' }
suppress: [{ name: x, from: 7pm, until: '08:00' }]
`
  const messages = parseConfig(text).errors.map(({ message }) => message)
  expect(messages).toEqual([
    'outputs[0].name: expected at most 32 lowercase letters, digits and hyphens, found "A b"',
    'outputs[0].url: expected a URL of http or https, found "ftp://x"',
    'outputs[1].url: expected a URL of mqtt or mqtts, found "http://x"',
    'outputs[1].prefix: expected levels of visible ASCII characters without # and +, between single slashes, found "a/#"',
    'suppress[0].from: expected a time of day (HH:MM), found "7pm"',
  ])
})

it('a file of another encoding is refused at its place, and no other file is named by it', () => {
  const folder = temporaryFolder()
  const path = join(folder, 'agent.yaml')
  writeFileSync(path, Buffer.from('model: m.oddflow\neve: caf\u00e9.json\n', 'latin1'))
  expect(readConfig(path).errors).toEqual([
    { line: 2, column: 9, message: 'expected UTF-8, found another encoding; save the file as UTF-8' },
  ])
  writeFileSync(path, '\ufeffmodel: m.oddflow\r\neve: caf\u00e9.json\r\n')
  expect(readConfig(path)).toMatchObject({ errors: [], config: { eve: 'caf\u00e9.json' } })
})

it('agent.schema.json is that of the program', async () => {
  const file = new URL('../../agent.schema.json', import.meta.url)
  const schema = {
    ...toJsonSchema(ConfigSchema, { target: 'draft-07' }),
    title: 'Configuration of oddflow-agent',
  }
  if (process.env.UPDATE_README === '1') {
    writeFileSync(file, `${JSON.stringify(schema, null, 2)}\n`)
  }
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(schema)
})
