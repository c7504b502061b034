/** A real broker on loopback, and a real subscriber. Both end with the test that has started them. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

// @boundaries-ignore tests alone use it, and no package has it
export { freePort } from '../../../../tools/workspace/nats-server.mjs'

export const hasMosquitto = (() => {
  for (const program of ['mosquitto', 'mosquitto_sub']) {
    try {
      execFileSync(program, ['--help'], { stdio: 'ignore', env: withSbin() })
    } catch (error) {
      // it is there, and says its help with another exit code
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    }
  }
  return true
})()

/** Debian has the broker where only root looks. */
function withSbin(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin` }
}

export interface Broker {
  stop(): Promise<void>
  kill(): Promise<void>
}

/**
 * @param passwords - lines of a mosquitto password file; without it whoever comes is let in.
 * @param further - lines of its configuration.
 */
export async function startBroker(
  port: number,
  folder: string,
  passwords?: string,
  further: readonly string[] = [],
): Promise<Broker> {
  const config = join(folder, `mosquitto-${port}.conf`)
  const lines = [
    `listener ${port} 127.0.0.1`,
    'persistence false',
    ...further,
    `allow_anonymous ${passwords === undefined}`,
  ]
  if (passwords !== undefined) {
    const file = join(folder, `passwords-${port}`)
    writeFileSync(file, passwords, { mode: 0o644 })
    execFileSync('mosquitto_passwd', ['-U', file])
    lines.push(`password_file ${file}`, 'user root')
  }
  writeFileSync(config, `${lines.join('\n')}\n`)
  const child = spawn('mosquitto', ['-c', config], { stdio: 'ignore', env: withSbin() })
  await listening(port)
  return { stop: () => ended(child, 'SIGTERM'), kill: () => ended(child, 'SIGKILL') }
}

export interface Subscriber {
  /** Topic and payload of each message so far. */
  readonly messages: readonly (readonly [topic: string, payload: string])[]
  until(enough: (messages: Subscriber['messages']) => boolean): Promise<void>
  stop(): Promise<void>
}

export async function subscribe(port: number, options: readonly string[] = []): Promise<Subscriber> {
  const messages: (readonly [string, string])[] = []
  const child = spawn(
    'mosquitto_sub',
    ['-h', '127.0.0.1', '-p', String(port), '-q', '1', '-t', '#', '-F', '%t %p', ...options],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  let rest = ''
  let wake: () => void = () => undefined
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const space = line.indexOf(' ')
      messages.push([line.slice(0, space), line.slice(space + 1)])
    }
    wake()
  })
  return {
    messages,
    async until(enough) {
      const deadline = Date.now() + 20_000
      while (!enough(messages)) {
        if (Date.now() > deadline) throw new Error(`not yet: ${JSON.stringify(messages)}`)
        await new Promise<void>((resolve) => {
          wake = resolve
          setTimeout(resolve, 200)
        })
      }
    },
    stop: () => ended(child, 'SIGTERM'),
  }
}

async function listening(port: number): Promise<void> {
  for (let i = 0; i < 200; i++) {
    const is = await new Promise<boolean>((resolve) => {
      const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true))
      socket.on('error', () => resolve(false))
      socket.on('connect', () => socket.destroy())
    })
    if (is) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the broker did not start')
}

function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve()
      return
    }
    child.once('close', () => resolve())
    child.kill(signal)
  })
}
