import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/read-config.js'
import { settingsFrom } from '../../src/config/settings-from.js'
import type { OutputSettings } from '../../src/outputs/registry.js'
import { planMemory } from '../../src/pipeline/memory-plan.js'

const MEBIBYTE = 1_048_576

function outputsOf(text: string): readonly OutputSettings[] {
  const config = `interface: eth0\nmodel: a.oddflow\neve: eve.json\noutputs: [${text}]\n`
  return settingsFrom({ fold: true, config: '/etc/oddflow/agent.yaml' }, parseConfig(config)).outputs
}

describe('a ceiling that is too low', () => {
  const mqtt = outputsOf("{ kind: mqtt, url: 'mqtt://192.0.2.5:1883' }")
  it.each([
    ['a small model', 20_000, []],
    ['a large one', 3_000_000, []],
    ['an MQTT broker', 20_000, mqtt],
    ['all of it', 9_000_000, mqtt],
  ] as const)('with %s is refused with the least that will do', (_, modelBytes, outputs) => {
    const plan = (mebibytes: number) => planMemory(mebibytes * MEBIBYTE, modelBytes, outputs)
    let told = 0
    try {
      plan(64)
    } catch (error) {
      told = Number(/give (\d+)M or more$/.exec((error as Error).message)?.[1])
    }
    expect(() => plan(told - 1)).toThrow(`give ${told}M or more`)
    expect(plan(told).flowBytes).toBeGreaterThanOrEqual(2 * MEBIBYTE)
  })
})

it('the default ceiling has room for models that learn on', () => {
  const settingsOf = (text: string) =>
    settingsFrom(
      { fold: true, config: '/etc/oddflow/agent.yaml' },
      parseConfig(
        `interface: eth0\neve: eve.json\nstate: state\nmodels: { features: { set: iat-size } }\n${text}`,
      ),
    )
  const flowBytesOf = (text: string): number => {
    const { models, learning, memoryLimitBytes } = settingsOf(text)
    if (models === null) throw new Error('no models')
    return planMemory(memoryLimitBytes, 0, [], { models, online: learning, dimension: 19 }).flowBytes
  }
  const online = flowBytesOf('learning: { online: true }')
  expect(online).toBeGreaterThanOrEqual(flowBytesOf(''))
  expect(online).toBeLessThan(flowBytesOf('') + MEBIBYTE)
})

it('the default ceiling is higher by what names of peers take beside models that are made here', () => {
  const limitOf = (text: string): number =>
    settingsFrom(
      { fold: true, config: '/etc/oddflow/agent.yaml' },
      parseConfig(`interface: eth0\neve: eve.json\nstate: state\n${text}`),
    ).memoryLimitBytes
  const made = 'models: { per: device }\n'
  expect(limitOf(`${made}peerNames: [eve]\n`)).toBe(limitOf(made) + 4 * MEBIBYTE)
})
