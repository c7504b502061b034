/** The files of deploy/ for Prometheus, Grafana, logrotate and compose: tried with these programs where they are, and held against what the agent serves. */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { createMetrics } from '../../src/web/metrics.js'
import { temporaryFolder } from '../support/folder.js'
import { sampleSnapshot } from '../support/sample-dashboard.js'

const deploy = join(import.meta.dirname, '../../deploy')
const text = (name: string): string => readFileSync(join(deploy, name), 'utf8')
const folder = temporaryFolder()

const has = (program: string): boolean =>
  spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined
for (const program of ['promtool', 'logrotate']) {
  if (!has(program))
    console.warn(`SKIPPED: the files of deploy/ were not tried with ${program}: not installed.`)
}

/** /metrics of an agent that has everything: devices, models and incidents. */
function fullMetrics(): Promise<string> {
  const snapshot = sampleSnapshot()
  const facts = { firstContacts: 0, firstContactAlerts: 0, untold: 0 }
  const counters = {
    ...snapshot.counters,
    budget: null,
    devices: { byState: { learning: 1, ready: 0, watching: 2, paused: 0 }, facts },
    models: {
      ...snapshot.counters.models,
      owners: { learning: 1, waiting: 0, withModel: 2 },
      trainings: { accepted: 2, unsettled: 0, failed: 0 },
    },
    incidents: {
      open: { low: 0, medium: 0, high: 0 },
      rate: { opened: 3, perDay: 0.5, interval: { low: 0.1, high: 2 }, allowedPerDay: 1 },
      answers: { standing: {}, normalFlows: 0, silencedAlerts: 0, remote: {} },
    },
  } as unknown as typeof snapshot.counters
  return createMetrics(() => ({ ...snapshot, counters })).text()
}

it.each(['prometheus-rules.yml', 'grafana-dashboard.json'])(
  '%s names metrics and labels that the agent has',
  async (name) => {
    const metrics = await fullMetrics()
    const used = [...text(name).matchAll(/\b(oddflow_[a-z_]+)\b(?:\{([^}]*)\})?/g)]
    expect(used.length).toBeGreaterThan(10)
    for (const [, metric, labels = ''] of used) {
      const samples = metrics
        .split('\n')
        .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
      expect(samples, metric).not.toEqual([])
      for (const [, label, values] of labels.replaceAll('\\', '').matchAll(/(\w+)=~?"([^"]*)"/g)) {
        if (label === 'instance') continue // which Prometheus adds
        for (const value of values!.split('|')) {
          expect(
            samples.some((line) => line.includes(`${label}="${value}"`)),
            `${metric} ${label}=${value}`,
          ).toBe(true)
        }
      }
    }
  },
)

it.skipIf(!has('promtool'))('the rules raise the alerts that they should, and no others', () => {
  for (const [from, name] of [
    [deploy, 'prometheus-rules.yml'],
    [import.meta.dirname, 'prometheus-rules.test.yml'],
  ] as const) {
    cpSync(join(from, name), join(folder, name))
  }
  const promtool = (...args: string[]) => spawnSync('promtool', args, { cwd: folder, encoding: 'utf8' })
  expect(promtool('check', 'rules', 'prometheus-rules.yml')).toMatchObject({ status: 0, stderr: '' })
  const tried = promtool('test', 'rules', 'prometheus-rules.test.yml')
  expect(tried, tried.stdout + tried.stderr).toMatchObject({ status: 0 })
})

it('the board has a data source to choose, and every panel its place', () => {
  const board = JSON.parse(text('grafana-dashboard.json')) as {
    templating: { list: { name: string }[] }
    panels: {
      id: number
      gridPos: { x: number; y: number; w: number; h: number }
      datasource: { uid: string }
    }[]
  }
  expect(board.templating.list.map(({ name }) => name)).toEqual(['datasource', 'instance'])
  expect(new Set(board.panels.map(({ id }) => id)).size).toBe(board.panels.length)
  const taken = new Set<string>()
  for (const { gridPos, datasource } of board.panels) {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana
    expect(datasource.uid).toBe('${datasource}')
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect(taken.has(`${x},${y}`)).toBe(false)
        taken.add(`${x},${y}`)
      }
    }
  }
})

it.skipIf(!has('logrotate'))('logrotate renames the alert file and makes no new one', () => {
  const rules = text('logrotate')
    .replace('/var/log/oddflow-agent', folder)
    .replace(/^ *su .*\n/m, '')
  expect(rules).toContain(`${folder}/*.json`)
  writeFileSync(join(folder, 'rules'), rules)
  chmodSync(join(folder, 'rules'), 0o644)
  writeFileSync(join(folder, 'eve.json'), '{}\n')
  const ran = spawnSync('logrotate', ['--force', '--state', join(folder, 'status'), join(folder, 'rules')], {
    encoding: 'utf8',
  })
  expect(ran).toMatchObject({ status: 0, stderr: '' })
  expect(existsSync(join(folder, 'eve.json'))).toBe(false)
  expect(readdirSync(folder)).toContain('eve.json.1')
})

it('compose runs the image as the Dockerfile means it: read-only but for the state, NET_RAW alone', () => {
  const { services, volumes } = parse(text('compose.yaml')) as {
    services: Record<string, { volumes: string[]; [key: string]: unknown }>
    volumes: object
  }
  const dockerfile = readFileSync(join(deploy, '../../../Dockerfile'), 'utf8')
  const { volumes: mounts, ...rest } = services['oddflow-agent']!
  expect(rest).toMatchObject({
    network_mode: 'host',
    read_only: true,
    cap_drop: ['ALL'],
    cap_add: ['NET_RAW'],
  })
  const [config, state] = mounts.map((mount) => mount.split(':'))
  expect(dockerfile).toContain(`"run", "-c", "${config![1]}"`)
  expect(config![2]).toBe('ro')
  expect(dockerfile).toContain(`VOLUME ${state![1]}\n`)
  expect(Object.keys(volumes)).toEqual([state![0]])
})
