/** The control socket: what a command may ask of a running agent, and whose socket it is. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { DEFAULT_DEVICES } from '../../src/config/settings.js'
import {
  askAgent,
  askDevices,
  askToAct,
  type ControlSocket,
  openControlSocket,
} from '../../src/devices/control-socket.js'
import { toldOf } from '../../src/devices/device.js'
import { DeviceTable } from '../../src/devices/device-table.js'
import { act } from '../../src/devices/device-watch.js'
import { temporaryFolder } from '../support/folder.js'

const folder = temporaryFolder()
const socketPath = join(folder, 'control.sock')
const key = '02:00:00:00:00:01'
let table: DeviceTable
let saved = 0
/** As an agent serves them that keeps nothing. */
async function open(): Promise<ControlSocket> {
  const control = await openControlSocket(folder)
  control.serve({
    '/devices': async (body) => {
      if (body === undefined) return { devices: [...table.all()].map(toldOf) }
      const results = act(table, body)
      saved++
      return { results }
    },
  })
  return control
}

beforeEach(() => {
  table = new DeviceTable(DEFAULT_DEVICES)
  table.add(key, '192.0.2.1', 5)
  saved = 0
})

function raw(method: string, path: string, body = ''): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ agent: false, socketPath, method, path }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

describe('a socket that is removed or replaced while its agent runs', () => {
  const ways: Record<string, () => void> = {
    removed: () => rmSync(socketPath),
    'replaced by a file': () => {
      rmSync(socketPath)
      writeFileSync(socketPath, '')
    },
    'replaced by a folder': () => {
      rmSync(socketPath)
      mkdirSync(join(socketPath, 'in it'), { recursive: true })
    },
    'gone with its folder': () => rmSync(folder, { recursive: true }),
  }
  it.each(Object.keys(ways))('is taken again (%s) and answers requests', async (way) => {
    const control = await open()
    expect(await control.renew()).toBe(false)
    ways[way]!()
    expect(await Promise.all([control.renew(), control.renew()])).toEqual([true, true])
    expect(await askDevices(folder)).toMatchObject([{ key }])
    await expect(openControlSocket(folder)).rejects.toThrow(/another agent uses/)
    expect(await control.renew()).toBe(false)
    await control.close()
    expect(existsSync(socketPath)).toBe(false)
    rmSync(`${socketPath}.damaged`, { recursive: true, force: true })
  })

  it('and another agent has taken the folder: that is an error, and the other one keeps it', async () => {
    const control = await open()
    rmSync(socketPath)
    const other = await openControlSocket(folder)
    await expect(control.renew()).rejects.toThrow(/another agent uses/)
    await control.close()
    other.serve({ '/who': async () => 'the other' })
    expect(await askAgent(folder, '/who')).toBe('the other')
    await other.close()
  })
})

