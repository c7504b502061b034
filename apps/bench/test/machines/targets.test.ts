import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { quoteWord } from '../../src/machines/ssh.js'
import { readTargets } from '../../src/machines/target.js'

const folder = mkdtempSync(join(tmpdir(), 'oddflow-bench-targets-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const path = join(folder, 'targets.yaml')

function read(text: string): ReturnType<typeof readTargets> {
  writeFileSync(path, text)
  return readTargets(path)
}

const ssh = (fields: string): string =>
  `format: 1\ntargets:\n  - { name: rspi, kind: ssh, host: raspberrypi.local, ${fields} }\n`

describe('the file of targets', () => {
  it('is YAML, or JSON; paths are relative to it', () => {
    const found = read(`
format: 1
targets:
  - name: server
    kind: local
  - name: small
    kind: local
    memoryCeilingMegabytes: 64
  - name: rspi
    kind: ssh
    host: raspberrypi.local
    identityFile: ~/.ssh/pi
    bringNode: arm/node
  - name: armv7
    kind: emulated
    emulator: qemu-arm-static
    node: arm/node
    libraries: /usr/arm
`)
    expect(found).toMatchObject([
      { name: 'server', timeoutSeconds: 3600 },
      { memoryCeilingMegabytes: 64 },
      { identityFile: join(homedir(), '.ssh/pi'), bringNode: join(folder, 'arm/node'), directory: '/tmp' },
      { emulator: 'qemu-arm-static', node: join(folder, 'arm/node'), libraries: '/usr/arm' },
    ])
    expect(read('{"format": 1, "targets": [{"name": "here", "kind": "local"}]}')).toMatchObject([
      { name: 'here', kind: 'local' },
    ])
  })

  it.each<[string, string, RegExp]>([
    ['is no YAML', 'format: 1\ntargets: [', /line 2: /],
    ['repeats a key', 'format: 1\nformat: 1\ntargets: []', /line 2: Map keys must be unique/],
    ['has no targets', 'format: 1\ntargets: []', /targets: /],
    ['has another format', 'format: 2\ntargets: [{name: a, kind: local}]', /format: /],
    [
      'names two alike',
      'format: 1\ntargets: [{name: a, kind: local}, {name: a, kind: local}]',
      /a: two targets/,
    ],
    ['has an unknown kind', 'format: 1\ntargets: [{name: a, kind: cloud}]', /targets\.0\.kind/],
    [
      'has a word of another kind',
      'format: 1\ntargets: [{name: a, kind: local, host: b}]',
      /targets\.0: .*host/,
    ],
    [
      'has an option for a host',
      ssh('user: pi').replace('raspberrypi.local', '-oProxyCommand=x'),
      /targets\.0\.host/,
    ],
    ['has a shell in a host', ssh('user: pi').replace('raspberrypi.local', '"a;b"'), /targets\.0\.host/],
    ['has an option for a user', ssh('user: -lroot'), /targets\.0\.user/],
    ['has a relative directory', ssh('directory: tmp'), /targets\.0\.directory/],
    ['has a shell in a directory', ssh('directory: "/tmp/$(id)"'), /targets\.0\.directory/],
    ['has two Nodes', ssh('node: node, bringNode: ./node'), /exclude each other/],
    ['has control characters in a path', ssh('identityFile: "a\\eb"'), /targets\.0\.identityFile/],
    ['grows by aliases', `format: 1\na: &a [1,1]\nb: &b [${'*a,'.repeat(30)}]\ntargets: [*b]`, /alias/i],
  ])('is refused when it %s', (_, text, message) => {
    expect(() => read(text)).toThrow(message)
    expect(() => read(text)).toThrow(path)
  })
})

it('a quoted word reaches a program through a shell as it is', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', '')),
        { maxLength: 4 },
      ),
      (words) => {
        const well = words.filter((word) => !/\p{Surrogate}/u.test(word))
        const command = ["printf '%s\\0'", ...well.map(quoteWord)].join(' ')
        const found = execFileSync('sh', ['-c', command], { encoding: 'utf8' })
        expect(found).toBe(well.length === 0 ? '\0' : well.map((word) => `${word}\0`).join(''))
      },
    ),
    { numRuns: 20, examples: [[["it's", '$(id)', '`id`', '\\', '"', '\n', '']]] },
  )
})
