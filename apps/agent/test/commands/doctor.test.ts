/** What doctor says of the right to record, by a recorder that has none, and of the files that the agent writes. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import files from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { doctor } from '../../src/commands/doctor.js'
import { openControlSocket } from '../../src/devices/control-socket.js'
import { temporaryFolder } from '../support/folder.js'

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  process.exitCode = undefined
})

it('a command that may not record says nothing against an agent that runs', async () => {
  const folder = temporaryFolder()
  const recorder = join(folder, 'tcpdump')
  writeFileSync(
    recorder,
    `#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "tcpdump: lo: You don't have permission to perform this capture on that device" >&2\nexit 1\n`,
  )
  chmodSync(recorder, 0o755)
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
  let said = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    said += text
    return true
  })
  const config = join(folder, 'agent.yaml')
  writeFileSync(config, 'interface: lo\nmodels: { per: device }\neve: eve.json\nstate: .\nallowRoot: true\n')
  const options = { config, format: 'text', fold: true } as const
  await doctor(options)
  expect(said).toMatch(/^missing {2}recording .*setcap.*; the systemd service needs no such command$/m)
  expect(process.exitCode).toBe(1)
  process.exitCode = undefined
  said = ''
  const agent = await openControlSocket(folder)
  try {
    await doctor(options)
    expect(said).toMatch(/^note {5}recording {2}this command may not record lo, but the running agent may/m)
    expect(process.exitCode).toBeUndefined()
  } finally {
    await agent.close()
  }
})

it('an alert file that is a folder cannot be written, and the check changes nothing', async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'eve.json'))
  const capture = join(folder, 'a.pcap')
  writeFileSync(capture, '')
  const config = join(folder, 'agent.yaml')
  writeFileSync(config, `read: ${capture}\nmodels: { per: device }\neve: eve.json\nstate: new/state\n`)
  let said = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    said += text
    return true
  })
  await doctor({ config, format: 'text', fold: true })
  expect(said).toMatch(/^missing {2}alerts {5}.*eve\.json: cannot write it: is a directory; name a file$/m)
  expect(said).toMatch(/^ok {7}state {6}.*new\/state can be written$/m)
  expect(readdirSync(folder).sort()).toEqual(['a.pcap', 'agent.yaml', 'eve.json'])
})

it.each([
  [{ bavail: 0, ffree: 9 }, 'blocks'],
  [{ bavail: 9, ffree: 0 }, 'inodes'],
])('a disk with %j can take no file', async (free, lack) => {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'a.pcap'), '')
  const config = join(folder, 'agent.yaml')
  writeFileSync(config, 'read: a.pcap\nmodels: { per: device }\neve: eve.json\nstate: new/state\n')
  let said = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    said += text
    return true
  })
  vi.spyOn(files, 'statfs').mockImplementation(async (path) => {
    if (String(path).endsWith('state')) throw new Error('is not there yet')
    return { type: 0, bsize: 4096, blocks: 9, bfree: 9, files: 9, ...free }
  })
  await doctor({ config, format: 'text', fold: true })
  for (const what of ['alerts', 'state'])
    expect(said).toMatch(new RegExp(`^missing {2}${what} .*: no free ${lack} on its disk; remove files`, 'm'))
  expect(process.exitCode).toBe(1)

  // a file that is there needs no inode, and a pipe nothing of the disk
  const eve = join(folder, 'eve.json')
  writeFileSync(eve, '')
  said = ''
  await doctor({ config, format: 'text', fold: true })
  expect(said).toMatch(lack === 'inodes' ? /^ok {7}alerts/m : /^missing {2}alerts/m)
  rmSync(eve)
  execFileSync('mkfifo', [eve])
  said = ''
  await doctor({ config, format: 'text', fold: true })
  expect(said).not.toMatch(/^missing {2}alerts .*no free/m)
})
