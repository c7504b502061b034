import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { looseRights, userId } from '../../src/files/rights.js'
import type { OutputSettings } from '../../src/outputs/registry.js'
import { temporaryFolder } from '../support/folder.js'

const user = userId() ?? 0

function kept(mode: number): { state: string; secret: string; outputs: OutputSettings[] } {
  const folder = temporaryFolder()
  const state = join(folder, 'state')
  const secret = join(folder, 'secret')
  mkdirSync(join(state, 'models'), { recursive: true })
  for (const name of ['devices.json', 'dashboard-token.json', 'models/device-a.json']) {
    writeFileSync(join(state, name), '{}', { mode: 0o600 })
  }
  chmodSync(state, mode)
  writeFileSync(secret, 'secret\n', { mode: 0o600 })
  const outputs: OutputSettings[] = [
    { kind: 'ntfy', name: 'hub', url: 'http://127.0.0.1:9/topic', tokenFile: secret },
  ]
  return { state, secret, outputs }
}

it('nothing is said of what the agent alone can read and change, nor of a secret that its group may read', () => {
  const { state, secret, outputs } = kept(0o700)
  expect(looseRights({ state, outputs }, user)).toEqual([])
  chmodSync(secret, 0o640)
  // the folder keeps others out
  chmodSync(join(state, 'dashboard-token.json'), 0o644)
  expect(looseRights({ state, outputs }, user)).toEqual([])
  expect(looseRights({ state: join(state, 'none'), outputs: [] }, user)).toEqual([])
  expect(looseRights({ state: null, outputs: [] }, user)).toEqual([])
})

it('what others can read or change is named, with what to do', () => {
  const { state, secret, outputs } = kept(0o755)
  chmodSync(secret, 0o644)
  chmodSync(join(state, 'dashboard-token.json'), 0o640)
  chmodSync(join(state, 'models/device-a.json'), 0o666)
  chmodSync(join(state, 'devices.json'), 0o644)
  expect(looseRights({ state, outputs }, user)).toEqual([
    `${secret}: others than the agent can read it (mode 644); chmod 640`,
    `${state}: others than the agent can read it (mode 755); chmod 700`,
    `${join(state, 'dashboard-token.json')}: others than the agent can read it (mode 640); chmod 600`,
    `${join(state, 'models/device-a.json')}: others than the agent can change it (mode 666); chmod 644`,
  ])
})

it('what another user owns is named', () => {
  const { state, secret, outputs } = kept(0o700)
  const other = user + 1
  const lines = looseRights({ state, outputs }, other)
  // a secret of root is how a service gets it
  expect(lines.filter((line) => line.startsWith(secret))).toHaveLength(user === 0 ? 0 : 1)
  expect(lines.slice(-2)).toEqual([
    `${state}: belongs to user ${user}, and the agent is user ${other}; give it to the agent (chown ${other})`,
    expect.stringMatching(/dashboard-token\.json, .*: another user's, .*; chown -R \d+ /),
  ])
  expect(lines.at(-1)).toContain('devices.json')
})
