import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createPacketDecoder, parseIpv4 } from '@oddflow/capture'
import { createRng, FormatError, packetView } from '@oddflow/core'
import { decodeModelFile, type SavedModel } from '@oddflow/detectors'
import { createFlowExtractor } from '@oddflow/flows'
import {
  createFlowJudge,
  createMadeBatches,
  createPacketMaker,
  DEFAULT_SITE,
  MADE_ATTACKS,
  parseNetwork,
} from '@oddflow/program'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { ANSWER_NAMES, ANSWERS, type Answer } from '../../src/incidents/answer.js'
import { AnswerBook, readAnswers } from '../../src/incidents/answers.js'
import type { Incident } from '../../src/incidents/incident.js'
import {
  addressPair,
  createIncidentRows,
  INCIDENT_ROWS,
  type KeptRows,
  MAXIMUM_ROWS,
} from '../../src/incidents/incident-rows.js'
import { acceptRows } from '../../src/models/accept-rows.js'
import { checkAttacks, trainRows, withoutRows } from '../../src/models/train.js'
import type { Decider } from '../../src/pipeline/counters.js'
import { faultyFiles, noFaults } from '../support/faulty-files.js'
import { temporaryFolder } from '../support/folder.js'
import { keepingLog } from '../support/keeping-log.js'
import { iatSizeContract, summaries, wanderingRows, wholeFlows } from '../support/rows.js'
import { sampleAlert } from '../support/sample-alert.js'
import { sampleRecord } from '../support/sample-record.js'

const HOUR = 3_600_000_000
const now = 1_700_000_000_000_000
const device = '02:00:00:00:00:01'
const camera = { mac: device, address: '192.168.0.1', name: 'Camera at the door' }
const peer = '198.51.100.1'
const id = (n: number): string => n.toString(16).padStart(32, '0')
const { dimension } = wholeFlows

function fileOf(seed: number): Uint8Array {
  return trainRows({
    rows: summaries(300, seed),
    contract: wholeFlows,
    onePacketRule: null,
    falsePositiveRate: 0.01,
    seed,
    oddflowVersion: '0.0.0',
  }).file
}
let files: Uint8Array[] = []
let models: SavedModel[] = []
beforeAll(() => {
  files = [fileOf(1), fileOf(2)]
  models = files.map((file) => decodeModelFile(file))
})

/** Flows unlike the others: by so much in every number. */
function unusual(count: number, change: number, seed = 7): Float64Array[] {
  const rows = summaries(count, seed, change)
  return Array.from({ length: count }, (_, i) => rows.slice(i * dimension, (i + 1) * dimension))
}

function deciderOf(saved: SavedModel, model: string): Decider {
  const { contract, row, judge } = createFlowJudge(saved)
  const decide: Decider['decide'] = (record) => ({
    ...judge(record),
    threshold: saved.threshold.value,
    model,
  })
  const modelOf = () => ({ model, threshold: saved.threshold.value, saved })
  return { contract, row, decide, peek: decide, modelOf, rarity: () => null }
}

const incidentOf = (n: number, changes: Partial<Incident> = {}): Incident => ({
  id: id(n),
  state: 'open',
  key: device,
  device: camera,
  kind: 'unusual-flows',
  level: 'low',
  beginMicros: now,
  endMicros: now,
  evidence: 17,
  totalEvidence: 17,
  reported: null,
  reports: 1,
  flows: 17,
  rarity: null,
  sentBytes: 0,
  receivedBytes: 0,
  facts: [],
  contacts: [],
  summary: `incident ${n}`,
  reasons: [],
  ...changes,
})

async function openBook(
  options: {
    folder?: string
    incidents?: Incident[]
    files?: typeof nodeFileSystem
    accept?: typeof acceptRows
  } = {},
) {
  const { folder = temporaryFolder(), incidents = [incidentOf(1), incidentOf(2)] } = options
  const log = keepingLog()
  const rows = createIncidentRows()
  let nowMicros = now
  let made = 0
  const book = new AnswerBook({
    ...(await readAnswers(nodeFileSystem, folder, log)),
    folder,
    files: options.files ?? nodeFileSystem,
    localNetworks: [parseNetwork('192.168.0.0/16')],
    rows,
    incidents: () => incidents,
    nowMicros: () => nowMicros,
    async accept(job) {
      made++
      return (options.accept ?? acceptRows)(job)
    },
    log,
  })
  const note = (n: number, row: Float64Array, address = peer): void =>
    rows.note(id(n), sampleAlert({ device: camera, peer: address, row }))
  return {
    book,
    rows,
    note,
    folder,
    log,
    at: (micros: number) => {
      nowMicros = micros
    },
    made: () => made,
  }
}

