import { expect, it } from 'vitest'
import { createAlertFeed } from '../../src/web/alerts.js'

it('the alert feed keeps the last alerts within its bounds, and gives each number once', () => {
  const feed = createAlertFeed()
  const add = (value: unknown): void => feed.add(new TextEncoder().encode(JSON.stringify(value)))
  for (let i = 0; i < 130; i++) add(i)
  expect(feed.since(0).next).toBe(130)
  expect(JSON.parse(feed.since(0).json)).toEqual(Array.from({ length: 100 }, (_, i) => 30 + i))
  expect(JSON.parse(feed.since(128).json)).toEqual([128, 129])
  expect(JSON.parse(feed.since(130).json)).toEqual([])
  expect((JSON.parse(feed.since(131).json) as unknown[]).length).toBe(100)
  for (let i = 0; i < 10; i++) add('x'.repeat(100_000))
  expect(feed.since(0).json.length).toBeLessThan(524_288)
  expect(feed.since(0).next).toBe(140)
})
