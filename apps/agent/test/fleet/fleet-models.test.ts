/** What a gateway makes of the models that it is offered: good ones, bad ones, a hostile server, faults of the disk, restarts. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isCanary, MAXIMUM_FLEET_MODEL_BYTES } from '@oddflow/program'
import { beforeAll, describe, expect, it } from 'vitest'
import type { FileSystem } from '../../src/files/file-system.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import {
  fleetGateway,
  kitchen,
  makeModels,
  offerOf,
  sha256Of,
  stranger,
  type TestModels,
} from '../support/fleet.js'
import { temporaryFolders } from '../support/folder.js'

const newFolder = temporaryFolders()
let models: TestModels
beforeAll(() => {
  models = makeModels()
})
const short = (model: Uint8Array): string => sha256Of(model).slice(0, 16)

const gateway = (state = newFolder(), files?: FileSystem) => fleetGateway(models, state, files)

describe('a good model', () => {
  it('judges in shadow first, then is used and proves itself, and stays over restarts without a server', async () => {
    const first = await gateway()
    expect(first.stage()).toBe('none')
    await first.offered(offerOf(7, models.good, { shadowSeconds: 2 }))
    expect([first.stage(), first.used()]).toEqual(['shadow', short(models.wide)])
    await first.flow(60)
    expect(first.fleet.state()).toMatchObject({ stage: 'shadow', version: 7, inUse: null, flows: 60 })
    // in shadow the model is not yet this gateway's
    expect((await gateway(first.state)).used()).toBe(short(models.wide))
    await first.flow(60)
    expect([first.stage(), first.used()]).toEqual(['proving', short(models.good)])
    expect(first.told).toEqual(['model version 7 of the fleet is in use, and has to prove itself'])
    const second = await gateway(first.state)
    expect([second.stage(), second.used()]).toEqual(['proving', short(models.good)])
    await second.flow(120)
    expect(second.fleet.state()).toMatchObject({
      stage: 'in-use',
      inUse: { version: 7, sha256: sha256Of(models.good) },
    })
    expect(second.told).toEqual(['model version 7 of the fleet is in use'])
    const third = await gateway(first.state)
    expect([third.stage(), third.used(), third.told]).toEqual(['in-use', short(models.good), []])
    await third.offered(offerOf(7, models.good, { shadowSeconds: 2 }))
    expect(third.stage()).toBe('in-use')
    expect(third.log.lines).toEqual([])
  })

  it('begins its shadow again after a restart', async () => {
    const first = await gateway()
    await first.offered(offerOf(7, models.good, { shadowSeconds: 9 }))
    await first.flow(120)
    const second = await gateway(first.state)
    await second.offered(offerOf(7, models.good, { shadowSeconds: 9 }))
    expect(second.fleet.state()).toMatchObject({ stage: 'shadow', flows: 0 })
  })

  it('of which enough flows are known and that needs no time is used at once', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good))
    expect([own.stage(), own.used()]).toEqual(['proving', short(models.good)])
  })

  it('waits where others are the canaries', async () => {
    const own = await gateway()
    const version = [1, 2, 3, 4, 5, 6, 7, 8].find((each) => !isCanary('kitchen', each, 0.5))!
    await own.offered(offerOf(version, models.good, { share: 0.5 }))
    expect(own.fleet.state()).toMatchObject({ stage: 'waiting', version })
    await own.offered(offerOf(version, models.good))
    expect(own.stage()).toBe('shadow')
  })

  it('is the newest one, for the gateway or its group', async () => {
    const own = await gateway()
    await own.flow(150)
    const forGroup = offerOf(7, models.good)
    await own.offered(offerOf(9, models.better, { target: kitchen }), forGroup)
    expect([own.fleet.state().version, own.used()]).toEqual([9, short(models.better)])
    await own.flow(120)
    await own.offered(offerOf(9, models.better, { target: kitchen }), offerOf(11, models.good))
    expect([own.fleet.state().version, own.used()]).toEqual([11, short(models.good)])
  })
})

describe('a bad model', () => {
  it.each([
    [
      'with another signature',
      () => offerOf(7, models.good, { key: stranger.privateKey }),
      /not by the pinned key/,
    ],
    [
      'for another gateway',
      () => offerOf(7, models.good, { target: { kind: 'gateway', name: 'cellar' } }),
      /is for gateway\.cellar/,
    ],
    [
      'of another contract',
      () => offerOf(7, models.otherContract),
      /featureSet: the model expects flow-summary/,
    ],
    [
      'that notices nothing',
      () => offerOf(7, models.flagsNothing),
      /notices no synthetic attack of any kind/,
    ],
    [
      'that flags everything',
      () => offerOf(7, models.flagsAll),
      /flags 1\d\d of 1\d\d flows that are normal to the model in use/,
    ],
    [
      'that is too large',
      () =>
        offerOf(7, null, { model: { sha256: 'ab'.repeat(32), sizeBytes: MAXIMUM_FLEET_MODEL_BYTES + 1 } }),
      /at most 1044480/,
    ],
    ['that is no model', () => offerOf(7, new TextEncoder().encode('text')), /model-file|safetensors/],
    ['that is no offer', () => new TextEncoder().encode('{"format":2}'), /format: expected 1/],
  ] as const)('%s is refused with its reason', async (_, offer, reason) => {
    const own = await gateway()
    own.server.set(sha256Of(new TextEncoder().encode('text')), new TextEncoder().encode('text'))
    await own.flow(150)
    const bytes = offer()
    await own.offered(bytes)
    const { stage, reason: found } = own.fleet.state()
    expect([stage, own.used()]).toEqual(['refused', short(models.wide)])
    expect(found).toMatch(reason)
    expect(own.fleet.warnings()[0]).toMatch(reason)
    expect(own.told).toHaveLength(1)
    // said once
    await own.offered(bytes)
    expect(own.told).toHaveLength(1)
    // and a good one comes through
    await own.offered(offerOf(9, models.good))
    expect([own.used(), own.fleet.warnings()]).toEqual([short(models.good), []])
  })

  it('is refused with its reason while the previous one still proves itself, and that proof continues', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good))
    expect(own.stage()).toBe('proving')
    await own.offered(offerOf(9, models.otherContract))
    expect(own.fleet.state()).toMatchObject({
      stage: 'refused',
      version: 9,
      reason: expect.stringMatching(/^featureSet/),
    })
    expect(own.told.at(-1)).toMatch(/^model version 9 of the fleet is refused: featureSet/)
    await own.offered(offerOf(11, models.better, { key: stranger.privateKey }))
    expect(own.fleet.state()).toMatchObject({ stage: 'refused', version: 11 })
    await own.offered(offerOf(8, models.better))
    expect(own.fleet.state().reason).toBe('is older than version 9, which came before')
    await own.flow(120, 3)
    expect(own.used()).toBe(short(models.wide))
  })

  it('that flags everything is refused in shadow where no flows are known', async () => {
    const own = await gateway()
    await own.offered(offerOf(7, models.flagsAll))
    expect(own.stage()).toBe('shadow')
    await own.flow(120)
    expect([own.stage(), own.used()]).toEqual(['refused', short(models.wide)])
    // also after a restart, without a new trial
    const again = await gateway(own.state)
    await again.offered(offerOf(7, models.flagsAll))
    expect(again.stage()).toBe('refused')
  })

  it('that flags too much once it is used is gone back from', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good, { shadowSeconds: 0 }))
    expect(own.used()).toBe(short(models.good))
    await own.flow(120, 3)
    expect([own.stage(), own.used()]).toEqual(['rolled-back', short(models.wide)])
    expect(own.told.at(-1)).toMatch(
      /version 7 of the fleet was in use and is refused now: flags \d+ of 120 flows/,
    )
    const again = await gateway(own.state)
    await again.offered(offerOf(7, models.good))
    expect([again.stage(), again.used()]).toEqual(['rolled-back', short(models.wide)])
  })
})

describe('a roll-back', () => {
  it('goes to the last good model without a download, or to that of the configuration', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good))
    await own.flow(120)
    await own.offered(offerOf(9, models.better))
    expect(own.used()).toBe(short(models.better))
    own.server.clear()
    await own.offered(offerOf(10, models.good))
    expect(own.fleet.state()).toMatchObject({ stage: 'in-use', version: 10 })
    expect(own.used()).toBe(short(models.good))
    await own.offered(offerOf(11, null))
    expect([own.fleet.state().inUse, own.used()]).toEqual([null, short(models.wide)])
    expect((await gateway(own.state)).used()).toBe(short(models.wide))
  })

  it('of a model that this gateway never took changes the version alone', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good))
    await own.flow(120)
    await own.offered(offerOf(9, models.flagsAll))
    await own.offered(offerOf(10, models.good))
    expect(own.fleet.state()).toMatchObject({ stage: 'in-use', version: 10, reason: null })
  })
})

describe('a hostile server', () => {
  it('brings back no old version, also after a restart', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(9, models.good))
    for (const each of [own, await gateway(own.state)]) {
      await each.flow(120)
      await each.offered(offerOf(7, models.better))
      expect(each.fleet.state()).toMatchObject({
        stage: 'refused',
        version: 7,
        reason: 'is older than version 9, which came before',
      })
      expect(each.used()).toBe(short(models.good))
    }
  })

  it('that withholds or changes a model does not spoil its version', async () => {
    const own = await gateway()
    await own.flow(150)
    own.server.delete(sha256Of(models.good))
    await own.offered(offerOf(7, models.good))
    expect(own.fleet.state().reason).toBe('the server has no model')
    own.server.set(sha256Of(models.good), models.better)
    await own.offered(offerOf(7, models.good))
    expect(own.fleet.state().reason).toBe('the SHA-256 of the model differs')
    own.server.set(sha256Of(models.good), models.good)
    await own.offered(offerOf(7, models.good))
    expect(own.used()).toBe(short(models.good))
  })

  it('that is gone changes nothing', async () => {
    const own = await gateway()
    await own.flow(150)
    await expect(
      own.fleet.offered([offerOf(7, models.good)], () => Promise.reject(new Error('timeout'))),
    ).rejects.toThrow('timeout')
    await own.offered()
    expect([own.stage(), own.used()]).toEqual(['none', short(models.wide)])
  })
})

describe('the state folder', () => {
  it('that fails at any step leaves one of the two models, which a restart finds, and the next try works', async () => {
    const steps = async (fails: (step: number) => boolean) => {
      const faults = noFaults()
      const own = await gateway(newFolder(), faultyFiles(faults))
      await own.flow(150)
      const before = faults.steps
      faults.fails = (step) => fails(step - before)
      await own.offered(offerOf(7, models.good)).catch((error: Error) => {
        expect(error.message).toMatch(/ENOSPC|no space left/)
      })
      faults.fails = () => false
      return { own, count: faults.steps - before }
    }
    const { count } = await steps(() => false)
    expect(count).toBeGreaterThan(10)
    for (const at of sampleOf(Array.from({ length: count }, (_, i) => i))) {
      const { own } = await steps((step) => step >= at)
      const used = own.used()
      expect([short(models.wide), short(models.good)]).toContain(used)
      const again = await gateway(own.state)
      if (used === short(models.good)) expect(again.used()).toBe(used)
      for (const each of [own, again]) {
        await each.flow(150)
        await each.offered(offerOf(7, models.good))
        await each.flow(1)
        expect([at, each.used()]).toEqual([at, short(models.good)])
      }
    }
  })

  it('with a damaged model gives the last good one, and reports the damage', async () => {
    const own = await gateway()
    await own.flow(150)
    await own.offered(offerOf(7, models.good))
    await own.flow(120)
    await own.offered(offerOf(9, models.better))
    await own.flow(120)
    writeFileSync(join(own.state, 'fleet-models', `${short(models.better)}.oddflow`), 'damaged')
    const second = await gateway(own.state)
    expect(second.used()).toBe(short(models.good))
    expect(second.log.lines[0]).toMatch(/version 9: expected the SHA-256 .*; an earlier one is used/)
    writeFileSync(join(own.state, 'fleet-model.json'), 'damaged')
    writeFileSync(join(own.state, 'fleet-model.json.copy'), 'damaged')
    const third = await gateway(own.state)
    expect(third.used()).toBe(short(models.wide))
    expect(third.log.lines[0]).toContain('the model of the configuration is used')
  })
})
