/**
 * A machine's properties that times depend on; null where the system does not tell. An ARM program that finds an Intel
 * or AMD processor in /proc/cpuinfo runs under an emulator, whose times mean nothing.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import type { z } from 'zod'
import type { machineShape } from './runner-line.js'

/** Names of machines, as trials, tables, targets and the lines of a bundle's program have them. */
export const SHORT_NAME = /^[a-z0-9][a-z0-9.+-]{0,63}$/
export const EXPECTED_NAME = 'expected a short name of a-z, 0-9, dots, hyphens, plus signs'

/** What is left of a text as such a name; empty when nothing is. */
export function toShortName(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9.+-]/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 64)
}

const VECTORS = ['neon', 'asimd', 'sve', 'sse2', 'sse4_1', 'avx', 'avx2', 'fma', 'avx512f']

export function describeMachineFully(): z.infer<typeof machineShape> {
  const cpuinfo = read('/proc/cpuinfo') ?? ''
  const flags = new Set((/^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1] ?? '').trim().split(/\s+/))
  const foreign = /GenuineIntel|AuthenticAMD/.test(cpuinfo) && /^arm/.test(process.arch)
  const kilohertz = Number(read('/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq') ?? Number.NaN)
  return {
    cpu: shown(cpuModel(cpuinfo)),
    logicalCpus: availableParallelism(),
    memoryBytes: totalmem(),
    operatingSystem: shown(`${type()} ${release()}`),
    architecture: process.arch,
    libc: libc(),
    node: process.versions.node,
    governor: shownOrNull(read('/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor')),
    maximumMegahertz: Number.isFinite(kilohertz) ? kilohertz / 1000 : null,
    throttling: shownOrNull(throttling()),
    wasmSimd: wasmSimd(),
    // an emulator shows the flags of the processor under it, which are none of the program's
    vectorInstructions: foreign ? [] : VECTORS.filter((name) => flags.has(name)),
    emulated: foreign,
  }
}

/** A board's own name says more than `ARMv7 Processor rev 3`. */
function cpuModel(cpuinfo: string): string {
  const board = read('/proc/device-tree/model')?.replaceAll('\0', '').trim()
  const model = cpus()[0]?.model.trim() || /^Hardware\s*:(.*)$/m.exec(cpuinfo)?.[1]?.trim() || 'unknown'
  return board ? `${board} (${model})` : model
}

function libc(): string | null {
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return header?.glibcVersionRuntime === undefined ? null : shown(`glibc ${header.glibcVersionRuntime}`)
}

function throttling(): string | null {
  const found: string[] = []
  const raspberry = read('/sys/devices/platform/soc/soc:firmware/get_throttled')
  if (raspberry !== null) found.push(`get_throttled ${raspberry}`)
  const intel = read('/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count')
  if (intel !== null) found.push(`core_throttle_count ${intel}`)
  const cooling = list('/sys/class/thermal')
    .filter((name) => /^cooling_device\d+$/.test(name))
    .map((name) => [read(`/sys/class/thermal/${name}/type`), read(`/sys/class/thermal/${name}/cur_state`)])
    .filter(([kind, state]) => kind !== null && state !== null && state !== '0')
  for (const [kind, state] of cooling) found.push(`${kind} ${state}`)
  return found.length === 0 ? null : found.join(', ')
}

/** A module whose one function makes a vector and takes a lane of it. */
function wasmSimd(): boolean {
  return WebAssembly.validate(
    new Uint8Array([
      0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 127, 3, 2, 1, 0, 10, 11, 1, 9, 0, 65, 0, 253, 15, 253,
      27, 0, 11,
    ]),
  )
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** Printable, and as long as a trial takes it. */
function shown(text: string): string {
  return text
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
    .trim()
    .slice(0, 200)
}

const shownOrNull = (text: string | null): string | null =>
  text === null || text === '' ? null : shown(text)