/** Whether a flow of the device with a peer is novel. */
function isNovel(decider: Decider, row: Float64Array, address: string = peer): boolean {
  decider.row.set(row)
  const responderAddress = Uint32Array.of(0, 0, 0, parseIpv4(address) ?? 0)
  return decider.decide(sampleRecord(1, { row: decider.row, responderAddress })).novel
}

describe('a snooze', () => {
  it('holds for a kind and a device, until it ends, over restarts and steps of the clock', async () => {
    const { book, folder, at } = await openBook()
    const { said } = await book.answer({ incident: id(1), answer: 'snooze', hours: 2 })
    expect(said).toEqual([
      `Incidents of kind unusual-flows of Camera at the door (192.168.0.1) are not reported until 2023-11-15T00:13 UTC.`,
    ])
    expect(book.mutedBy({ key: device, kind: 'unusual-flows' })).toBe('snooze')
    expect(book.mutedBy({ key: device, kind: 'scan' })).toBeNull()
    expect(book.mutedBy({ key: '02:00:00:00:00:02', kind: 'unusual-flows' })).toBeNull()
    at(now - 24 * HOUR)
    book.clockSet(-24 * HOUR)
    await book.idle()
    const again = await openBook({ folder })
    again.at(now - 24 * HOUR + 2 * HOUR - 1)
    expect(again.book.mutedBy({ key: device, kind: 'unusual-flows' })).toBe('snooze')
    again.at(now - 24 * HOUR + 2 * HOUR)
    expect(again.book.mutedBy({ key: device, kind: 'unusual-flows' })).toBeNull()
    expect(again.book.list()).toEqual([])
  })

  it('is refused for too many hours, and an invalid answer names the field', async () => {
    const { book } = await openBook()
    const refusal = (asked: unknown) => book.answer(asked).then(String, (error: Error) => error.message)
    expect(await refusal({ incident: id(1), answer: 'snooze', hours: 721 })).toMatch(/at most 720/)
    expect(await refusal({ incident: id(1), answer: 'snooze', hours: 0 })).toMatch(/hours above 0/)
    expect(await refusal({ incident: id(1), answer: 'maybe' })).toMatch(
      /snooze, not-this-kind, attack, normal/,
    )
    expect(await refusal({ incident: id(9), answer: 'snooze' })).toMatch(/there is no incident/)
    expect(await refusal({ incident: '../etc', answer: 'snooze' })).toMatch(/32 hexadecimal digits/)
    expect(await refusal(null)).toMatch(/32 hexadecimal digits/)
    const limits = { answers: ['snooze', 'attack'] as const, hours: 24 }
    await expect(book.answer({ incident: id(1), answer: 'normal' }, limits)).rejects.toThrow(/snooze, attack/)
    await expect(book.answer({ incident: id(1), answer: 'none' }, limits)).rejects.toThrow(/snooze, attack/)
    await expect(book.answer({ incident: id(1), answer: 'snooze', hours: 25 }, limits)).rejects.toThrow(/24/)
    expect(book.list()).toEqual([])
  })
})

it('"not this kind" holds until it is taken back, and another answer takes its place', async () => {
  const { book, at } = await openBook()
  await book.answer({ incident: id(1), answer: 'not-this-kind' })
  at(now + 1000 * 24 * HOUR)
  expect(book.mutedBy({ key: device, kind: 'unusual-flows' })).toBe('not-this-kind')
  const { said } = await book.answer({ incident: id(1), answer: 'snooze', hours: 1 })
  expect(said[0]).toBe('The answer "not-this-kind" no longer applies.')
  expect(said).toHaveLength(2)
  expect(book.list()).toHaveLength(1)
  const removed = await book.answer({ incident: id(1), answer: 'none' })
  expect(removed.said).toEqual([`The answer "snooze" to ${id(1).slice(0, 8)} is removed.`])
  expect(book.mutedBy({ key: device, kind: 'unusual-flows' })).toBeNull()
  await expect(book.answer({ incident: id(1), answer: 'none' })).rejects.toThrow(/has no answer/)
})

