/** The setup of an agent in folders of its own: by flags, by piped answers, at a terminal, and into an image. */
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/read-config.js'
import { settingsFrom } from '../../src/config/settings-from.js'
import { userId } from '../../src/files/rights.js'
import { temporaryFolders } from '../support/folder.js'
import { hasProgram } from '../support/programs.js'

const newFolder = temporaryFolders()
const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

interface Run {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

function setup(args: readonly string[], answers = '', env: Record<string, string> = {}): Promise<Run> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program, 'setup', ...args], { env: { ...process.env, ...env } })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (piece: Buffer) => {
      stdout += piece
    })
    child.stderr.on('data', (piece: Buffer) => {
      stderr += piece
    })
    child.on('close', (code) => resolve({ code, stdout, stderr }))
    child.stdin.on('error', () => undefined)
    child.stdin.end(answers)
  })
}

const settingsOf = (config: string) =>
  settingsFrom({ config, fold: true }, parseConfig(readFileSync(config, 'utf8')))

describe('by flags', () => {
  it('writes a configuration that is one, and says how to go on', async () => {
    const config = join(newFolder(), 'sub/agent.yaml')
    const { code, stdout, stderr } = await setup(['-c', config, '--yes', '--interface', 'lo'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(settingsOf(config)).toMatchObject({
      input: { interface: 'lo' },
      devices: { approve: 'auto' },
      models: { per: 'device' },
      outputs: [],
      state: join(config, '../state'),
      eve: join(config, '../eve.json'),
      listen: { host: '127.0.0.1', port: 9477 },
    })
    expect(stdout).toContain(`${config} was written.`)
    expect(stdout).not.toContain('does not exist now')
    expect(stdout).toContain(`oddflow-agent dashboard-link -c ${config}`)
    // root may not run what the last lines say
    expect(stdout.includes('-o oddflow -g oddflow')).toBe(userId() === 0)
    const away = await setup(['-c', config, '--yes', '--replace', '--interface', 'away0'])
    expect(away).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Interface away0 does not exist now'),
    })
  })

  it.each([
    ['none', []],
    ['https://ntfy.example/home-1', [{ kind: 'ntfy', url: 'https://ntfy.example/home-1' }]],
    ['mqtt://192.0.2.5:1884', [{ kind: 'mqtt', url: 'mqtt://192.0.2.5:1884' }]],
    [
      'smtps://mail.example?to=a@example.org&to=b@example.org',
      [
        {
          kind: 'mail',
          url: 'smtps://mail.example',
          from: 'a@example.org',
          to: ['a@example.org', 'b@example.org'],
        },
      ],
    ],
  ])('tells %s', async (where, outputs) => {
    const config = join(newFolder(), 'agent.yaml')
    const args = ['-c', config, '--yes', '--interface', 'lo', '--tell', where, '--approve', 'manual']
    expect(await setup(args)).toMatchObject({ code: 0 })
    const settings = settingsOf(config)
    expect(settings.outputs).toMatchObject(outputs)
    expect(settings.devices?.approve).toBe('manual')
  })

  it.each(['eth0\nallowRoot: true', 'eth0\u001b[2J', '../eth0', 'sixteen-letters-', ''])(
    'refuses an interface that can have no such name: %j',
    async (name) => {
      const config = join(newFolder(), 'agent.yaml')
      const { code, stderr } = await setup(['-c', config, '--yes', '--interface', name])
      expect(code).toBe(2)
      expect(stderr).toMatch(/^oddflow-agent: --interface: expected the name of an interface, .*\n$/)
      expect(existsSync(config)).toBe(false)
    },
  )

  it('makes a topic of ntfy that is hard to guess, another one each time', async () => {
    const topics = await Promise.all(
      [0, 1].map(async () => {
        const config = join(newFolder(), 'agent.yaml')
        const { stdout } = await setup(['-c', config, '--yes', '--interface', 'lo', '--tell', 'ntfy'])
        const [url] = /https:\/\/ntfy\.sh\/oddflow-[A-Za-z0-9]{16}/.exec(stdout) ?? ['']
        expect(settingsOf(config).outputs).toMatchObject([{ kind: 'ntfy', url }])
        return url
      }),
    )
    expect(topics[0]).not.toBe(topics[1])
  })

  it.each([
    ['https://hooks.slack.com/services/T/B/x', 'slack'],
    ['https://discord.com/api/webhooks/1/x', 'discord'],
    ['https://prod-1.westeurope.logic.azure.com/workflows/x', 'teams'],
    ['webhook:https://hooks.slack.com/services/T/B/x', 'slack'],
    ['webhook:http://192.0.2.5:8123/api/webhook/x', undefined],
    ['webhook:https://example.org/x', undefined],
  ])('keeps the URL %s in a file that others cannot read', async (where, preset) => {
    const url = where.replace('webhook:', '')
    const folder = newFolder()
    const config = join(folder, 'agent.yaml')
    expect(await setup(['-c', config, '--yes', '--interface', 'lo', '--tell', where])).toMatchObject({
      code: 0,
    })
    const urlFile = join(folder, 'tell.secret')
    const [output, ...others] = settingsOf(config).outputs
    expect([output, others]).toMatchObject([{ kind: 'webhook', urlFile }, []])
    expect('preset' in output ? output.preset : undefined).toBe(preset)
    expect(readFileSync(urlFile, 'utf8')).toBe(`${url}\n`)
    expect(statSync(urlFile).mode & 0o777).toBe(0o640)
    expect(readFileSync(config, 'utf8')).not.toContain(url)
  })

  it.each([
    [['--tell', 'somewhere'], /expected none, ntfy or a URL/],
    [['--tell', 'webhook:example.org/x'], /expected none, ntfy or a URL/],
    [['--tell', 'webhook:ftp://example.org/x'], /expected webhook: and a URL of http or https/],
    [['--tell', 'webhook:https://me@example.org/x'], /without a user/],
    [['--tell', 'smtps://mail.example'], /add the recipient/],
    [['--tell', 'mqtt://me@192.0.2.5'], /give --password-file too/],
    [['--tell', 'mqtt://%zz@192.0.2.5'], /%zz has a % that no two/],
    [['--tell', 'https://ntfy.sh/'], /outputs\[0\]\.url/],
    [['--approve', 'nobody'], /--approve/],
  ])('%j is refused, and nothing written', async (args, says) => {
    const folder = newFolder()
    const run = await setup(['-c', join(folder, 'agent.yaml'), '--yes', '--interface', 'lo', ...args])
    expect(run.code).toBe(2)
    expect(run.stderr).toMatch(says)
    expect(readdirSync(folder)).toEqual([])
  })

  it('replaces no configuration unless that is asked for, and keeps the one before', async () => {
    const folder = newFolder()
    const config = join(folder, 'agent.yaml')
    writeFileSync(config, 'mine: yes\n')
    const args = ['-c', config, '--yes', '--interface', 'lo']
    const refused = await setup(args)
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('give --replace') })
    expect(readFileSync(config, 'utf8')).toBe('mine: yes\n')
    expect(
      await setup(
        args.filter((arg) => arg !== '--yes'),
        'no\n',
      ),
    ).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Nothing was changed.'),
    })
    expect(readdirSync(folder)).toEqual(['agent.yaml'])
    expect(await setup([...args, '--replace'])).toMatchObject({ code: 0 })
    expect(readFileSync(`${config}.old`, 'utf8')).toBe('mine: yes\n')
    expect(settingsOf(config).input).toMatchObject({ interface: 'lo' })
  })
})

