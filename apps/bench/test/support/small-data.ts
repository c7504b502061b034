/** Small data sets of two blobs, with their manifests, in a folder of their own. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createMatrix, createRng, encodeNpy, type Matrix, type Rng } from '@oddflow/core'

export interface SmallData {
  readonly data: string
  readonly manifests: string
}

/** `names` sets of `repeats` × `trainRows` training rows of 3 columns, 16 + 16 to validate on, 20 + 20 to test. */
export function writeSmallData(
  folder: string,
  names: readonly string[],
  repeats: number,
  trainRows = 60,
): SmallData {
  const data = join(folder, 'data')
  const manifests = join(folder, 'manifests')
  mkdirSync(manifests, { recursive: true })
  for (const name of names) {
    const rng = createRng(7).fork(name)
    const place = join(data, name)
    mkdirSync(place, { recursive: true })
    const labelled = (stem: string, rows: number): void => {
      writeFileSync(join(place, `X_${stem}.npy`), encodeNpy(blobs(rows, rows, rng)))
      const labels = Array.from({ length: 2 * rows }, (_, i) => (i < rows ? 0 : 1))
      writeFileSync(join(place, `y_${stem}.npy`), encodeLabels(labels))
    }
    for (let r = 0; r < repeats; r++) {
      writeFileSync(join(place, `X_train_r${r}.npy`), encodeNpy(blobs(trainRows, 0, rng)))
      labelled(`val_r${r}`, 16)
    }
    labelled('test', 20)
    const manifest = {
      format: 1,
      kind: 'rows',
      name,
      title: `Two blobs, ${name}`,
      paperDataset: null,
      features: 'iat-size',
      dimension: 3,
      folder: name,
      repeats,
      note: null,
      sha256: null,
    }
    writeFileSync(join(manifests, `${name}.json`), JSON.stringify(manifest))
  }
  return { data, manifests }
}

function blobs(normal: number, novel: number, rng: Rng): Matrix {
  const rows = createMatrix(normal + novel, 3)
  for (let i = 0; i < rows.data.length; i++) {
    rows.data[i] = rng.nextNormal() + (i < 3 * normal ? 0 : 1.5)
  }
  return rows
}

/** One dimension of int8, as numpy.save writes it. */
export function encodeLabels(labels: readonly number[]): Uint8Array {
  const text = `{'descr': '|i1', 'fortran_order': False, 'shape': (${labels.length},), }`
  const out = new Uint8Array(128 + labels.length).fill(0x20)
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 118, 0])
  for (let i = 0; i < text.length; i++) out[10 + i] = text.charCodeAt(i)
  out[127] = 0x0a
  out.set(labels, 128)
  return out
}
