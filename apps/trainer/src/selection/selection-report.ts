/** All candidates of a search as JSON, in the grid's order; no times, so the same search gives the same text. */
import type { ParameterSelection } from '@oddflow/detectors'
import type { Candidate, Selection } from '@oddflow/evaluation'

export function selectionReport(
  { best, results }: Selection,
  candidates: readonly Candidate[],
  { grid, ...selection }: ParameterSelection,
  beside: { readonly detector: string; readonly seed: number; readonly trainingRows: number },
): string {
  const report = {
    ...beside,
    criterion: selection.criterion,
    grid,
    validation: {
      normalRows: selection.normalRows,
      novelRows: selection.novelRows,
      dataSha256: selection.dataSha256,
    },
    chosen: { ...candidates[best]?.choice, auc: selection.auc },
    failed: selection.failed,
    candidates: results.map(({ auc, failure, figures }, index) => ({
      ...candidates[index]?.choice,
      auc,
      ...(failure === null ? {} : { failure }),
      ...(Object.keys(figures).length === 0 ? {} : { figures }),
    })),
  }
  return `${JSON.stringify(report, null, 2)}\n`
}