describe('a running agent', () => {
  it('lists its devices, does what a request asks, and saves it before it answers', async () => {
    const control = await open()
    expect(statSync(socketPath).mode & 0o777).toBe(0o600)
    expect(await askDevices(folder)).toEqual([...table.all()].map(toldOf))
    expect(saved).toBe(0)
    expect(await askToAct(folder, 'approve', [key, '02:00:00:00:00:02'])).toEqual([
      { device: key, refused: null },
      { device: '02:00:00:00:00:02', refused: 'there is no device 02:00:00:00:00:02' },
    ])
    expect(table.get(key)?.state).toBe('watching')
    expect(saved).toBe(1)
    expect(await askToAct(folder, 'name', [key], 'Camera')).toEqual([{ device: key, refused: null }])
    expect(table.get(key)?.name).toEqual({ name: 'Camera', source: 'person' })
    await control.close()
    expect(await askDevices(folder)).toBeNull()
    expect(await askToAct(folder, 'pause', [key])).toBeNull()
  })

  it('refuses an invalid request and changes nothing', async () => {
    const control = await open()
    const before = JSON.stringify([...table.all()])
    for (const [method, path, body, status] of [
      ['GET', '/', '', 404],
      ['DELETE', '/devices', '', 405],
      ['POST', '/devices', '', 400],
      ['POST', '/devices', '{', 400],
      ['POST', '/devices', 'null', 400],
      ['POST', '/devices', '{"action":"destroy","devices":[]}', 400],
      ['POST', '/devices', '{"action":"forget","devices":"all"}', 400],
      ['POST', '/devices', '{"action":"forget","devices":[{}]}', 400],
    ] as const) {
      expect(await raw(method, path, body), `${method} ${path} ${body}`).toMatchObject({ status })
    }
    // a body without end is cut off, one way or the other
    const long = await raw('POST', '/devices', 'x'.repeat(2_000_000)).catch(() => ({ status: 400 }))
    expect(long).toMatchObject({ status: 400 })
    expect(JSON.stringify([...table.all()])).toBe(before)
    expect(saved).toBe(0)
    await control.close()
  })

  it('keeps its folder to itself, and takes over what a killed one has left', async () => {
    const control = await open()
    await expect(openControlSocket(folder)).rejects.toThrow(/another agent uses this folder/)
    expect(await askDevices(folder)).not.toBeNull()
    await control.close()

    const child = spawn(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(socketPath)}, () => console.log('up'))`,
    ])
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('close', resolve))
    expect(existsSync(socketPath)).toBe(true)
    expect(await askDevices(folder)).toBeNull()
    const next = await open()
    expect(await askDevices(folder)).toHaveLength(1)
    await next.close()
  })

  it('keeps its folder to itself while it says nothing, or is stopped', async () => {
    const control = await openControlSocket(folder)
    await expect(openControlSocket(folder)).rejects.toThrow(/another agent uses this folder/)
    await expect(askDevices(folder)).rejects.toThrow(/starting or stopping/)
    await control.close()

    const child = spawn(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(socketPath)}, () => console.log('up'))`,
    ])
    await new Promise((resolve) => child.stdout.once('data', resolve))
    child.kill('SIGSTOP')
    await expect(openControlSocket(folder)).rejects.toThrow(/another agent uses this folder/)
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('close', resolve))
    await (await openControlSocket(folder)).close()
  })

  it('is silent where an agent stops within its answer', async () => {
    const server = createServer((_request, response) => response.write('{'))
    await new Promise<void>((resolve) => server.listen(socketPath, resolve))
    const asked = await Promise.allSettled([askAgent(folder, '/models'), askToAct(folder, 'pause', [key])])
    const silent = { status: 'rejected', reason: { message: `${folder}: the agent does not answer` } }
    expect(asked).toMatchObject([silent, silent])
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  it('leaves what it does not keep to the command', async () => {
    const control = await openControlSocket(folder)
    control.serve({})
    expect(await askDevices(folder)).toBeNull()
    expect(await askToAct(folder, 'pause', [key])).toBeNull()
    expect(await askAgent(folder, '/models')).toBeNull()
    await control.close()
  })

  it('has its folder alone when many begin at once over what a killed one has left', async () => {
    for (let round = 0; round < 20; round++) {
      writeFileSync(socketPath, '')
      const begun = await Promise.allSettled(Array.from({ length: 8 }, () => openControlSocket(folder)))
      const open = begun.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
      expect(open).toHaveLength(1)
      expect(readdirSync(folder)).toEqual(['control.sock'])
      await open[0].close()
    }
  })

  it('is closed though its name cannot be given up', async () => {
    const control = await openControlSocket(folder)
    renameSync(socketPath, join(folder, 'moved'))
    mkdirSync(socketPath)
    await control.close()
    rmSync(socketPath, { recursive: true })
    rmSync(join(folder, 'moved'), { force: true })
    await (await openControlSocket(folder)).close()
  })

  it('says that a name is too long for a socket', async () => {
    await expect(openControlSocket(join(folder, 'x'.repeat(120)))).rejects.toThrow(
      /too long a name for a socket; give a shorter --state/,
    )
  })
})