it('answers by a broker are a snooze or an attack, once; all others are ignored and counted', async () => {
  const { book, note } = await openBook()
  note(2, unusual(1, 9)[0] as Float64Array)
  const { take, refuseOversized } = book.remote
  const say = (asked: unknown, isRetained = false): Promise<void> =>
    take(new TextEncoder().encode(typeof asked === 'string' ? asked : JSON.stringify(asked)), isRetained)
  await say({ incident: id(1), answer: 'snooze', hours: 8 }, true)
  await say({ incident: id(1), answer: 'normal' })
  await say({ incident: id(1), answer: 'not-this-kind' })
  await say({ incident: id(1), answer: 'snooze', hours: 25 })
  await say({ incident: id(1), answer: 'none' })
  await say({ incident: id(9), answer: 'attack' })
  await say('no JSON')
  await say(' '.repeat(600))
  refuseOversized()
  expect(book.list()).toEqual([])
  await say({ incident: id(1), answer: 'snooze', hours: 24 })
  await say({ incident: id(1), answer: 'snooze', hours: 1 })
  await say({ incident: id(2), answer: 'attack' })
  // what a person said stays
  await say({ incident: id(1), answer: 'attack' })
  expect(book.list().map(({ answer, endsMicros }) => [answer, endsMicros])).toEqual([
    ['snooze', now + 24 * HOUR],
    ['attack', null],
  ])
  expect(book.counts().remote).toEqual({ accepted: 2, retained: 1, repeated: 1, oversized: 2, refused: 7 })
})