describe('by answers', () => {
  it('asks three questions, of which each has a default', async () => {
    const config = join(newFolder(), 'agent.yaml')
    const answered = await setup(['-c', config, '--no-service'], 'lo\nhttps://ntfy.example/t\nmanual\n')
    expect(answered).toMatchObject({ code: 0, stderr: '' })
    expect(answered.stdout.match(/\?/g)).toHaveLength(4)
    expect(settingsOf(config)).toMatchObject({
      input: { interface: 'lo' },
      outputs: [{ kind: 'ntfy', url: 'https://ntfy.example/t' }],
      devices: { approve: 'manual' },
    })
    const other = join(newFolder(), 'agent.yaml')
    expect(await setup(['-c', other, '--no-service', '--interface', 'lo'], '\n\n')).toMatchObject({ code: 0 })
    expect(settingsOf(other)).toMatchObject({ outputs: [], devices: { approve: 'auto' } })
  })

  it('that are wrong are asked for again at once, and the others are kept', async () => {
    const config = join(newFolder(), 'agent.yaml')
    const answers = [
      ...['sixteen-letters-', 'lo'],
      ...['somewhere', 'smtps://mail.example', 'https://ntfy.example/', 'mqtt://me@192.0.2.5'],
      ...['', 'right horse'],
      ...['nobody', 'manual'],
    ]
    const { code, stdout, stderr } = await setup(['-c', config, '--no-service'], `${answers.join('\n')}\n`)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const said = [
      /^expected the name of an interface, .* found "sixteen-letters-"$/m,
      /^somewhere: expected none, ntfy or a URL$/m,
      /^smtps:\/\/mail\.example: add the recipient/m,
      /outputs\[0\]\.url: expected a URL of http or https that ends with a topic/,
      /^expected a password$/m,
      /^nobody: expected auto or manual$/m,
    ]
    for (const each of said) expect(stdout).toMatch(each)
    expect(settingsOf(config)).toMatchObject({
      input: { interface: 'lo' },
      outputs: [{ kind: 'mqtt', username: 'me' }],
      devices: { approve: 'manual' },
    })
    expect(readFileSync(join(config, '../tell.secret'), 'utf8')).toBe('right horse\n')
  })

  it('are not asked for where an option is wrong', async () => {
    const run = await setup(['-c', join(newFolder(), 'agent.yaml'), '--tell', 'somewhere'], 'lo\n')
    expect(run).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('somewhere: expected') })
  })

  it('that end too early write nothing', async () => {
    const folder = newFolder()
    const run = await setup(['-c', join(folder, 'agent.yaml')], 'lo\n')
    expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining('the input ended before') })
    expect(readdirSync(folder)).toEqual([])
  })

  it('at a terminal shows no password, and keeps it in a file', async (context) => {
    if (!hasProgram('python3')) context.skip('python3 is not installed')
    const folder = newFolder()
    const config = join(folder, 'agent.yaml')
    const driver = join(folder, 'terminal.py')
    writeFileSync(
      driver,
      `import os, pty, sys, json
answers = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0: os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try: piece = os.read(fd, 4096)
    except OSError: break
    if not piece: break
    seen += piece
    if answers and answers[0][0].encode() in seen.split(b"\\x00")[-1]:
        os.write(fd, answers.pop(0)[1].encode() + b"\\n")
        seen += b"\\x00"
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`,
    )
    const answers = [
      ['Which interface', 'lo'],
      ['Where should', 'mqtt://me@192.0.2.5'],
      ['Password of me', 'right horse'],
      ['Who approves', ''],
    ]
    const seen = execFileSync(
      'python3',
      [driver, JSON.stringify(answers), process.execPath, program, 'setup', '-c', config, '--no-service'],
      { encoding: 'utf8' },
    )
    expect(seen).toContain('was written.')
    expect(seen).not.toContain('right horse')
    expect(readFileSync(join(folder, 'tell.secret'), 'utf8')).toBe('right horse\n')
    expect(settingsOf(config).outputs).toMatchObject([
      { kind: 'mqtt', url: 'mqtt://192.0.2.5', username: 'me', passwordFile: join(folder, 'tell.secret') },
    ])
  })
})

