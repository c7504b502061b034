/** A real nats-server on loopback, for tests and measurements. Its port answers when the promise resolves. */
import { execFileSync, spawn } from 'node:child_process'
import { connect, createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Debian keeps nats-server where users do not look. */
export const natsEnvironment = { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin` }

export const hasNatsServer = (() => {
  try {
    execFileSync('nats-server', ['--version'], { stdio: 'ignore', env: natsEnvironment })
    return true
  } catch {
    console.warn('SKIPPED: nats-server is not installed (Debian: nats-server)')
    return false
  }
})()

export async function startNatsServer(port, args, { cwd = process.cwd(), env = {} } = {}) {
  const server = spawn('nats-server', args, { cwd, stdio: 'ignore', env: { ...natsEnvironment, ...env } })
  while (!(await answers(port))) {
    if (server.exitCode !== null) throw new Error(`nats-server ended with code ${server.exitCode}`)
    await pause(50)
  }
  return server
}

export async function freePort() {
  const probe = createServer()
  await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return port
}

/** The server speaks first. */
function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
