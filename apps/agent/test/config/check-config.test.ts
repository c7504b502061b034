/** `--check-config` refuses what a run would stumble over: files, folders, depth, rules that take everything or nothing. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { run } from '../../src/commands/run.js'
import { findExcess, parseConfig } from '../../src/config/read-config.js'
import { readFirstLine } from '../../src/files/file-system.js'
import { temporaryFolder } from '../support/folder.js'

const folder = temporaryFolder()
const config = join(folder, 'agent.yaml')
const base = { interface: 'eth0', eve: 'eve.json', state: 'state', models: '{}' }
writeFileSync(join(folder, 'token'), 'secret\n', { mode: 0o600 })
writeFileSync(join(folder, 'long'), 'x'.repeat(65_537))
mkdirSync(join(folder, 'a-folder'))
execFileSync('mkfifo', [join(folder, 'pipe')])
writeFileSync(join(folder, 'a-file'), '')

async function check(keys: Readonly<Record<string, string>>): Promise<string> {
  const all = { ...base, ...keys, allowRoot: 'true' }
  writeFileSync(
    config,
    Object.entries(all)
      .map(([key, value]) => `${key}: ${value}\n`)
      .join(''),
  )
  const out = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  try {
    await run({ config, fold: true, checkConfig: true })
    return 'ok'
  } catch (error) {
    return (error as Error).message
  } finally {
    out.mockRestore()
  }
}
const webhook = (more: string): Record<string, string> => ({
  outputs: `[{ kind: webhook, url: 'http://hub.example/', ${more} }]`,
})
const rule = (more: string): Record<string, string> => ({ suppress: `[{ name: x, ${more} }]` })

describe('--check-config', () => {
  it('passes what will do, and makes nothing', async () => {
    const before = readdirSync(folder).length
    expect(await check({ ...webhook('tokenFile: token'), ...rule('peer: 192.0.2.0/24') })).toBe('ok')
    expect(readdirSync(folder).length - before).toBeLessThanOrEqual(1)
    expect(existsSync(join(folder, 'eve.json'))).toBe(false)
    expect(await check({ eve: '/dev/null' })).toBe('ok')
  })

  it.each<[Record<string, string>, RegExp]>([
    [{ eve: 'a-folder' }, /a-folder: cannot write it: is a directory/],
    [
      { eve: 'none/eve.json' },
      /none\/eve\.json: cannot write it: there is no folder \S*none; create it first/,
    ],
    [{ eve: 'a-file/eve.json' }, /cannot write it: a part of the path is not a folder/],
    [{ eve: '/proc/version' }, /\/proc\/version: cannot write it|ok/],
    [{ eve: '/proc/eve.json' }, /\/proc\/eve\.json: cannot write it|ok/],
    [{ state: 'a-file' }, /a-file: cannot write it: a part of the path is not a folder/],
    [{ state: 's'.repeat(100) }, /agent\.yaml:3:1: state: .*too long a name for a socket/],
    [{ evidence: '{ directory: a-file }' }, /a-file: cannot write it/],
    [webhook('tokenFile: none'), /none: cannot read it: no such file/],
    [webhook('tokenFile: a-folder'), /a-folder: cannot read it: is a directory/],
    [webhook('tokenFile: pipe'), /pipe: is not a regular file/],
    [webhook('tokenFile: /dev/zero'), /\/dev\/zero: is not a regular file/],
    [webhook('tokenFile: long'), /long: is longer than 65536 bytes/],
    [webhook('tokenFile: a-file'), /a-file: expected a token/],
    [{ outputs: `[{ kind: webhook, url: 'https://h/', caFile: none }]` }, /none: cannot read it/],
    [
      { outputs: `[{ kind: mqtt, url: 'mqtts://h', caFile: a-file }]` },
      /a-file: expected certificates in PEM/,
    ],
    [
      { outputs: `[{ kind: mqtt, url: 'mqtt://h', caFile: a-file }]` },
      /:5:42: outputs\[0\]\.caFile: only for https/,
    ],
    [
      { outputs: `[{ kind: nats, url: 'tls://b', seedFile: token }]` },
      /token: expected the seed of an nkey \(SU…\) in its first line/,
    ],
    [{ outputs: `[{ kind: mqtt, url: 'mqtt://b', passwordFile: none }]` }, /none: cannot read it/],
    [{ outputs: `[{ kind: mqtt, url: 'mqtt://b', passwordFile: pipe }]` }, /pipe: is not a regular file/],
    [
      { outputs: `[{ kind: webhook, url: 'http://me:secret@hub.example/' }]` },
      /agent\.yaml:5:28: outputs\[0\]\.url: must not contain a name or a password; give tokenFile/,
    ],
    [{ outputs: `[{ kind: webhook, url: 'http://me@hub.example/' }]` }, /:5:28: outputs\[0\]\.url/],
    [{ interface: 'a name' }, /agent\.yaml:\d+:\d+: interface: expected the name of an interface/],
    [
      { interface: '"eth0\\u001b[2J"' },
      /interface: expected the name of an interface, .*found "eth0\\u001b\[2J"/,
    ],
    [{ interface: 'sixteen-letters-' }, /at most 15 bytes/],
    [rule('peer: 0.0.0.0/0'), /agent\.yaml:5:23: expected less than every address, found "0\.0\.0\.0\/0"/],
    [rule('peer: 203.0.113.7/00'), /:5:23: expected less than every address/],
    [rule("peer: '::/0'"), /:5:23: expected less than every address/],
    [rule("port: 1, device: '::/0'"), /:5:32: expected less than every address/],
    [rule('days: [sun, mon, tue, wed, thu, fri, sat]'), /:5:23: expected some days of the week/],
    [rule("from: '00:00', until: '24:00'"), /:5:23: expected a part of the day/],
    [rule("port: 1, from: '08:00', until: '08:00'"), /:5:32: expected a part of the day/],
    [rule("device: 192.0.2.1, peer: '2001:db8::1'"), /:5:42: .*would never suppress anything/],
    [rule("protocol: icmp, peer: '2001:db8::1'"), /:5:39: icmp is not of that IP version/],
    [rule('protocol: icmpv6, device: 192.0.2.1'), /:5:41: icmpv6 is not of that IP version/],
    [rule('protocol: icmp, port: 443'), /:5:39: types and codes of icmp end at 255/],
    [rule("device: '01:00:5e:00:00:01'"), /:5:23: that is the address of a group/],
    [{ interface: '!!str eth0', model: '!secret x' }, /agent\.yaml:5:8: Unresolved tag: !secret/],
    [rule('port: !!js/function x'), /agent\.yaml:5:29: Unresolved tag/],
    [{ modelKey: 'token' }, /agent\.yaml:5:1: modelKey: no model from elsewhere is given/],
    [rule('port: 1, colour: red'), /:5:32: suppress\[0\]\.colour: no such key/],
    [rule('rule: scores'), /:5:23: suppress\[0\]\.rule: expected/],
  ])('refuses %j', async (keys, says) => {
    expect(await check(keys)).toMatch(says)
  })

  it.each<[Record<string, string>, RegExp | null]>([
    [webhook('tokenFile: token'), /webhook: the token goes to hub\.example unencrypted; use https/],
    [webhook('name: w'), null],
    // the key signs, and is never sent
    [webhook('tokenFile: token, signatureFile: token'), /^(?!.*signature key).*the token goes/s],
    [{ outputs: `[{ kind: webhook, url: 'https://hub.example/', tokenFile: token }]` }, null],
    [{ outputs: `[{ kind: webhook, url: 'http://127.0.0.1:1/', tokenFile: token }]` }, null],
    [{ outputs: `[{ kind: webhook, url: 'http://[::1]:1/', tokenFile: token }]` }, null],
    [
      { outputs: `[{ kind: mqtt, url: 'mqtt://broker.lan', passwordFile: token }]` },
      /mqtt: the password goes to broker\.lan unencrypted; use mqtts/,
    ],
    [{ outputs: `[{ kind: mqtt, url: 'mqtts://broker.lan', passwordFile: token }]` }, null],
    [
      { listen: '0.0.0.0:9477' },
      /listen 0\.0\.0\.0:9477: anyone who reaches this address can read \/metrics/,
    ],
    [{ listen: "'[::]:9477'", dashboard: '{}' }, /listen :::9477: the dashboard's token and cookie go over/],
    [{ listen: '192.0.2.1:9477' }, /listen 192\.0\.2\.1/],
    [{ listen: 'localhost:9477', dashboard: '{}' }, null],
    [{ listen: "'[::1]:9477'" }, null],
  ])('warns of what others could read: %j', async (keys, says) => {
    const told: string[] = []
    const error = vi.spyOn(process.stderr, 'write').mockImplementation((line) => told.push(String(line)) > 0)
    expect(await check(keys)).toBe('ok')
    error.mockRestore()
    if (says === null) expect(told).toEqual([])
    else expect(told.join('')).toMatch(says)
  })

  it.each(["'-'", '"-"', '-', '-   # the pipe'])('takes read: %s for standard input', async (hyphen) => {
    expect(parseConfig(`read: ${hyphen}\n`).config).toMatchObject({ read: '-' })
    writeFileSync(config, `read: ${hyphen}\neve: eve.json\nstate: state\nmodels: {}\n`)
    const out = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    await run({ config, fold: true, checkConfig: true })
    out.mockRestore()
  })

  it('tells the first complaints, and how many there are', async () => {
    const told: string[] = []
    const error = vi.spyOn(process.stderr, 'write').mockImplementation((line) => told.push(String(line)) > 0)
    const rules = Array.from({ length: 40 }, (_, i) => `{ name: r${i}, port: -1 }`).join(', ')
    expect(await check({ suppress: `[${rules}]` })).toMatch(/agent\.yaml: and 32 more like these/)
    error.mockRestore()
    expect(told).toHaveLength(8)
  })
})

it('a first line is that of a regular file, without its end', () => {
  writeFileSync(join(folder, 'crlf'), 'one\r\ntwo')
  expect(readFirstLine(join(folder, 'crlf'))).toBe('one')
  expect(readFirstLine(join(folder, 'a-file'))).toBe('')
})

describe('depth and aliases', () => {
  const nested = (open: string, depth: number): string => `a: ${open.repeat(depth)}`
  const block = (depth: number): string =>
    Array.from({ length: depth }, (_, i) => `${' '.repeat(i)}a:`).join('\n')

  it('are refused at their place, however much of them there is', () => {
    const before = process.cpuUsage()
    expect(parseConfig(nested('[', 500_000)).errors).toEqual([
      { line: 1, column: 19, message: 'is nested deeper than 16 levels, the maximum' },
    ])
    for (const text of [
      nested('{a: ', 200_000),
      block(1400),
      `a:\n  ${'- '.repeat(400_000)}b`,
      '? '.repeat(400_000),
    ]) {
      const [error] = parseConfig(text).errors
      expect(error?.message, text.slice(0, 20)).toMatch(/deeper than 16 levels/)
    }
    const aliases = parseConfig(`a: &a 1\nb: [${'*a,'.repeat(300_000)}]`)
    expect(aliases.errors).toEqual([{ line: 2, column: 305, message: 'more than 100 aliases, the maximum' }])
    expect(process.cpuUsage(before).user).toBeLessThan(10e6)
  })

  it('are counted as they are, and not by what a text says', () => {
    const sixteen = `${block(15)} 1\n`
    expect(findExcess(sixteen)).toBe(null)
    expect(findExcess(`${'[]\n'.repeat(50)}`)).toBe(null)
    expect(findExcess(`a: "${'['.repeat(50)}"\nb: ${'x['.repeat(50)}\n# ${'['.repeat(50)}\n`)).toBe(null)
    expect(
      findExcess(`a: |\n${Array.from({ length: 40 }, (_, i) => `${' '.repeat(2 + i)}- x`).join('\n')}\n`),
    ).toBe(null)
    expect(findExcess(Array.from({ length: 200 }, (_, i) => `k${i}:\n  - a:\n      b: 1`).join('\n'))).toBe(
      null,
    )
    expect(findExcess(block(17))).not.toBe(null)
  })
})
