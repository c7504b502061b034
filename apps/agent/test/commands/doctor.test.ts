/** What doctor says of the right to record, by a recorder that has none. */
import { chmodSync, writeFileSync } from 'node:fs'
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
    expect(said).toMatch(/^note {5}recording {2}this command may not record lo, and the agent that runs may/m)
    expect(process.exitCode).toBeUndefined()
  } finally {
    await agent.close()
  }
})
