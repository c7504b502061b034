/**
 * `extract --flows`: the same records in every format, read back by other programs where they are installed, and
 * identifiers that others compute too.
 */
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { beforeAll, describe, expect, it } from 'vitest'
import { oddflowAmongMany } from './support/many-commands.js'
import { can, filesOf, lab, main, oddflow, refuses, succeeds, temporaryFolder } from './support/oddflow.js'
import { goldenCaptures, NO_EVIDENCE, sharedMissing } from './support/shared.js'
import { untilIdle } from './support/until-idle.mjs'

type Entry = Record<string, string | number>

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const capture = lab('novel-scan.pcap')
const run = (args: readonly string[]) => oddflowAmongMany(['extract', '--flows', ...args], folder)

function readJsonLines(file: string): Entry[] {
  return readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Entry)
}

/** Of a Python with these modules; null where there is none, said aloud. */
function python(modules: string, program: string, ...args: string[]): string | null {
  try {
    execFileSync('python3', ['-c', `import ${modules}`], { stdio: 'ignore' })
  } catch {
    console.warn(`SKIPPED: no Python with ${modules}`)
    return null
  }
  return execFileSync('python3', ['-c', program, ...args], { encoding: 'utf8', maxBuffer: 2 ** 26 })
}

function fileOf(name: string): ArrayBuffer {
  const bytes = readFileSync(inFolder(name))
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}

/** Rows with numbers in place of bigints, and ts in seconds. */
async function readParquet(name: string): Promise<Record<string, string | number | null>[]> {
  const rows = await parquetReadObjects({
    file: fileOf(name),
    compressors: { GZIP: (bytes) => gunzipSync(bytes) },
    parsers: { timestampFromMicroseconds: (micros: bigint) => Number(micros) / 1e6 },
  })
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => [
        column,
        typeof value === 'bigint' ? Number(value) : value,
      ]),
    ),
  )
}

let entries: Entry[] = []
beforeAll(async () => {
  for (const format of ['jsonl', 'csv', 'parquet', 'npy']) {
    const { stderr } = await succeeds(['extract', '--flows', capture.path, '-o', inFolder(`flows.${format}`)])
    expect(stderr).toMatch(
      /: 470 flow records\n1604 packets: 1582 in flows; not in flows: 22 arp; 1 packet reordered by time\n$/,
    )
  }
  entries = readJsonLines(inFolder('flows.jsonl'))
})

