/** A folder of models for all test files of a run (trainLabModel): training takes a second of processor time. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'oddflow-lab-models-'))
  process.env.ODDFLOW_LAB_MODELS = folder
  return () => rmSync(folder, { recursive: true, force: true })
}
