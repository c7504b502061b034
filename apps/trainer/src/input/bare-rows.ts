/** What cannot be checked of rows is said. */
import type { SavedModel } from '@oddflow/detectors'
import { warn } from '../output/messages.js'
import type { InputKind } from './input-kind.js'

/** Says what cannot be checked when a model that knows how rows are made is given rows. */
export function warnOfBareRows(saved: SavedModel, kind: InputKind): void {
  if (kind === 'rows' && saved.contract.featureSet !== 'rows') {
    warn(
      'rows carry no feature contract, so only their width is checked, and the names of features that a .csv begins with: use rows of extract --model',
    )
  }
}