describe('the records', () => {
  it('are all flows, with every packet in one of them', () => {
    const sum = (...names: string[]): number =>
      entries.reduce((total, entry) => total + names.reduce((n, name) => n + (entry[name] as number), 0), 0)
    expect(sum('orig_pkts', 'resp_pkts')).toBe(1582)
    const count = (proto: string): number => entries.filter((entry) => entry.proto === proto).length
    // as the labels of the capture have it, by tshark
    expect(count('tcp') + count('udp')).toBe(capture.flows)
    expect(count('icmp')).toBeGreaterThan(0)
    expect(new Set(entries.map(({ uid }) => uid)).size).toBe(entries.length)
  })

  it('end when TCP closes, where that is asked for', async () => {
    await succeeds(['extract', '--flows', capture.path, '-o', inFolder('closed.jsonl'), '--end-on-close'])
    const closed = readJsonLines(inFolder('closed.jsonl'))
    const ended = (all: Entry[]) => all.filter(({ end_reason }) => end_reason === 'closed')
    expect(ended(entries)).toEqual([])
    expect(ended(closed).length).toBeGreaterThan(100)
    for (const { proto, conn_state } of ended(closed)) {
      expect(proto).toBe('tcp')
      expect(conn_state).toMatch(/^(?:SF|REJ|RST\w+|OTH|SH|SHR)$/)
    }
  })

  it.skipIf(!can('tshark'))('have the Community IDs that tshark computes, packet for packet', () => {
    const args = ['-r', capture.path, '--enable-protocol', 'communityid', '-T', 'fields', '-e', 'communityid']
    const theirs: Record<string, number> = {}
    for (const line of execFileSync('tshark', args, { encoding: 'utf8', stdio: 'pipe' }).split('\n')) {
      // of a packet that quotes another, the first is its own
      const id = line.split(',')[0]!
      if (id !== '') theirs[id] = (theirs[id] ?? 0) + 1
    }
    const ours: Record<string, number> = {}
    for (const entry of entries) {
      const id = entry.community_id as string
      ours[id] = (ours[id] ?? 0) + (entry.orig_pkts as number) + (entry.resp_pkts as number)
    }
    expect(ours).toEqual(theirs)
  })

  it('know ICMP by type and answer, and SCTP by its ports', async () => {
    const icmp = entries.filter(({ proto }) => proto === 'icmp')
    for (const entry of icmp) {
      expect(entry).toMatchObject({ conn_state: 'OTH' })
      // the hosts of the capture, as tshark has them: neighbour discovery, router solicitation, reports
      if (String(entry['id.orig_h']).includes(':')) expect(entry.ip_proto).toBe(58)
      else expect(entry.ip_proto).toBe(1)
    }
    writeFileSync(inFolder('sctp.pcap'), manyFlows(3, 132))
    expect((await run(['sctp.pcap', '-o', 'sctp.jsonl'])).code).toBe(0)
    expect(readJsonLines(inFolder('sctp.jsonl'))[2]).toMatchObject({
      proto: 'sctp',
      ip_proto: 132,
      'id.orig_h': '192.0.2.0',
      'id.orig_p': 1026,
      'id.resp_h': '198.51.100.1',
      'id.resp_p': 53,
      conn_state: 'OTH',
    })
    const tcpOnly = await run([capture.path, '-o', 'tcp.jsonl', '--protocols', 'tcp'])
    expect(tcpOnly.stderr).toMatch(/protocol-udp.*protocol-icmpv6/)
    expect(new Set(readJsonLines(inFolder('tcp.jsonl')).map(({ proto }) => proto))).toEqual(new Set(['tcp']))
  })

  it('are of tunnels or of what is within, and of one capture or of several', async (context) => {
    if (sharedMissing) return context.skip(NO_EVIDENCE)
    const gre = goldenCaptures('captures/encap/vxlan.pcap')
    const flowsOf = async (...options: string[]): Promise<number> => {
      expect(await run([...options, '-o', 'some.jsonl'])).toMatchObject({ code: 0 })
      return readJsonLines(inFolder('some.jsonl')).filter(({ proto }) => proto !== 'icmp').length
    }
    expect([await flowsOf(gre), await flowsOf(gre, '--decap', 'inner')]).toEqual([9, 4])
    expect(await flowsOf(gre, gre)).toBe(18)
  })

  it('are cut by an active timeout, with all their packets', async () => {
    await run([lab('normal-1.pcap').path, '-o', 'cut.jsonl', '--active-timeout', '10', '--size', 'ip'])
    const cut = readJsonLines(inFolder('cut.jsonl'))
    expect(cut.some(({ end_reason, piece }) => end_reason === 'active-timeout' || piece !== 0)).toBe(true)
    expect(Object.keys(cut[0]!)).not.toContain('orig_frame_bytes')
  })
})

