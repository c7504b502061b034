/**
 * python3 as a second opinion: tests that want it say aloud when it is not installed.
 */
import { execFileSync } from 'node:child_process'

/** Runs python3 with these arguments and returns its standard output. */
export function python(...args: string[]): string {
  return execFileSync('python3', args, { encoding: 'utf8' })
}

function can(...args: string[]): boolean {
  try {
    execFileSync('python3', args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export const hasPython = can('-c', 'pass')
if (!hasPython) console.warn('python3 is not installed: the independent readers are skipped')

/** Whether Hugging Face's own safetensors package is installed. */
export const hasPythonSafetensors = hasPython && can('-c', 'import safetensors.numpy')
if (!hasPythonSafetensors) console.warn("Python's safetensors is not installed: its own reader is skipped")

export const hasNumpy = hasPython && can('-c', 'import numpy')
if (!hasNumpy) console.warn('numpy is not installed: numpy.load and numpy.save are skipped')
