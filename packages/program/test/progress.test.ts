import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { createProgress } from '../src/progress.js'

function terminal(isTTY: boolean): { stream: NodeJS.WriteStream; seen: () => string } {
  let text = ''
  const stream = Object.assign(new PassThrough(), {
    isTTY,
    columns: 120,
    cursorTo: () => true,
    clearLine: () => true,
    moveCursor: () => true,
  })
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  return { stream: stream as unknown as NodeJS.WriteStream, seen: () => text }
}

it('is silent without a terminal', () => {
  const { stream, seen } = terminal(false)
  const progress = createProgress(stream)
  progress.stage('reading a', 10)
  progress.update(5)
  progress.stop()
  expect(seen()).toBe('')
})

it('shows stage and share to a terminal, with the name as text and not as a format', () => {
  const { stream, seen } = terminal(true)
  const progress = createProgress(stream)
  progress.stage('reading {total}\u001b[31m.pcap', 777)
  progress.update(770, 'reading b.pcap')
  progress.update(777)
  progress.stop()
  progress.stop()
  expect(seen()).toContain('reading {total}\\u001b[31m.pcap')
  expect(seen()).toContain('reading b.pcap')
  expect(seen()).toContain('100%')
  expect(seen()).not.toContain('777')
})

it('takes no signal away from the system', () => {
  const before = process.listenerCount('SIGINT')
  const progress = createProgress(terminal(true).stream)
  progress.stage('fitting', 1)
  expect(process.listenerCount('SIGINT')).toBe(before)
  progress.stop()
})
