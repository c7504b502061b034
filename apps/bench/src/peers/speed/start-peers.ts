/** The sides that are not ours, as far as they are installed: Python with numpy and scikit-learn, and C through cc. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DataError } from '@oddflow/core'
import { z } from 'zod'
import { runProcess, whyFailed } from '../../machines/reach.js'
import { findPython } from '../run-peers.js'
import { type LinePeer, startLinePeer } from '../speed.js'

const here = (name: string): string => fileURLToPath(new URL(`../../../peers/${name}`, import.meta.url))
const LIMITS = { timeoutMillis: 120_000, maximumOutputBytes: 1_000_000 }

/** Types and flags of a build of scores.c: the arithmetic of ours in vectors of 32 and 16 bytes, and as loops. */
const OUR_BITS = '-ffp-contract=off'
const C_KINDS = {
  'C, 32-byte vectors': ['-DVECTOR=32', OUR_BITS],
  'C, 16-byte vectors': ['-DVECTOR=16', OUR_BITS],
  'C, plain': ['-DVECTOR=0', OUR_BITS],
  'C, 32 bytes and FMA': ['-DVECTOR=32'],
} as const
const C_TYPES = { f64: ['-DKERNEL=double'], f32: ['-DKERNEL=float'] } as const

interface CPeer {
  readonly side: string
  readonly precision: 'f64' | 'f32'
  readonly peer: LinePeer
}

export interface SpeedPeers {
  /** null where it is not installed. */
  readonly python: { readonly peer: LinePeer; readonly versions: string } | null
  /** None where there is no compiler. */
  readonly c: readonly CPeer[]
  readonly compiler: string | null
  readonly absent: readonly string[]
}

/** `folder`: where the models are, and binaries go. `reference`: of refimpl.py, which need not be there. */
export async function startSpeedPeers(folder: string, reference: string): Promise<SpeedPeers> {
  const python = await startPython(folder, reference)
  const { c, compiler } = await startC(folder)
  return {
    python,
    c,
    compiler,
    absent: [
      ...(python === null ? ['numpy and scikit-learn (Python)'] : []),
      ...(compiler === null ? ['C (no cc)'] : []),
    ],
  }
}

async function startPython(folder: string, reference: string): Promise<SpeedPeers['python']> {
  const command = await findPython()
  if (command === null) return null
  const given = existsSync(join(reference, 'refimpl.py')) ? [reference] : []
  const peer = startLinePeer('numpy', command, [here('scores.py'), folder, ...given], {
    OMP_NUM_THREADS: '1',
    OPENBLAS_NUM_THREADS: '1',
    PYTHONDONTWRITEBYTECODE: '1',
  })
  const { versions } = z.object({ versions: z.string().max(200) }).parse(await peer.greeting())
  return { peer, versions }
}

async function startC(folder: string): Promise<{ c: CPeer[]; compiler: string | null }> {
  const found = await runProcess('cc', ['--version'], LIMITS)
  if (found.code !== 0) return { c: [], compiler: null }
  const c: CPeer[] = []
  for (const [side, flags] of Object.entries(C_KINDS)) {
    for (const precision of ['f64', 'f32'] as const) {
      const binary = join(folder, `${side}-${precision}`.replace(/[^a-z0-9]+/gi, '-'))
      const types = [...C_TYPES[precision], '-DSUM=double']
      const args = ['-O3', '-march=native', ...flags, ...types, here('scores.c'), '-o', binary, '-lm']
      const built = await runProcess('cc', args, LIMITS)
      if (built.code !== 0) throw new DataError(`cc: ${whyFailed(built)}`)
      const peer = startLinePeer(side, binary, [join(folder, 'model.bin'), join(folder, 'rows.bin')])
      c.push({ side, precision, peer })
    }
  }
  return { c, compiler: found.stdout.split('\n')[0]!.slice(0, 200) }
}
