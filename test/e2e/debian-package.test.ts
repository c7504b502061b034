/** The Debian package of the agent, installed by dpkg into a folder of the test's own: its files, user, service, upgrade and removal. */
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { root } from '../../tools/workspace/layout.mjs'
import { lab, runToEnd, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const system = join(folder, 'system')
const inSystem = (path: string): string => join(system, path)

const can = (program: string): boolean => {
  try {
    return execFileSync(program, ['--version'], { stdio: 'pipe' }) !== null
  } catch {
    return false
  }
}

function build(to: string, ...version: string[]): string {
  const script = join(root, 'tools/packaging/build-deb.mjs')
  return execFileSync(process.execPath, [script, join(folder, to), ...version], { encoding: 'utf8' }).trim()
}

/** Scripts run with DPKG_ROOT and not in the folder, which has no shell; its packages are not there either. */
function dpkg(...args: string[]): void {
  execFileSync('dpkg', [`--root=${system}`, '--force-script-chrootless', '--force-depends', ...args], {
    stdio: 'pipe',
  })
}

it('is installed with its user, runs, keeps configuration and state over an upgrade, and goes', async (context) => {
  const needed = ['dpkg', 'dpkg-deb', 'systemd-sysusers', 'systemctl']
  if (!needed.every(can) || process.getuid?.() !== 0) context.skip(`needs ${needed.join(', ')} and root`)
  for (const path of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'var/log', 'etc']) {
    mkdirSync(inSystem(path), { recursive: true })
  }
  writeFileSync(inSystem('var/lib/dpkg/status'), '')
  const first = build('a')
  expect(readFileSync(build('b')).equals(readFileSync(first))).toBe(true)
  dpkg('-i', first)

  const program = inSystem('usr/bin/oddflow-agent')
  const { version } = JSON.parse(readFileSync(join(root, 'apps/agent/package.json'), 'utf8')) as {
    version: string
  }
  expect(execFileSync(program, ['--version'], { encoding: 'utf8' })).toBe(`${version}\n`)
  expect(readFileSync(inSystem('etc/passwd'), 'utf8')).toMatch(/^oddflow:/m)
  expect(readFileSync(inSystem('usr/lib/systemd/system/oddflow-agent.service'), 'utf8')).toContain(
    'User=oddflow',
  )
  expect(readFileSync(inSystem('etc/logrotate.d/oddflow-agent'), 'utf8')).toContain('nocreate')
  const page = gunzipSync(readFileSync(inSystem('usr/share/man/man1/oddflow-agent.1.gz'))).toString()
  expect(page).toBe(execFileSync(program, ['completion', 'man'], { encoding: 'utf8' }))
  for (const path of [
    'bash-completion/completions/oddflow-agent',
    'zsh/vendor-completions/_oddflow-agent',
    'fish/vendor_completions.d/oddflow-agent.fish',
  ]) {
    expect(readFileSync(inSystem(`usr/share/${path}`), 'utf8')).toContain('incidents')
  }
  const model = await trainLabModel(join(folder, 'home.oddflow'))
  const args = ['run', '--allow-root', '--once', '--model', model, '--eve', join(folder, 'eve.json')]
  const run = await runToEnd(program, [...args, '--read', lab('novel-scan.pcap').path])
  expect(run, run.stderr).toMatchObject({ code: 0 })
  expect(statSync(join(folder, 'eve.json')).size).toBeGreaterThan(0)

  execFileSync(program, ['setup', '--root', system, '--yes', '--interface', 'br-lan', '--service'], {
    stdio: 'pipe',
  })
  const config = readFileSync(inSystem('etc/oddflow/agent.yaml'), 'utf8')
  // the unit of the package is the one that is enabled
  expect(existsSync(inSystem('etc/systemd/system/oddflow-agent.service'))).toBe(false)
  const wants = inSystem('etc/systemd/system/multi-user.target.wants/oddflow-agent.service')
  expect(lstatSync(wants).isSymbolicLink()).toBe(true)
  mkdirSync(inSystem('var/lib/oddflow-agent'), { recursive: true })
  writeFileSync(inSystem('var/lib/oddflow-agent/devices.json'), 'kept')

  const later = build('c', '99.0.0')
  dpkg('-i', later)
  expect(readFileSync(inSystem('var/lib/dpkg/status'), 'utf8')).toContain('Version: 99.0.0')
  for (const [path, text] of [
    ['etc/oddflow/agent.yaml', config],
    ['var/lib/oddflow-agent/devices.json', 'kept'],
  ] as const) {
    expect(readFileSync(inSystem(path), 'utf8')).toBe(text)
  }
  dpkg('-r', 'oddflow-agent')
  expect(existsSync(inSystem('usr/lib/oddflow-agent'))).toBe(false)
  expect(readFileSync(inSystem('etc/oddflow/agent.yaml'), 'utf8')).toBe(config)
  expect(existsSync(inSystem('var/lib/oddflow-agent/devices.json'))).toBe(true)
  dpkg('-P', 'oddflow-agent')
  for (const path of ['etc/oddflow', 'var/lib/oddflow-agent', 'var/log/oddflow-agent']) {
    expect(existsSync(inSystem(path)), path).toBe(false)
  }
  expect(readFileSync(inSystem('etc/passwd'), 'utf8')).toMatch(/^oddflow:/m)
}, 120_000)