describe('the formats hold the same', () => {
  it('CSV', () => {
    const [head, ...lines] = readFileSync(inFolder('flows.csv'), 'utf8').trimEnd().split('\n')
    expect(head!.split(',')).toEqual(Object.keys(entries[0]!))
    expect(lines.map((line) => line.split(','))).toEqual(
      entries.map((entry) =>
        Object.entries(entry).map(([name, value]) =>
          name === 'ts' || name === 'duration' ? Number(value).toFixed(6) : String(value),
        ),
      ),
    )
  })

  it('JSON lines, through standard output', async () => {
    const piped = await oddflow(['extract', '--flows', capture.path, '-o', '-'])
    expect(piped.stdout).toBe(readFileSync(inFolder('flows.jsonl'), 'utf8'))
    expect(piped.stderr).toMatch(/^standard output: 470 flow records\n/)
  })

  it('Parquet, read by hyparquet', async () => {
    const plain = (await readParquet('flows.parquet')).map((row) =>
      Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)),
    )
    expect(plain).toEqual(entries)
  })

  it('Parquet with the same columns whatever the options, null where a record has no value', async () => {
    await run([capture.path, '-o', 'ip.parquet', '--size', 'ip', '--vlan-key'])
    await run([capture.path, '-o', 'payload.parquet', '--size', 'payload'])
    const [frame, ip, payload] = [
      await readParquet('flows.parquet'),
      await readParquet('ip.parquet'),
      await readParquet('payload.parquet'),
    ]
    expect(Object.keys(ip[0]!)).toEqual(Object.keys(frame[0]!))
    expect(Object.keys(payload[0]!)).toEqual(Object.keys(frame[0]!))
    for (const [i, row] of frame.entries()) {
      expect(row).toMatchObject({ orig_captured_bytes: null, orig_payload_bytes: null, vlan: null })
      expect(ip[i]).toEqual({ ...row, orig_frame_bytes: null, resp_frame_bytes: null })
      expect(payload[i]).toMatchObject({ orig_frame_bytes: null, vlan: null })
      expect(typeof payload[i]!.orig_payload_bytes).toBe('number')
    }
  })

  it('Parquet with MAC addresses of some records alone, and bounds of each column', async () => {
    // of 9 records, so that the last bits of a byte are of none
    const bytes = manyFlows(9, 17, (i) => i % 3 === 0)
    writeFileSync(inFolder('mixed.pcap'), bytes)
    expect(await run(['mixed.pcap', '-o', 'mixed.parquet'])).toMatchObject({ code: 0 })
    const rows = (await readParquet('mixed.parquet')).sort((a, b) => Number(a.ts) - Number(b.ts))
    expect(rows.map(({ orig_l2_addr }) => orig_l2_addr)).toEqual(
      Array.from({ length: 9 }, (_, i) => (i % 3 === 0 ? null : '02:00:00:00:00:02')),
    )
    const { row_groups } = await parquetMetadataAsync(fileOf('mixed.parquet'))
    const statistics = Object.fromEntries(
      row_groups[0]!.columns.map(({ meta_data }) => [meta_data!.path_in_schema[0], meta_data!.statistics]),
    )
    expect(statistics.orig_l2_addr).toMatchObject({ null_count: 3n })
    expect(statistics['id.orig_p']).toMatchObject({ min_value: 1024n, max_value: 1032n, null_count: 0n })
  })

  it('Parquet, read by pyarrow', (context) => {
    const program =
      'import json, sys, pyarrow.parquet as p\n' +
      't = p.read_table(sys.argv[1])\n' +
      'assert str(t.schema.field("ts").type) == "timestamp[us, tz=UTC]"\n' +
      'rows = t.set_column(0, "ts", t["ts"].cast("int64")).to_pylist()\n' +
      'rows = [{n: v for n, v in r.items() if v is not None} for r in rows]\n' +
      'print(json.dumps([{**r, "ts": r["ts"] / 1e6} for r in rows]))'
    const text = python('pyarrow.parquet', program, inFolder('flows.parquet'))
    if (text === null) return context.skip('no Python with pyarrow')
    expect(JSON.parse(text)).toEqual(entries)
  })

  it('NumPy records, read by numpy', (context) => {
    const program =
      'import json, sys, numpy\n' +
      'a = numpy.load(sys.argv[1])\n' +
      'assert a.dtype["ts"] == numpy.dtype("M8[us]")\n' +
      'def plain(n, v):\n' +
      '    if n == "ts": return int(v.astype("i8")) / 1e6\n' +
      '    return v.decode() if isinstance(v, bytes) else v.item()\n' +
      'print(json.dumps([{n: plain(n, r[n]) for n in a.dtype.names} for r in a]))'
    const text = python('numpy', program, inFolder('flows.npy'))
    if (text === null) return context.skip('no Python with numpy')
    expect(JSON.parse(text)).toEqual(entries)
  })

  it('whatever number of records a group or batch has', async () => {
    // more than two row groups
    const many = inFolder('many.pcap')
    writeFileSync(many, manyFlows(70_000))
    expect(await run([many, '-o', 'many.parquet'])).toMatchObject({ code: 0 })
    const rows = await readParquet('many.parquet')
    expect(rows).toHaveLength(70_000)
    expect(new Set(rows.map((row) => `${row['id.orig_h']} ${row['id.orig_p']}`)).size).toBe(70_000)
  })
})

