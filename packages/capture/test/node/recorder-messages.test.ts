/** The texts are what tcpdump 4.99.3 and dumpcap 4.0.17 wrote. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RecorderMessages } from '../../src/node/recorder.js'

function read(text: string, pieces = [text]) {
  const messages = new RecorderMessages()
  for (const piece of pieces) messages.add(piece)
  messages.end()
  const { counts, countsTold, hasBegun, lastWords } = messages
  return { counts, countsTold, hasBegun, lastWords }
}

const TCPDUMP = `tcpdump: listening on lo, link-type EN10MB (Ethernet), snapshot length 128 bytes
tcpdump: 7 packets captured, 14 packets received by filter, 0 packets dropped by kernel
10 packets captured
20 packets received by filter
3 packets dropped by kernel
1 packet dropped by interface
`
const DUMPCAP = `Capturing on 'Loopback: lo'
File: -
\rPackets captured: 10
Packets received/dropped on interface 'Loopback: lo': 10/7 (pcap:5/dumpcap:2/flushed:0/ps_ifdrop:4) (58.8%)
`

describe('what the recorder says', () => {
  it('of tcpdump', () => {
    const messages = new RecorderMessages()
    messages.add(TCPDUMP.slice(0, 100))
    expect(messages).toMatchObject({ hasBegun: true, countsTold: 0 })
    messages.add(TCPDUMP.slice(100, 180))
    expect(messages.counts).toEqual({
      captured: 7,
      received: 14,
      droppedByKernel: 0,
      droppedByInterface: null,
    })
    messages.add(TCPDUMP.slice(180))
    expect(messages).toMatchObject({ countsTold: 2, lastWords: '' })
    expect(messages.counts).toEqual({
      captured: 10,
      received: 20,
      droppedByKernel: 3,
      droppedByInterface: 1,
    })
  })

  it('of dumpcap: what was let through is what came and what was lost', () => {
    expect(read(DUMPCAP)).toEqual({
      counts: { captured: 10, received: 17, droppedByKernel: 7, droppedByInterface: 4 },
      countsTold: 1,
      hasBegun: true,
      lastWords: '',
    })
  })

  it('of why it failed, in one line', () => {
    expect(
      read('Capturing on \'nosuch\'\ndumpcap: There is no device named "nosuch".\n(No such device exists)'),
    ).toMatchObject({
      hasBegun: false,
      lastWords: 'dumpcap: There is no device named "nosuch". (No such device exists)',
    })
  })

  it('in pieces of any size', () => {
    fc.assert(
      fc.property(fc.constantFrom(TCPDUMP, DUMPCAP), fc.array(fc.nat(60)), (text, sizes) => {
        const pieces: string[] = []
        let at = 0
        for (const size of sizes) {
          pieces.push(text.slice(at, at + size))
          at += size
        }
        expect(read(text, [...pieces, text.slice(at)])).toEqual(read(text))
      }),
    )
  })

  it('without end, in bounded memory', () => {
    const messages = new RecorderMessages()
    for (let k = 0; k < 1000; k++) messages.add('x'.repeat(10_000))
    for (let k = 0; k < 1000; k++) messages.add('tcpdump: WARNING: nonsense\n')
    messages.end()
    expect(messages.lastWords.length).toBeLessThan(5000)
  })
})
