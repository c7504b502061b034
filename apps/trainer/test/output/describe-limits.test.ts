import { findDetectionLimits, MADE_ATTACKS } from '@oddflow/program'
import { describe, expect, it } from 'vitest'
import {
  describeLimitChange,
  describeLimits,
  limitChangeWarnings,
  limitFacts,
  limitsJson,
  limitWarnings,
} from '../../src/output/describe-limits.js'
import { smallModel } from '../small-model.js'

const attack = (name: string) => MADE_ATTACKS.find((made) => made.name === name)!
const seen = (name: string, smallest: number | null, isConnectionNovel = false) => ({
  attack: attack(name),
  smallest,
  isConnectionNovel,
})
const found = { site: null, remembered: { rows: 100, flagged: 1 }, flagsFarRows: null }

describe('detection limits', () => {
  it('are said in units that fit, rounded up', () => {
    const limits = [
      seen('port-scan', 1),
      seen('host-scan', 13),
      seen('upload', 40_001),
      seen('download', 1_000_001),
      seen('beacon', 866),
      seen('flood', 1),
      seen('dns-tunnel', null),
    ]
    expect(limitFacts({ ...found, limits }).map(({ label, value }) => `${label}: ${value}`)).toEqual([
      'detection limits: the smallest synthetic attack that is flagged in 9 of 10 tries',
      'scan of one host: found at the smallest size tried (1 port)',
      'scan of many hosts: from 13 hosts',
      'upload, open connection: from 41 kB',
      'download: from 1.1 MB',
      'beacon, every minute: from 870 bytes',
      'UDP flood, 5 s: found at the smallest size tried (1 packet/s)',
      'tunnel in DNS: none, not even 250 bytes of name',
    ])
    expect(describeLimits({ ...found, limits: limits.slice(1, 3) })).toEqual([
      '  detection limits: the smallest synthetic attack that is flagged in 9 of 10 tries',
      '    scan of many hosts       from 13 hosts',
      '    upload, open connection  from 41 kB',
    ])
    expect(limitsJson({ ...found, limits })).toMatchObject({
      upload: { smallest: 40_001, unit: 'bytes', lowest: 1, highest: 10_000_000 },
      'dns-tunnel': { smallest: null },
    })
  })

  it('say that nothing is known of uploads where no connection is normal', () => {
    const limits = [seen('upload', 1, true)]
    expect(limitFacts({ ...found, limits })[1]!.value).toBe(
      'unknown: the synthetic connection is novel even without an upload',
    )
    expect(limitsJson({ ...found, limits })).toMatchObject({
      upload: { smallest: null, isConnectionNovel: true },
    })
  })

  it('warn of kinds that stay invisible and of models that flag everything or nothing', () => {
    const one = [seen('upload', 500), seen('flood', null)]
    expect(limitWarnings({ ...found, limits: one })).toEqual([
      'this model does not see: UDP flood, 5 s (10,000 packets/s)',
    ])
    expect(limitWarnings({ ...found, limits: [seen('upload', 500)] })).toEqual([])
    expect(limitWarnings({ ...found, limits: [seen('flood', null)] })).toEqual([
      expect.stringMatching(/^this model flags nothing: no synthetic attack of any kind;/),
    ])
    expect(limitWarnings({ ...found, limits: [], flagsFarRows: false })).toEqual([
      expect.stringMatching(/^this model flags nothing: not even rows far from all others;/),
    ])
    expect(limitWarnings({ ...found, limits: [], remembered: { rows: 10, flagged: 9 } })).toEqual([
      expect.stringMatching(/^this model flags nearly everything: 9 of the 10 rows/),
    ])
  })

  it('stand beside those of before an update, which warns of kinds that it lost', () => {
    const before = { ...found, limits: [seen('port-scan', 1), seen('flood', 10), seen('upload', 500)] }
    const after = { ...found, limits: [seen('port-scan', null), seen('flood', 20), seen('upload', 1100)] }
    expect(describeLimitChange(before, after)).toEqual([
      '  detection limits: the smallest synthetic attack that is flagged in 9 of 10 tries, before → after',
      '    scan of one host         found at the smallest size tried (1 port) → none, not even 1,000 ports',
      '    UDP flood, 5 s           from 10 packets/s → from 20 packets/s',
      '    upload, open connection  from 500 bytes → from 1.1 kB',
    ])
    expect(limitChangeWarnings(before, after)).toEqual([
      'no longer found: scan of one host, not even 1,000 ports (before the update found from 1 port)',
      'found later: upload, open connection, from 1.1 kB (before the update found from 500 bytes)',
    ])
    expect(limitChangeWarnings(before, before)).toEqual([])
    // what was not found, or not known, is not lost
    const unknown = {
      ...found,
      limits: [seen('port-scan', null), seen('flood', 10), seen('upload', 1, true)],
    }
    expect(limitChangeWarnings(unknown, after)).toEqual([])
    expect(describeLimitChange(before, before)[1]).toMatch(/\(1 port\), as before$/)
    expect(describeLimitChange({ ...found, limits: [] }, { ...found, limits: [] })).toEqual([])
  })

  it('are none for a model of bare rows', () => {
    const contract = { featureSet: 'rows', featureSetVersion: 1, dimension: 3, scaler: 'none' } as const
    const limits = findDetectionLimits({ ...smallModel().saved, contract })
    expect(limitFacts(limits)).toEqual([])
    expect(limitsJson(limits)).toBeNull()
  })
})