describe('"this is normal"', () => {
  it('makes such flows normal with that peer and service alone, says what changes, and is taken back', async () => {
    const { book, note, folder } = await openBook()
    const decider = book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    const [rows, later] = [unusual(17, 3), unusual(10, 3, 8)]
    for (const row of rows) note(1, row)
    expect(later.every((row) => isNovel(decider, row))).toBe(true)
    const { said } = await book.answer({ incident: id(1), answer: 'normal' })
    expect(said[0]).toContain(`normal with ${peer} (tcp port 443)`)
    expect(said[1]).toMatch(
      /^17 of \d+ earlier flows change verdict: 17 of 17 of this incident, 0 of \d+ usual ones\.$/,
    )
    const normal = later.filter((row) => !isNovel(decider, row))
    expect(normal.length).toBeGreaterThanOrEqual(9)
    expect(book.counts()).toMatchObject({ normalFlows: normal.length, standing: { normal: 1 } })
    expect(later.every((row) => isNovel(decider, row, '198.51.100.2'))).toBe(true)
    expect(unusual(10, 9).every((row) => isNovel(decider, row))).toBe(true)
    const again = await openBook({ folder })
    const restarted = again.book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    expect(later.filter((row) => !isNovel(restarted, row))).toEqual(normal)
    again.book.tick()
    await again.book.idle()
    expect(again.made()).toBe(0)
    await again.book.answer({ incident: id(1), answer: 'none' })
    expect(later.every((row) => isNovel(restarted, row))).toBe(true)
    expect(readdirSync(join(folder, 'answers'))).toEqual([])
  })

  it('names the devices that an intruder contacted, and not the intruder', async () => {
    const intruder = { key: '02:00:00:00:00:66', device: { mac: '02:00:00:00:00:66', address: peer } }
    const { book, note } = await openBook({ incidents: [incidentOf(1, intruder)] })
    book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    for (const row of unusual(17, 3)) note(1, row)
    const { said } = await book.answer({ incident: id(1), answer: 'normal' })
    expect(said[0]).toContain(`normal with ${camera.address} (tcp port 443)`)
  })

  it('is made again of another model in force, or where its own is damaged, which goes on judging until then', async () => {
    const { book, note, folder } = await openBook()
    book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    const rows = unusual(17, 3)
    for (const row of rows) note(1, row)
    await book.answer({ incident: id(1), answer: 'normal' })
    const next = await openBook({ folder })
    const decider = next.book.judging(deciderOf(models[1] as SavedModel, 'fedcba9876543210'), null)
    expect(rows.some((row) => isNovel(decider, row))).toBe(false)
    next.book.tick()
    await next.book.idle()
    expect(next.made()).toBe(1)
    expect(next.book.list()[0]?.models[0]?.base).toBe('fedcba9876543210')
    const [name] = readdirSync(join(folder, 'answers'))
    writeFileSync(join(folder, 'answers', name as string), 'damaged')
    const last = await openBook({ folder })
    expect(last.log.lines.join()).toMatch(/is damaged; the model of this answer is being rebuilt/)
    const mended = last.book.judging(deciderOf(models[1] as SavedModel, 'fedcba9876543210'), null)
    expect(rows.every((row) => isNovel(mended, row))).toBe(true)
    last.book.tick()
    await last.book.idle()
    expect(rows.some((row) => isNovel(mended, row))).toBe(false)
  })

  it('and "attack" of the same flows contradict each other, and the refusal says so', async () => {
    const { book, note } = await openBook()
    book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    for (const row of unusual(17, 3)) for (const n of [1, 2]) note(n, row)
    await book.answer({ incident: id(1), answer: 'attack' })
    await expect(book.answer({ incident: id(2), answer: 'normal' })).rejects.toThrow(
      /incident 00000000, with the same peer and service, was answered "attack"; remove that answer first/,
    )
    await book.answer({ incident: id(1), answer: 'none' })
    await book.answer({ incident: id(2), answer: 'normal' })
    await expect(book.answer({ incident: id(1), answer: 'attack' })).rejects.toThrow(/was answered "normal"/)
  })

  it('counts the services of a peer instead of listing many', async () => {
    const { book, rows } = await openBook({ incidents: [incidentOf(1, { kind: 'scan' })] })
    for (let port = 1; port <= 7; port++)
      rows.note(id(1), sampleAlert({ device: camera, peer, score: null, flow: { destinationPort: port } }))
    const { said } = await book.answer({ incident: id(1), answer: 'normal' })
    expect(said[0]).toContain(
      `normal with ${peer} (7 services). Facts of kind scan with these peers are normal too, whatever the service. Traffic with all other peers`,
    )
  })

  it('makes facts of its kind with those peers and services no evidence', async () => {
    const { book, rows } = await openBook({ incidents: [incidentOf(1, { kind: 'password-guessing' })] })
    const guessed = (port: number, address: string) =>
      sampleAlert({
        rule: 'password-guessing',
        device: camera,
        peer: address,
        score: null,
        flow: { destinationPort: port },
      })
    rows.note(id(1), guessed(22, peer))
    const { said } = await book.answer({ incident: id(1), answer: 'normal' })
    expect(said[1]).toMatch(/^No model changes/)
    expect(book.isNormalFact(guessed(22, peer))).toBe(true)
    expect(book.isNormalFact(guessed(23, peer))).toBe(false)
    expect(book.isNormalFact(guessed(22, '198.51.100.2'))).toBe(false)
    expect(book.isNormalFact(sampleAlert({ rule: 'port-scan', device: camera, peer }))).toBe(false)
  })

  it('is refused without flows, and where it cannot be kept nothing has changed', async () => {
    const faults = noFaults()
    const { book, note, folder } = await openBook({ files: faultyFiles(faults) })
    const decider = book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), null)
    await expect(book.answer({ incident: id(1), answer: 'normal' })).rejects.toThrow(/no longer stored/)
    const rows = unusual(17, 3)
    for (const row of rows) note(1, row)
    for (const kind of ['write', 'rename']) {
      faults.fails = (_, step) => step === kind
      await expect(book.answer({ incident: id(1), answer: 'normal' })).rejects.toThrow(/no space left/)
      expect(book.list()).toEqual([])
      expect(rows.every((row) => isNovel(decider, row))).toBe(true)
      expect((await openBook({ folder })).book.list()).toEqual([])
    }
  })
})

