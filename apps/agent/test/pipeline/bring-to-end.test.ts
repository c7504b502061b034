import { expect, it } from 'vitest'
import { endEach } from '../../src/pipeline/bring-to-end.js'

it('what fails at the end is told of, and keeps no other from its end', async () => {
  const said: string[] = []
  const done: number[] = []
  const step = (n: number) => async () => {
    done.push(n)
    if (n % 2 === 0) throw new Error(`${n} cannot be written`)
  }
  await endEach({ warn: (message) => said.push(message) }, [1, 2, 3, 4].map(step))
  expect(done).toEqual([1, 2, 3, 4])
  expect(said).toEqual(['2 cannot be written', '4 cannot be written'])
})
