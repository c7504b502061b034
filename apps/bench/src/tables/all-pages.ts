/**
 * Every generated page of the results, from the files of trials and readings in one folder: what `tables` writes, and
 * what the check of committed results compares. A file that is not there has no page.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Trial } from '@oddflow/evaluation'
import { readEmbeddings } from '../embeddings/embedding-reading.js'
import { readReadings } from '../machines/reading.js'
import { readPeerReadings } from '../peers/peer-reading.js'
import { readSpeedReadings } from '../peers/speed/speed-reading.js'
import { readTrials } from '../run/trials-file.js'
import { STUDIES } from '../studies/registry.js'
import { SWEEP_NAMES, type SweepName } from '../sweep/names.js'
import { sweepTrialKey } from '../sweep/sweep-key.js'
import { renderEmbeddingsPage } from './embeddings-page.js'
import { renderMachinesPage } from './machines-page.js'
import { renderPeersPage } from './peers-page.js'
import { renderPeersSpeedPage } from './peers-speed-page.js'
import { renderNuSweep } from './sweep-nu-page.js'
import { renderRowsSweep } from './sweep-rows-page.js'
import { renderScalerSweep } from './sweep-scaler-page.js'

const SWEEP_PAGES: Readonly<Record<SweepName, (trials: readonly Trial[]) => ReadonlyMap<string, string>>> = {
  nu: renderNuSweep,
  scaler: renderScalerSweep,
  rows: renderRowsSweep,
}

/** Name and content. `folder` holds sweep-nu.jsonl, machines.jsonl, …; the paper's tables are apart (render.ts). */
export function renderPages(folder: string): ReadonlyMap<string, string> {
  const pages = new Map<string, string>()
  const readings = readReadings(join(folder, 'machines.jsonl'))
  if (readings.length > 0) pages.set('machines.md', renderMachinesPage(readings))
  const peers = readPeerReadings(join(folder, 'peers.jsonl'))
  if (peers.length > 0) pages.set('peers.md', renderPeersPage(peers))
  const speed = readSpeedReadings(join(folder, 'peers-speed.jsonl'))
  if (speed.length > 0) pages.set('peers-speed.md', renderPeersSpeedPage(speed))
  const embeddings = readEmbeddings(join(folder, 'embeddings.json'))
  if (embeddings !== null) {
    for (const [file, content] of renderEmbeddingsPage(embeddings)) pages.set(file, content)
  }
  for (const study of STUDIES) {
    const page = study.draw(folder)
    if (page !== null) pages.set(`${study.name}.md`, page)
  }
  for (const name of SWEEP_NAMES) {
    const path = join(folder, `sweep-${name}.jsonl`)
    if (!existsSync(path)) continue
    const trials = readTrials(path, (trial) => sweepTrialKey(name, trial))
    if (trials.length === 0) continue
    for (const [file, content] of SWEEP_PAGES[name](trials)) pages.set(file, content)
  }
  return pages
}
