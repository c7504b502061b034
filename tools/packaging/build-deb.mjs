/**
 * Makes the Debian package of the agent from what `npm run build` left in apps/agent: `node tools/packaging/build-deb.mjs
 * [FOLDER [VERSION]]`, for every architecture, since the program is JavaScript. Prints the file's path.
 *
 * The same sources give the same bytes: times are those of the last commit. Needs dpkg-deb.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { root } from '../workspace/layout.mjs'

const agent = join(root, 'apps/agent')
const manifest = JSON.parse(readFileSync(join(agent, 'package.json'), 'utf8'))
const [folder = '.', version = manifest.version] = process.argv.slice(2)
const PROGRAM = 'usr/lib/oddflow-agent'

const tree = mkdtempSync(join(tmpdir(), 'oddflow-deb-'))
const place = (from, to, mode = 0o644) => {
  const path = join(tree, to)
  mkdirSync(dirname(path), { recursive: true })
  cpSync(from, path, { recursive: true })
  if (statSync(path).isFile()) chmodSync(path, mode)
}

/** Bytes of all files below. */
function sizeOf(path) {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.size
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0)
}

/** Folders 0755, files 0644 but for the program and the scripts. */
function setRights(path) {
  chmodSync(path, 0o755)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const each = join(path, entry.name)
    if (entry.isDirectory()) setRights(each)
    else if (entry.isFile() && !/\/(DEBIAN\/p\w+|dist\/main\.js)$/.test(each)) chmodSync(each, 0o644)
  }
}

try {
  for (const name of ['dist', 'deploy', 'package.json', 'agent.schema.json']) {
    place(join(agent, name), join(PROGRAM, name))
  }
  chmodSync(join(tree, PROGRAM, 'dist/main.js'), 0o755)
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  symlinkSync('../lib/oddflow-agent/dist/main.js', join(tree, 'usr/bin/oddflow-agent'))
  place(join(agent, 'deploy/oddflow-agent.service'), 'usr/lib/systemd/system/oddflow-agent.service')
  place(join(agent, 'deploy/oddflow-agent.sysusers'), 'usr/lib/sysusers.d/oddflow-agent.conf')
  place(join(agent, 'deploy/logrotate'), 'etc/logrotate.d/oddflow-agent')
  place(join(agent, 'README.md'), 'usr/share/doc/oddflow-agent/README.md')
  place(join(agent, 'LICENSE'), 'usr/share/doc/oddflow-agent/copyright')
  const printed = (kind) => execFileSync(process.execPath, [join(agent, 'dist/main.js'), 'completion', kind])
  for (const [path, text] of Object.entries({
    'usr/share/man/man1/oddflow-agent.1.gz': gzipSync(printed('man'), { level: 9 }),
    'usr/share/bash-completion/completions/oddflow-agent': printed('bash'),
    'usr/share/zsh/vendor-completions/_oddflow-agent': printed('zsh'),
    'usr/share/fish/vendor_completions.d/oddflow-agent.fish': printed('fish'),
  })) {
    mkdirSync(dirname(join(tree, path)), { recursive: true })
    writeFileSync(join(tree, path), text)
  }
  mkdirSync(join(tree, 'etc/oddflow'), { recursive: true })
  const scripts = join(root, 'tools/packaging/deb')
  for (const name of ['postinst', 'prerm', 'postrm']) place(join(scripts, name), `DEBIAN/${name}`, 0o755)
  const control = readFileSync(join(scripts, 'control'), 'utf8')
    .replace('@VERSION@', version)
    .replace('@SIZE@', String(Math.ceil(sizeOf(tree) / 1024)))
  writeFileSync(join(tree, 'DEBIAN/control'), control)
  writeFileSync(join(tree, 'DEBIAN/conffiles'), '/etc/logrotate.d/oddflow-agent\n')
  setRights(tree)
  const time = execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' }).trim()
  const file = resolve(folder, `oddflow-agent_${version}_all.deb`)
  mkdirSync(dirname(file), { recursive: true })
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '--build', tree, file], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, SOURCE_DATE_EPOCH: time },
  })
  process.stdout.write(`${file}\n`)
} finally {
  rmSync(tree, { recursive: true, force: true })
}