it('of an agent that runs ends with a link that signs in', async () => {
  const config = join(newFolder(), 'agent.yaml')
  const args = ['-c', config, '--yes', '--interface', 'lo', '--no-service']
  await setup(args)
  const agent = spawn(
    process.execPath,
    [program, 'run', '--allow-root', '-c', config, '--read', '-', '--listen', '127.0.0.1:0'],
    { stdio: ['pipe', 'ignore', 'pipe'] },
  )
  try {
    let told = ''
    agent.stderr.on('data', (piece: Buffer) => {
      told += piece
    })
    await expect.poll(() => told, { timeout: 20_000 }).toContain('dashboard at')
    const { stdout } = await setup([...args, '--replace'])
    const [, origin = '', code = ''] = /^(http:\/\/127\.0\.0\.1:\d+)\/#token=(\S+)$/m.exec(stdout) ?? []
    const headers = { authorization: `Bearer ${code}` }
    expect((await fetch(`${origin}/api/session`, { method: 'POST', headers })).status).toBe(200)
  } finally {
    agent.kill()
    await new Promise((resolve) => agent.once('close', resolve))
  }
}, 60_000)

describe('the service', () => {
  it('is installed and enabled in an image, with its user and the secret for its group', async (context) => {
    if (!hasProgram('systemctl') || !hasProgram('systemd-sysusers') || userId() !== 0)
      context.skip('needs systemctl, systemd-sysusers and root')
    const root = newFolder()
    mkdirSync(join(root, 'etc'))
    const run = await setup(
      ['--root', root, '--yes', '--interface', 'br-lan', '--service'].concat([
        '--tell',
        'https://hooks.slack.com/services/x',
      ]),
    )
    expect({ code: run.code, stderr: run.stderr }).toEqual({ code: 0, stderr: '' })
    const inImage = (path: string): string => join(root, path)
    const wanted = inImage('etc/systemd/system/multi-user.target.wants/oddflow-agent.service')
    expect(lstatSync(wanted).isSymbolicLink()).toBe(true)
    const unit = readFileSync(inImage('etc/systemd/system/oddflow-agent.service'), 'utf8')
    expect(unit).toContain('run -c /etc/oddflow/agent.yaml')
    const group = Number(/^oddflow:[^:]*:(\d+):/m.exec(readFileSync(inImage('etc/group'), 'utf8'))?.[1])
    expect(statSync(inImage('etc/oddflow/tell.secret'))).toMatchObject({ uid: 0, gid: group })
    const text = readFileSync(inImage('etc/oddflow/agent.yaml'), 'utf8')
    expect(text).toContain('state: /var/lib/oddflow-agent')
    expect(text).not.toContain(root)
  })

  it('that cannot be installed is an error that says why', async (context) => {
    if (userId() !== 0) context.skip('needs root')
    const root = newFolder()
    const bin = newFolder()
    writeFileSync(join(bin, 'systemd-sysusers'), '#!/bin/sh\necho "no users today" >&2\nexit 1\n')
    chmodSync(join(bin, 'systemd-sysusers'), 0o755)
    const run = await setup(['--root', root, '--yes', '--interface', 'eth0', '--service'], '', {
      PATH: `${bin}:${process.env.PATH}`,
    })
    expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining('no users today') })
  })
})
