/**
 * How captures are read: outer and inner views beside an independent reader's, fragments joined, rotated files read
 * as the one capture that they were, and a model that holds others to the view it was trained on.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { oddflowAmongMany } from './support/many-commands.js'
import { can, jsonLines, lab, refuses, succeeds, temporaryFolder } from './support/oddflow.js'
import { goldenCaptures, NO_EVIDENCE, readJson, sharedMissing } from './support/shared.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const run = (args: readonly string[]) => oddflowAmongMany(args, folder)

interface Info {
  packets: number
  flows: Record<'tcp' | 'udp', number>
  skipped: Record<string, number>
  files?: string[]
  latePackets?: number
  order?: Record<string, number>
}
async function info(args: readonly string[]): Promise<Info> {
  return jsonLines<Info>(await run(['info', ...args, '--format', 'json']))[0]!
}

describe('views', () => {
  interface View {
    ipv4_tcp?: number
    ipv6_tcp?: number
    ipv4_udp?: number
    ipv6_udp?: number
  }
  type Expected = Record<string, { packets: number; flows_outer: View; flows_inner: View }>
  const expected: Expected = sharedMissing ? {} : readJson(goldenCaptures('expected.json'))
  const names = Object.keys(expected).filter((name) => name.startsWith('captures/encap/'))

  it.for(sharedMissing ? ['none'] : names)('%s', async (name, context) => {
    if (sharedMissing) return context.skip(NO_EVIDENCE)
    const { packets, flows_outer, flows_inner } = expected[name]!
    const theirs = ({ ipv4_tcp = 0, ipv6_tcp = 0, ipv4_udp = 0, ipv6_udp = 0 }: View) => ({
      tcp: ipv4_tcp + ipv6_tcp,
      udp: ipv4_udp + ipv6_udp,
    })
    const capture = goldenCaptures(name)
    for (const [decap, view] of [
      ['outer', flows_outer],
      ['inner', flows_inner],
    ] as const) {
      const { flows, packets: read } = await info([capture, '--decap', decap])
      expect({ tcp: flows.tcp, udp: flows.udp, packets: read }, decap).toEqual({ ...theirs(view), packets })
    }
  })

  it('join fragments to the flow of the first', async (context) => {
    if (sharedMissing) return context.skip(NO_EVIDENCE)
    const capture = goldenCaptures('captures/ip/dns_fragmented.pcap')
    const apart = await info([capture])
    const joined = await info([capture, '--join-fragments'])
    expect(apart.skipped).toEqual({ 'ip-later-fragment': 7 })
    expect(joined).toEqual({ ...apart, keyedPackets: 66, skipped: {} })
    const rows = inFolder('joined.npy')
    const extracted = await run(['extract', capture, '-o', rows, '--join-fragments'])
    expect(extracted.stderr).toMatch(
      /66 packets: 66 in flows[^\n]*\n7 later fragments joined to their flow\n$/,
    )
  })

  it('are part of a model: score, evaluate and extract follow it, and refuse another', async (context) => {
    if (sharedMissing) return context.skip(NO_EVIDENCE)
    const capture = goldenCaptures('captures/encap/many_encapsulations.pcap')
    const [inner, outer] = ['inner.oddflow', 'outer.oddflow'].map(inFolder)
    await succeeds(['train', capture, '-o', inner!, '--decap', 'inner', '--join-fragments'])
    await succeeds(['train', capture, '-o', outer!])
    const contract = jsonLines<{ featureContract: object }>(
      await run(['inspect', inner!, '--format', 'json']),
    )
    expect(contract[0]!.featureContract).toMatchObject({ decapsulation: 'inner', joinFragments: true })
    expect((await run(['inspect', inner!])).stdout).toMatch(/; tunnels opened; fragments joined[;\n]/)
    const said = await run([
      'score',
      inner!,
      capture,
      '--decap',
      'inner',
      '--join-fragments',
      '--format',
      'json',
    ])
    const silent = await run(['score', inner!, capture, '--format', 'json'])
    expect(said).toEqual(silent)
    expect(silent.stderr).toMatch(/\d+ packets taken out of tunnels/)
    const refused = (args: readonly string[], says: RegExp) => refuses(args, { code: 2, says, folder })
    await refused(['score', inner!, capture, '--decap', 'outer'], /--decap outer: .* on the inner view/)
    await refused(['score', outer!, capture, '--decap', 'inner'], /--decap inner: .* on the outer view/)
    await refused(
      ['score', outer!, capture, '--join-fragments'],
      /--join-fragments: the model was trained without/,
    )
    const evaluation = ['evaluate', outer!, '--normal', capture, '--novel', capture, '--decap', 'inner']
    await refused(evaluation, /--decap inner: /)
    await refused(
      ['extract', capture, '-o', 'x.npy', '--model', outer!, '--decap', 'inner'],
      /--decap inner: /,
    )
  })
})

describe.skipIf(!can('editcap'))('rotated files', () => {
  const whole = lab('normal-1.pcap').path
  let parts: string[] = []

  beforeAll(() => {
    execFileSync('editcap', ['-c', '700', whole, inFolder('ring.pcap')])
    parts = readdirSync(folder)
      .filter((name) => name.startsWith('ring_'))
      .sort()
      .reverse()
      .map(inFolder)
    expect(parts.length).toBeGreaterThan(3)
  })

  it('are the one capture that they were, in whatever order they are named', async () => {
    const rows = async (name: string, args: readonly string[]): Promise<Buffer> => {
      expect(await run(['extract', ...args, '-o', inFolder(name)])).toMatchObject({ code: 0 })
      return readFileSync(inFolder(name))
    }
    const one = await rows('one.npy', [whole])
    expect((await rows('continuous.npy', [...parts, '--continuous'])).equals(one)).toBe(true)
    expect((await rows('single.npy', [whole, '--continuous'])).equals(one)).toBe(true)
    expect((await rows('apart.npy', parts)).equals(one)).toBe(false)
  })

  it('give the same model, verdicts and evaluation', async () => {
    const [one, many] = ['one.oddflow', 'many.oddflow'].map(inFolder)
    await succeeds(['train', whole, '-o', one!])
    await succeeds(['train', ...parts, '--continuous', '-o', many!])
    expect(readFileSync(many!).equals(readFileSync(one!))).toBe(true)
    const verdicts = async (args: readonly string[]) =>
      jsonLines<{ capture?: string }>(await run(['score', one!, ...args, '--format', 'json'])).map(
        ({ capture: _, ...rest }) => rest,
      )
    const expected = await verdicts([whole])
    expect(await verdicts([...parts, '--continuous'])).toEqual(expected)
    const rotated = await run(['score', one!, ...parts, '--continuous', '--format', 'json'])
    expect(jsonLines<{ capture: string }>(rotated)[0]!.capture).toBe(
      `${parts[0]} and ${parts.length - 1} more inputs`,
    )
    const novel = lab('novel-scan.pcap').path
    const evaluation = async (normal: readonly string[]) => {
      const args = ['evaluate', one!, '--normal', ...normal, '--novel', novel, '--format', 'json']
      return jsonLines<{ auc: number; normalScored: number }>(await run(args))[0]!
    }
    const { auc, normalScored } = await evaluation([whole])
    expect(await evaluation([...parts, '--continuous'])).toMatchObject({ auc, normalScored })
  })

  it('are one line of info', async () => {
    const { files, latePackets, ...together } = await info([...parts, '--continuous'])
    const { file: _, ...alone } = (await info([whole])) as Info & { file: string }
    // files that are read as one are put in order as they are joined
    expect(together).toMatchObject({ ...alone, order: { ...alone.order, reorderedPackets: 0 } })
    expect(files).toEqual([...parts].reverse())
    expect(latePackets).toBe(0)
    expect((await run(['info', ...parts, '--continuous'])).stdout).toMatch(
      /late {8}0 packets that could not be put in order/,
    )
  })

  it('tell of packets that came too late to be put in order', async () => {
    // the first packets once more, behind all others: far beyond the window
    const early = inFolder('early.pcap')
    execFileSync('editcap', ['-r', whole, early, '1-3'])
    execFileSync('mergecap', ['-a', '-w', inFolder('late.pcap'), whole, early])
    const result = await run(['extract', inFolder('late.pcap'), '--continuous', '-o', inFolder('late.npy')])
    expect(result.stderr).toMatch(
      /late\.pcap: 3 packets too late to be put in order; kept in the order of the file/,
    )
  })

  it('must be files, since a pipe cannot be looked into', async () => {
    const args = ['extract', parts[0]!, '-', '-o', 'x.npy', '--continuous']
    await refuses(
      args,
      { code: 1, says: /standard input: is not a regular file/, folder },
      { stdin: new Uint8Array(0) },
    )
  })
})

it('info --filter counts what the filter keeps', async () => {
  const capture = lab('novel-scan.pcap').path
  const [all, tcp, rest] = await Promise.all([
    info([capture]),
    info([capture, '--filter', 'tcp']),
    info([capture, '--filter', 'not tcp']),
  ])
  expect(tcp.flows).toMatchObject({ tcp: all.flows.tcp, udp: 0 })
  expect(tcp.packets + rest.packets).toBe(all.packets)
})
