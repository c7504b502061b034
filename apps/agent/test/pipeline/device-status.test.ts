/** What outputs are told of devices, and where the dashboard is. */
import { expect, it } from 'vitest'
import { createDevice } from '../../src/devices/device.js'
import { dashboardUrlOf, deviceStatuses } from '../../src/pipeline/open-outputs.js'
import { sampleIncident } from '../support/sample-incident.js'

const NOON = Date.parse('2026-03-02T12:00:00') * 1000
const HOUR = 3_600_000_000

it("outputs get devices that have learned, with today's incidents and the last one", () => {
  const camera = createDevice('02:00:00:00:00:0a', '192.0.2.23', NOON - 48 * HOUR)
  camera.state = 'watching'
  camera.group = 'cameras'
  const fresh = createDevice('02:00:00:00:00:0b', '192.0.2.24', NOON)
  const incidents = [
    sampleIncident({ beginMicros: NOON - 30 * HOUR, summary: 'before' }),
    sampleIncident({ beginMicros: NOON - 2 * HOUR, summary: 'the last' }),
    sampleIncident({ beginMicros: NOON - 11 * HOUR, state: 'over', summary: 'this morning' }),
    sampleIncident({ beginMicros: NOON - HOUR, state: 'gathering', summary: 'none yet' }),
    sampleIncident({ key: fresh.key, beginMicros: NOON, summary: "another's" }),
  ]
  expect(deviceStatuses([camera, fresh], incidents, NOON, new Set())).toEqual([
    {
      key: camera.key,
      name: '192.0.2.23',
      group: 'cameras',
      state: 'watching',
      incidentsToday: 2,
      lastIncident: 'the last',
      unanswered: incidents[1].id,
    },
  ])
  expect(deviceStatuses([camera], incidents, NOON, new Set([incidents[1].id]))).toMatchObject([
    { lastIncident: 'the last', unanswered: null },
  ])
  expect(deviceStatuses([camera], [], NOON, new Set())).toMatchObject([
    { incidentsToday: 0, lastIncident: '', unanswered: null },
  ])
})

it('outputs get the 64 devices that were seen last', () => {
  const devices = Array.from({ length: 70 }, (_, i) => {
    const device = createDevice(`02:00:00:00:00:${i.toString(16).padStart(2, '0')}`, `192.0.2.${i}`, NOON)
    device.state = 'watching'
    device.lastSeenMicros = NOON + i
    return device
  })
  const told = deviceStatuses(devices, [], NOON, new Set())
  expect(told).toHaveLength(64)
  expect(told[0].name).toBe('192.0.2.69')
})

it.each([
  ['127.0.0.1', [], null],
  ['127.0.0.1', ['gateway.lan'], 'http://gateway.lan:9477/'],
  ['192.0.2.1', [], 'http://192.0.2.1:9477/'],
  ['fd00::1', [], 'http://[fd00::1]:9477/'],
  ['0.0.0.0', [], expect.stringMatching(/^http:\/\/[^/]+:9477\/$/)],
] as const)('the dashboard at %s with names %j is found at %s', (host, hosts, url) => {
  expect(dashboardUrlOf({ listen: { host, port: 9477 }, dashboard: { hosts } })).toEqual(url)
  expect(dashboardUrlOf({ listen: { host, port: 9477 }, dashboard: null })).toBeNull()
})
