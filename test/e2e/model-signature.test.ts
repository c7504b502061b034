/** A signed model from `oddflow sign` to the agent, which takes no other where a key is configured. */
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { agent, agentOnce } from './support/agent.js'
import { lab, oddflow, temporaryFolder, trainLabModel } from './support/oddflow.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)

it('the agent runs a signed model, and refuses one that is changed, unsigned, or signed by another', async () => {
  const model = await trainLabModel(inFolder('home.oddflow'))
  for (const name of ['models', 'stranger']) {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    writeFileSync(inFolder(`${name}.key`), privateKey.export({ type: 'pkcs8', format: 'pem' }), {
      mode: 0o600,
    })
    writeFileSync(inFolder(`${name}.pub`), publicKey.export({ type: 'spki', format: 'pem' }))
  }
  const config = inFolder('agent.yaml')
  const yaml = `read: ${lab('novel-scan.pcap').path}\nmodel: home.oddflow\neve: eve.json\nmodelKey: models.pub\n`
  writeFileSync(config, yaml)
  const refusal = async (): Promise<string> => {
    const { code, stderr } = await agent(['run', '--once', '-c', config])
    expect(code).toBe(1)
    return stderr
  }
  expect(await refusal()).toMatch(/home\.oddflow\.sig: cannot read it: no such file/)
  const before = readFileSync(model)
  const sign = (key: string) => oddflow(['sign', model, '--key', inFolder(key)])
  expect(await sign('models.key')).toMatchObject({ code: 0, stdout: `${model}.sig: signs ${model}\n` })
  expect(readFileSync(model).equals(before)).toBe(true)
  expect((await agentOnce(['-c', config])).novel.total).toBeGreaterThan(100)
  expect(await agent(['run', '-c', config, '--check-config'])).toMatchObject({ code: 0 })

  copyFileSync(model, inFolder('kept'))
  const changed = Buffer.from(before)
  changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1
  writeFileSync(model, changed)
  expect(await refusal()).toMatch(/home\.oddflow\.sig is not its signature by this key/)
  copyFileSync(inFolder('kept'), model)
  await sign('stranger.key')
  expect(await refusal()).toMatch(/is not its signature by this key/)
  // of each model that comes from elsewhere
  await sign('models.key')
  writeFileSync(config, `${yaml}state: state\nmodels: { files: { '02:00:5e:10:00:01': other.oddflow } }\n`)
  copyFileSync(model, inFolder('other.oddflow'))
  expect(await refusal()).toMatch(/other\.oddflow\.sig: cannot read it/)

  expect(await oddflow(['sign', config, '--key', inFolder('models.key')])).toMatchObject({ code: 1 })
  expect(await oddflow(['sign', model, '--key', inFolder('models.pub')])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/models\.pub: expected a private key of Ed25519 in PEM/),
  })
  expect(execFileSync('ls', { cwd: folder, encoding: 'utf8' })).not.toMatch(/agent\.yaml\.sig/)
}, 60_000)
