import { createRng } from '@oddflow/core'
import { decodeModelFile } from '@oddflow/detectors'
import { expect, it } from 'vitest'
import { createNoticedOf } from '../../src/models/noticed.js'
import { trainRows } from '../../src/models/train.js'
import { iatSizeContract, wanderingRows } from '../support/rows.js'

const { file } = trainRows({
  rows: wanderingRows(60, 5, createRng(1)),
  contract: iatSizeContract(3),
  onePacketRule: null,
  falsePositiveRate: 0.1,
  seed: 1,
  oddflowVersion: '0.0.0',
} as never)
const saved = decodeModelFile(file)

it('is found once for a model and a threshold, one at a time, and again after a failure', async () => {
  let [running, most, fails] = [0, 0, false]
  const asked: number[] = []
  const thresholds: Readonly<Record<string, number>> = { a: 1, b: 1, c: 2 }
  const noticedOf = createNoticedOf(
    (device) => (device in thresholds ? { model: 'm', threshold: thresholds[device], saved } : null),
    async ({ threshold }) => {
      asked.push(threshold)
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 5))
      running--
      if (fails) throw new Error('out of memory')
      return [{ kind: 'scan', from: `from ${threshold}` }]
    },
  )
  expect(await noticedOf('unknown')).toBe(null)
  fails = true
  await expect(noticedOf('a')).rejects.toThrow('out of memory')
  fails = false
  const found = await Promise.all(['a', 'b', 'c', 'a'].map(noticedOf))
  expect(found.map((each) => each?.[0].from)).toEqual(['from 1', 'from 1', 'from 2', 'from 1'])
  expect(asked).toEqual([1, 1, 2])
  expect(most).toBe(1)
})
