/** The configurations of the agent's pages are configurations, and the whole one of its README has the memory that it needs. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../apps/agent/build/config/read-config.js'
import { settingsFrom } from '../apps/agent/build/config/settings-from.js'
import { planMemory } from '../apps/agent/build/pipeline/memory-plan.js'
import { root } from '../tools/workspace/layout.mjs'

const README = 'apps/agent/README.md'
const pages = [README, ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`)]
const examples = pages
  .filter((page) => page.endsWith('.md'))
  .flatMap((page) =>
    Array.from(
      readFileSync(join(root, page), 'utf8').matchAll(/^```yaml\n(.*?)^```/gms),
      ([, text]) => [page, text] as const,
    ),
  )

describe('the examples', () => {
  it.each(examples)('of %s are configurations', (_, text) => {
    expect(parseConfig(text).errors).toEqual([])
  })

  it('that is whole has the memory that it needs', () => {
    const [[, text]] = examples.filter(([page]) => page === README)
    const settings = settingsFrom({ fold: true, config: '/etc/oddflow/agent.yaml' }, parseConfig(text))
    expect(() => planMemory(settings.memoryLimitBytes, 60_000, settings.outputs)).not.toThrow()
  })
})
