import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/input/clocks.js'
import { createAlertFeed } from '../../src/web/alerts.js'
import { createStateStreams, type ShownState } from '../../src/web/dashboard.js'

it('skips a browser that does not read, and sends all of the state when it reads again', () => {
  const feed = createAlertFeed()
  let openFlows = 0
  const state = () => ({ openFlows: openFlows++, version: '1' }) as unknown as ShownState
  const streams = createStateStreams({ ...systemClock, every: () => () => undefined }, feed, state, {})
  const written: unknown[] = []
  const response = {
    writableNeedDrain: false,
    writeHead: () => response,
    once: () => response,
    write: (text: string) => written.push(JSON.parse(text.slice('data: '.length))),
  }
  streams.open(response as unknown as ServerResponse, 0, () => true)
  streams.update()
  response.writableNeedDrain = true
  feed.add(new TextEncoder().encode('"meanwhile"'))
  for (let i = 0; i < 100; i++) streams.update()
  response.writableNeedDrain = false
  streams.update()
  streams.update()
  expect(written).toEqual([
    { openFlows: 0, version: '1', alerts: [], next: 0 },
    { openFlows: 1, alerts: [], next: 0 },
    { openFlows: 102, version: '1', alerts: ['meanwhile'], next: 1 },
    { openFlows: 103, alerts: [], next: 1 },
  ])
})
