import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createDevice, decodeDevices, encodeDevices } from '../../src/devices/device.js'
import {
  createVendorSeeker,
  findVendors,
  readVendorLine,
  USUAL_REGISTRIES,
} from '../../src/devices/vendors.js'
import { nodeFileSystem } from '../../src/files/file-system.js'
import { temporaryFolder } from '../support/folder.js'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const folder = temporaryFolder()
const PI = 'b8:27:eb:01:02:03'

function registry(content: string | Uint8Array): string {
  const path = join(folder, 'registry')
  writeFileSync(path, content)
  return path
}

describe('a line of a registry', () => {
  it.each([
    ['00:00:0C\tCisco\tCisco Systems, Inc', '00000c', 'Cisco Systems, Inc'],
    ['00:1B:C5:00:10:00/36\tOpenRBco\tOpenRB.com, Direct SIA', '001bc5001', 'OpenRB.com, Direct SIA'],
    ['B8-27-EB   (hex)\t\tRaspberry Pi Foundation\r', 'b827eb', 'Raspberry Pi Foundation'],
    ['B827EB Raspberry Pi Foundation', 'b827eb', 'Raspberry Pi Foundation'],
  ])('%j is of %s', (line, prefix, name) => {
    expect(readVendorLine(bytes(line))).toEqual({ prefix, name })
  })
  it.each([
    'B827EB     (base 16)\t\tRaspberry Pi Foundation',
    '# 00:00:0C\tCisco',
    '\t\t\t\tCambridge  CB23 6DP',
    '00:00:0C\tCi\u202esco',
    '',
  ])('%j is none', (line) => expect(readVendorLine(bytes(line))).toBe(null))
  it('is cut where its name is long', () => {
    const { name } = readVendorLine(bytes(`B827EB ${'x'.repeat(900)}`)) ?? { name: '' }
    expect([...name]).toHaveLength(63)
  })
})

describe('vendors', () => {
  it('are those of the longest prefix, across the blocks in which the file is read', async () => {
    const others = Array.from({ length: 9000 }, (_, i) => `0A${i.toString(16).padStart(4, '0')} Other ${i}\n`)
    const path = registry(
      `${others.join('')}B8:27:EB\tPi\tRaspberry Pi\nB8:27:EB:09:00:00/36\tX\tExample Ltd\n`,
    )
    expect(await findVendors(nodeFileSystem, path, [PI, 'b8:27:eb:ff:00:00', '00:00:5e:00:00:01'])).toEqual(
      new Map([
        [PI, 'Raspberry Pi'],
        ['b8:27:eb:ff:00:00', 'Raspberry Pi'],
      ]),
    )
    expect(await findVendors(nodeFileSystem, path, ['b8:27:eb:09:00:09'])).toEqual(
      new Map([['b8:27:eb:09:00:09', 'Example Ltd']]),
    )
  })

  it('come from a hostile file as from an ordinary one: by whole lines, or not at all', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 5000 }), async (noise) => {
        const path = registry(Buffer.concat([noise, bytes('\nB827EB Raspberry Pi\n')]))
        expect((await findVendors(nodeFileSystem, path, [PI])).get(PI)).toBe('Raspberry Pi')
      }),
      { numRuns: sampleCount(60, 0.25) },
    )
  })

  it('are read without holding a line that does not end', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const held: number[] = []
    const files = {
      ...nodeFileSystem,
      async open(...given: Parameters<typeof nodeFileSystem.open>) {
        const file = await nodeFileSystem.open(...given)
        return {
          ...file,
          read(position: number, length: number) {
            collect()
            held.push(process.memoryUsage().arrayBuffers)
            return file.read(position, length)
          },
        }
      },
    }
    const endless = Buffer.alloc(1_048_576, 'B827EB x')
    expect(await findVendors(files, registry(endless), [PI])).toEqual(new Map())
    expect(held.length).toBeGreaterThan(15)
    expect(Math.max(...held) - (held[0] ?? 0)).toBeLessThan(524_288)
  })

  it('are looked up once for all devices that are new, never for made-up addresses, and kept', async () => {
    const path = registry('B827EB Raspberry Pi\n025E10 Never\n')
    const devices = [PI, '02:5e:10:00:00:01', '192.0.2.7', '00:00:5e:00:00:01'].map((key) =>
      createDevice(key, '192.0.2.7', 0),
    )
    let opened = 0
    const files = {
      ...nodeFileSystem,
      open: (...given: Parameters<typeof nodeFileSystem.open>) => {
        opened++
        return nodeFileSystem.open(...given)
      },
    }
    const seeker = createVendorSeeker(files, path, { warn: (text) => expect.fail(text) })
    seeker.tick(devices)
    await expect.poll(() => devices[0]?.vendor).toBe('Raspberry Pi')
    expect(devices.map(({ vendor }) => vendor)).toEqual(['Raspberry Pi', undefined, undefined, null])
    for (let i = 0; i < 30; i++) seeker.tick(devices)
    expect(opened).toBe(1)
    const kept = decodeDevices(JSON.parse(JSON.stringify(encodeDevices(devices))))
    expect(kept.map(({ vendor }) => vendor)).toEqual(['Raspberry Pi', undefined, undefined, undefined])
  })

  it('are none, which is said once, where the file is missing or is a pipe', async () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    for (const path of [join(folder, 'missing'), pipe]) {
      const warnings: string[] = []
      const seeker = createVendorSeeker(nodeFileSystem, path, { warn: (text) => warnings.push(text) })
      for (let i = 0; i < 30; i++) seeker.tick([createDevice(PI, PI, 0)])
      await expect.poll(() => warnings).toHaveLength(1)
      for (let i = 0; i < 30; i++) seeker.tick([createDevice(PI, PI, 0)])
      expect(warnings[0]).toContain(path)
    }
  })

  for (const path of USUAL_REGISTRIES) {
    it(`are found in ${path}`, async (context) => {
      if (!existsSync(path)) context.skip(`there is no ${path}`)
      const vendors = await findVendors(nodeFileSystem, path, [PI, '00:00:0c:01:02:03'])
      expect(vendors.get(PI)).toMatch(/^Raspberry Pi/)
      expect(vendors.get('00:00:0c:01:02:03')).toMatch(/^Cisco/)
    })
  }
})
