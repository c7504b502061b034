/** The agent as a service: what it tells a service manager, over a real socket of systemd's kind. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { agentMain } from './support/agent.js'
import { can, lab, temporaryFolder, trainLabModel } from './support/oddflow.js'

/** Prints each datagram that comes, a line each. */
const LISTENER = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); print('bound', flush=True)
while True: print(s.recv(4096).decode().replace('\\n', ' '), flush=True)
`

describe('the agent under a service manager', () => {
  it('is ready, feeds the watchdog while nothing is stuck, tells of a reload, and stops', async (context) => {
    if (!can('systemd-notify') || !can('python3')) context.skip('systemd-notify or python3 is not installed')
    const folder = temporaryFolder()
    const model = await trainLabModel(join(folder, 'home.oddflow'))
    const config = join(folder, 'agent.yaml')
    writeFileSync(config, `model: ${model}\neve: eve.json\nread: ${lab('novel-scan.pcap').path}\n`)
    const socket = join(folder, 'notify')
    const listener = spawn('python3', ['-c', LISTENER, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
    let told = ''
    listener.stdout.setEncoding('utf8').on('data', (text: string) => {
      told += text
    })
    const until = async (words: RegExp): Promise<void> => {
      for (let i = 0; i < 400 && !words.test(told); i++)
        await new Promise((resolve) => setTimeout(resolve, 50))
      expect(told).toMatch(words)
    }
    await until(/bound/)
    const child = spawn(process.execPath, [agentMain, 'run', '--allow-root', '-c', config], {
      stdio: 'ignore',
      env: { ...process.env, NOTIFY_SOCKET: socket, WATCHDOG_USEC: '2000000' },
    })
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
    try {
      await until(/READY=1/)
      await until(/WATCHDOG=1[\s\S]*WATCHDOG=1/)
      told = ''
      child.kill('SIGHUP')
      await until(/RELOADING=1 MONOTONIC_USEC=\d+[\s\S]*READY=1/)
      child.kill('SIGTERM')
      await until(/STOPPING=1/)
      expect(await ended).toBe(0)
    } finally {
      child.kill('SIGKILL')
      listener.kill()
    }
  })
})
