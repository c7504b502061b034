/** What people get of the events, and in which words. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeEve, encodeNotice } from '../../src/alerts/eve.js'
import type { Incident } from '../../src/incidents/incident.js'
import { messageOf, oneByOne, sentenceOf } from '../../src/outputs/message.js'
import { NO_EXPLANATION, sampleAlert } from '../support/sample-alert.js'
import { idOf, incidentLine, sampleIncident } from '../support/sample-incident.js'

const never = new AbortController().signal

describe('people get', () => {
  it('each report of an incident, with its id', () => {
    const line = incidentLine()
    expect(messageOf(line)).toMatchObject({
      id: idOf(line),
      title: 'Camera (192.0.2.23): scan (medium)',
      summary: 'Camera (192.0.2.23) was contacted on 16 ports in 1 s by 192.0.2.66.',
      level: 'medium',
      change: 'opened',
      advice: 'Find the scanning device. If you did not start the scan, disconnect it.',
    })
    expect(messageOf(incidentLine({}, 'over'))?.advice).toBe('')
    const [scan] = sampleIncident().facts as [Incident['facts'][number]]
    const both = incidentLine({ kind: 'password-guessing', facts: [scan, { ...scan, rule: 'dns-tunnel' }] })
    expect(messageOf(both)?.advice).toMatch(
      /^Find the device that guesses\. .* DNS queries\. Find the scanning/,
    )
    expect(messageOf(incidentLine({ kind: 'address-taken', level: 'high' }, 'worse'))?.title).toBe(
      'Camera (192.0.2.23): address taken became worse (high)',
    )
    expect(messageOf(incidentLine({}, 'over'))?.title).toBe('Camera (192.0.2.23): scan is over (medium)')
  })

  it('events about the agent itself, and alerts of no incident, but none of the alerts of an incident', () => {
    const notice = encodeNotice({ rule: 'degraded', atMicros: 0, summary: 'nothing is recorded' }, null)
    expect(messageOf(notice)).toMatchObject({ summary: 'nothing is recorded', change: 'notice' })
    const alone = encodeEve(sampleAlert({ rule: 'device-ready', fact: 'is ready' }), null, NO_EXPLANATION)
    expect(messageOf(alone)).toMatchObject({
      title: '192.0.2.10: device ready to be watched',
      change: 'alert',
    })
    const gathered = encodeEve(sampleAlert({ incident: 'a'.repeat(32) }), null, NO_EXPLANATION)
    expect(messageOf(gathered)).toBeNull()
  })

  it('the facts and reasons that the summary lacks', () => {
    const { facts } = sampleIncident()
    const [fact] = facts as [(typeof facts)[number]]
    const message = messageOf(
      incidentLine({
        facts: [fact, { ...fact, fact: '' }, { ...fact, fact: 'It was active at night' }],
        summary: `${fact.fact}. The flow is long.`,
        reasons: ['is long', 'is late'],
      }),
    )
    expect(message?.facts).toEqual(['It was active at night', 'is late'])
  })

  it('names of peers without a link to them', () => {
    const names = [
      { address: '203.0.113.5', name: 'vendor.example', source: 'dns' as const },
      { address: '203.0.113.6', name: 'www.vendor.example', source: 'tls' as const },
    ]
    const fact = 'It contacted vendor.example (203.0.113.5) and www.vendor.example (203.0.113.6)'
    const message = messageOf(incidentLine({ summary: `${fact}.` }, 'opened', names))
    expect(message?.summary).toBe(
      'It contacted vendor[.]example (203.0.113.5) and www[.]vendor[.]example (203.0.113.6).',
    )
  })

  it('names of devices that are host names without a link to them, and addresses as they are', () => {
    for (const name of [
      'evil.example',
      'a.b-c.evil.example',
      'TV 1.evil.example',
      'me@evil.example',
      'böse.example',
    ]) {
      const message = messageOf(
        incidentLine({
          device: { mac: null, address: '192.0.2.1', name },
          summary: `${name} (192.0.2.1) sent 1.2 MB to fe80::1 in 1.5 s. It is new.`,
          reasons: [`${name} is late`],
        }),
      )
      const safe = name.replaceAll('.', '[.]')
      expect(message).toMatchObject({
        title: `${safe} (192.0.2.1): scan (medium)`,
        summary: `${safe} (192.0.2.1) sent 1.2 MB to fe80::1 in 1.5 s. It is new.`,
        device: `${safe} (192.0.2.1)`,
      })
      expect(message?.facts).toContain(`${safe} is late`)
    }
    const notice = encodeNotice(
      { rule: 'state-damaged', atMicros: 0, summary: 'devices.json is damaged' },
      null,
    )
    expect(messageOf(notice)?.summary).toBe('devices.json is damaged')
  })

  it('one line without control characters, marks that reorder and links, whatever a device calls itself', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.constantFrom(
            'a\r\nBcc: x@y',
            '\u202egnp.exe',
            'http://evil.example',
            'WWW.evil.example',
            'evil.example',
            '\u001b[2J',
          ),
        ),
        (name) => {
          const message = messageOf(
            incidentLine({
              device: { mac: null, address: '192.0.2.1', name },
              summary: `${name} was seen.`,
              reasons: [name],
            }),
          )
          if (message === null) throw new Error('none')
          for (const text of [message.title, sentenceOf(message), message.device, ...message.facts]) {
            expect(text).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|:\/\/|\bwww\.|[a-z]\.[a-z]/iu)
          }
        },
      ),
    )
  })
})

it('a batch that failed midway continues with the failed message', async () => {
  const lines = [1, 2, 3].map((reports) => incidentLine({ reports }))
  const sent: string[] = []
  let fails = true
  const deliver = oneByOne(async ({ id }) => {
    if (fails && id === idOf(lines[1])) {
      fails = false
      throw new Error('away')
    }
    sent.push(id)
    return 'ok'
  })
  await expect(deliver({ first: 0, lines }, never)).rejects.toThrow('away')
  await expect(deliver({ first: 0, lines }, never)).resolves.toBe('ok')
  expect(sent).toEqual(lines.map(idOf))
  // the same again later is sent again: nothing is remembered for long
  await deliver({ first: 0, lines: [lines[0]] }, never)
  expect(sent).toHaveLength(4)
})