describe('an update by an answer', () => {
  const job = (rows: readonly Float64Array[], more: Partial<Parameters<typeof acceptRows>[0]> = {}) => ({
    accept: files[0] as Uint8Array,
    rows: Float64Array.from(rows.flatMap((row) => [...row])),
    others: new Float64Array(0),
    attacks: new Float64Array(0),
    seed: 1,
    ...more,
  })

  it('takes one flow as well as many, and gives the same bytes for the same rows', () => {
    const [row] = unusual(1, 3) as [Float64Array]
    const { file } = acceptRows(job([row]))
    const again = acceptRows(job([row], { others: row }))
    expect(again.file).toEqual(file)
    expect(again.changes[0]).toMatch(/^2 of .*, 1 of 1 of other incidents$/)
    expect(() => checkAttacks(decodeModelFile(file), [row])).toThrow(/finds 1 of 1 flow normal/)
  })

  it('is refused where a flow of an attack would be normal', () => {
    const rows = unusual(17, 3)
    expect(() => acceptRows(job(rows, { attacks: rows[0] as Float64Array }))).toThrow(
      /1 of 1 flow that you answered as an attack would be normal/,
    )
  })

  it('is refused where a kind of attack would be seen at no size', () => {
    expect(() => acceptRows(job(rowsOfMadeScan()))).toThrow(
      /would no longer notice these synthetic attacks of any size: .*scan of one host/,
    )
  })

  it('learns with models that learn on, too', () => {
    const file = trainRows({
      rows: wanderingRows(400, 5, createRng(1)),
      contract: iatSizeContract(3),
      onePacketRule: { flows: 1, services: [] },
      falsePositiveRate: 0.05,
      seed: 1,
      oddflowVersion: '0.0.0',
    }).file
    const rows = wanderingRows(20, 5, createRng(2)).map((value, i) => (i % 5 === 1 ? value + 90 : value))
    const { file: after, changes } = acceptRows(job([rows], { accept: file }))
    expect(changes[0]).toMatch(/^\d+ of \d+ earlier flows change verdict: (19|20) of 20 of this incident/)
    expect(decodeModelFile(after).learned).toBeUndefined()
  })
})

/** Rows of a scan that is made as the search for detection limits makes it. */
function rowsOfMadeScan(): Float64Array[] {
  const { row, contract } = createFlowJudge(models[0] as SavedModel)
  const rows: Float64Array[] = []
  const flows = createFlowExtractor({
    contract,
    row,
    onRecord: (record) => {
      if (record.row !== null) rows.push(record.row.slice())
    },
  })
  const { decapsulation, joinFragments } = packetView(contract)
  const decoder = createPacketDecoder({ decapsulate: decapsulation, joinFragments })
  const packets = flows.createBatch(256)
  const scan = MADE_ATTACKS.find(({ name }) => name === 'port-scan')
  const maker = createPacketMaker({ micros: now })
  for (const batch of createMadeBatches(
    256,
    DEFAULT_SITE.routerMac !== null,
  )(scan?.frames(300, DEFAULT_SITE, createRng(1), maker) ?? [])) {
    decoder.decode(batch, packets)
    flows.add(packets)
  }
  flows.finish()
  return rows
}

describe('rows of an attack', () => {
  it('train no model, and refuse one that finds them normal', () => {
    const rows = unusual(3, 0)
    const all = Float64Array.from(rows.flatMap((row) => [...row]))
    expect(withoutRows(all, dimension, [rows[1] as Float64Array])).toEqual(
      Float64Array.from([...(rows[0] as Float64Array), ...(rows[2] as Float64Array)]),
    )
    expect(() => checkAttacks(models[0] as SavedModel, rows)).toThrow(/answered as an attack/)
    checkAttacks(models[0] as SavedModel, unusual(3, 9))
    // rows of other features say nothing of this model
    checkAttacks(models[0] as SavedModel, [new Float64Array(5)])
  })

  it('go from what devices have learned: all flows between its addresses in its time', async () => {
    const { book, note } = await openBook({
      incidents: [incidentOf(1, { beginMicros: now - 60_000_000, endMicros: now }), incidentOf(2)],
    })
    const [row] = unusual(1, 9) as [Float64Array]
    note(1, row)
    note(2, row)
    const unlearned: unknown[] = []
    book.judging(deciderOf(models[0] as SavedModel, '0123456789abcdef'), {
      unlearn: (...what) => unlearned.push(what),
    })
    await book.answer({ incident: id(2), answer: 'snooze' })
    expect(unlearned).toEqual([])
    await book.answer({ incident: id(1), answer: 'attack' })
    const pair = addressPair(
      Uint32Array.of(0, 0, 0, parseIpv4(peer) ?? 0),
      Uint32Array.of(0, 0, 0, parseIpv4(camera.address) ?? 0),
    )
    expect(unlearned).toEqual([[new Set([pair]), now - 660_000_000, now + 600_000_000]])
  })

  it('are those of the devices that are asked for', async () => {
    const { book, note } = await openBook()
    const [row] = unusual(1, 9) as [Float64Array]
    note(1, row)
    await book.answer({ incident: id(1), answer: 'attack' })
    expect(book.attackRows((each) => each === device)).toEqual([row])
    expect(book.attackRows((each) => each !== device)).toEqual([])
  })
})