/** Packets of one transport between as many different ends, a microsecond apart. */
function manyFlows(count: number, protocol = 17, hasNoMacs = (_: number): boolean => false): Uint8Array {
  const record = 16 + 42
  const bytes = Buffer.alloc(24 + count * record)
  bytes.writeUInt32LE(0xa1b2c3d4, 0)
  bytes.writeUInt16LE(2, 4)
  bytes.writeUInt16LE(4, 6)
  bytes.writeUInt32LE(65_535, 16)
  bytes.writeUInt32LE(1, 20)
  for (let i = 0; i < count; i++) {
    const at = 24 + i * record
    bytes.writeUInt32LE(1_700_000_000, at)
    bytes.writeUInt32LE(i, at + 4)
    bytes.writeUInt32LE(42, at + 8)
    bytes.writeUInt32LE(42, at + 12)
    const frame = at + 16
    bytes.set([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol], frame)
    if (hasNoMacs(i)) bytes.fill(0, frame, frame + 12)
    bytes.writeUInt32BE(0xc0000200 + Math.floor(i / 60_000), frame + 26)
    bytes.writeUInt32BE(0xc6336401, frame + 30)
    bytes.writeUInt16BE(1024 + (i % 60_000), frame + 34)
    bytes.writeUInt16BE(53, frame + 36)
    bytes.writeUInt16BE(8, frame + 38)
  }
  return bytes
}

describe('what does not go together is refused by name', () => {
  it.each([
    ['--model m', /--model: does not apply to --flows/],
    ['--recipe authors', /--recipe: does not apply to --flows/],
    ['--features size', /--features: does not apply to --flows/],
    ['--iat-unit us', /--iat-unit: does not apply to --flows/],
    ['--truncation split', /--truncation: does not apply to --flows/],
    ['-o flows.txt', /--output flows\.txt: expected .* \.jsonl, \.csv, \.parquet or \.npy/],
  ])('%s', (options, says) =>
    refuses(['extract', '--flows', capture.path, '-o', 'x.csv', ...options.split(' ')], {
      code: 2,
      says,
      folder,
    }),
  )

  it('rows have formats of their own', () =>
    refuses(['extract', capture.path, '-o', 'x.parquet'], {
      code: 2,
      says: /\.npy or \.csv, .*or --flows/,
      folder,
    }))

  it.skipIf(!can('mkfifo'))('a pipe takes no .npy, whose header is written last', async () => {
    execFileSync('mkfifo', [inFolder('pipe.npy')])
    const reader = spawn('cat', [inFolder('pipe.npy')], { stdio: 'ignore' })
    await refuses(['extract', '--flows', capture.path, '-o', 'pipe.npy'], {
      code: 2,
      says: /pipe\.npy: \.npy names the number of records in front/,
      folder,
    })
    reader.kill()
  })
})

describe('the file is whole or not there', () => {
  it('when the input will not do', async () => {
    writeFileSync(inFolder('old.jsonl'), 'old\n')
    await refuses(['extract', '--flows', 'absent.pcap', '-o', 'old.jsonl'], {
      code: 1,
      says: /absent\.pcap: no such/,
      folder,
    })
    await refuses(['extract', '--flows', capture.path, '--filter', 'port 1', '-o', 'old.jsonl'], {
      code: 1,
      says: /no flows \(/,
      folder,
    })
    expect(readFileSync(inFolder('old.jsonl'), 'utf8')).toBe('old\n')
  })

  it('when a signal ends the reading of a pipe: with what was read', async () => {
    const args = [main, 'extract', '--flows', '-', '-o', inFolder('cut-short.jsonl')]
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'ignore'] })
    const ended = new Promise((resolve) => child.on('close', resolve))
    // a capture that does not end
    child.stdin.write(readFileSync(capture.path))
    const temporary = (): string[] => filesOf(folder).filter((name) => name.endsWith('.tmp'))
    await expect.poll(temporary, { timeout: 60_000, interval: 50 }).toHaveLength(1)
    // what is in the pipe has been read
    await untilIdle(child.pid!)
    child.kill('SIGTERM')
    expect(await ended).toBe(143)
    expect(temporary()).toEqual([])
    const records = readFileSync(inFolder('cut-short.jsonl'), 'utf8')
    expect(records.endsWith('}\n')).toBe(true)
    for (const line of records.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('uid')
  })
})
