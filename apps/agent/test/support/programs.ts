/** Programs of the machine that some tests hold the agent against; where one is missing they are skipped. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export function hasProgram(name: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${name}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** A certificate of 127.0.0.1 that has signed itself: `key.pem` and `cert.pem` in a folder. Needs openssl. */
export function makeCertificate(folder: string): { key: Buffer; cert: Buffer } {
  const subject = '-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1'
  const args = `req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 ${subject}`
  execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'pipe' })
  return { key: readFileSync(join(folder, 'key.pem')), cert: readFileSync(join(folder, 'cert.pem')) }
}