describe('rows of incidents', () => {
  it('are a bounded sample over the whole incident, and the oldest go where there are too many', async () => {
    const rows = createIncidentRows()
    for (let i = 0; i < 1000; i++)
      rows.note(id(1), sampleAlert({ peer: `192.0.2.${i % 100}`, row: Float64Array.of(i) }))
    const { contacts, rows: kept } = rows.of(id(1))
    expect(contacts).toHaveLength(32)
    expect(kept.length).toBeLessThanOrEqual(MAXIMUM_ROWS)
    expect(kept.length).toBeGreaterThan(MAXIMUM_ROWS / 2)
    // those before the first fact may have trained a model
    expect(kept.slice(0, MAXIMUM_ROWS / 2).map(({ row }) => row[0])).toEqual(
      Array.from({ length: MAXIMUM_ROWS / 2 }, (_, i) => i),
    )
    for (let n = 2; n < 200; n++)
      for (let i = 0; i < 32; i++) rows.note(id(n), sampleAlert({ row: new Float64Array(100) }))
    expect(rows.of(id(1)).rows).toEqual([])
    expect(rows.of(id(199)).rows).toHaveLength(32)
    const folder = temporaryFolder()
    await rows.write(nodeFileSystem, folder)
    expect(statSync(INCIDENT_ROWS.pathIn(folder)).size).toBeLessThan(500_000)
  })

  it('of a scan leave room for a peer that comes later', () => {
    const rows = createIncidentRows()
    for (let port = 1; port <= 100; port++)
      rows.note(
        id(1),
        sampleAlert({ peer: '192.0.2.66', row: Float64Array.of(port), flow: { destinationPort: port } }),
      )
    rows.note(id(1), sampleAlert({ peer: '198.51.100.7', row: Float64Array.of(-1) }))
    const { contacts, rows: kept } = rows.of(id(1))
    expect(contacts).toHaveLength(32)
    expect(contacts.at(-1)?.peer).toBe('198.51.100.7')
    expect(kept.filter(({ contact }) => contact === 31)).toMatchObject([{ row: Float64Array.of(-1) }])
    rows.note(id(1), sampleAlert({ peer: '192.0.2.66', flow: { destinationPort: 443 } }))
    expect(rows.of(id(1)).contacts).toEqual(contacts)
  })

  it('survive being kept to the last bit', async () => {
    const folder = temporaryFolder()
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 3, maxLength: 3 }),
          {
            maxLength: 40,
          },
        ),
        async (numbers) => {
          const rows = createIncidentRows()
          for (const row of numbers) rows.note(id(1), sampleAlert({ row: Float64Array.from(row) }))
          await rows.write(nodeFileSystem, folder)
          const again = createIncidentRows(
            (await INCIDENT_ROWS.read(nodeFileSystem, folder, keepingLog())) ?? new Map(),
          )
          expect(again.of(id(1))).toEqual(rows.of(id(1)) satisfies KeptRows)
        },
      ),
      { numRuns: sampleCount(50) },
    )
  })
})

it('a file of answers that is none is refused with FormatError, whatever it holds', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (answers) => {
      try {
        for (const each of ANSWERS.decode({
          kind: 'oddflow-answers',
          version: 1,
          answers,
        }) satisfies Answer[])
          expect(ANSWER_NAMES).toContain(each.answer)
      } catch (error) {
        expect(error).toBeInstanceOf(FormatError)
      }
    }),
    { numRuns: sampleCount(200) },
  )
  expect(() => ANSWERS.decode(null)).toThrow(FormatError)
  expect(ANSWERS.pathIn('/state')).toBe('/state/answers.json')
})
