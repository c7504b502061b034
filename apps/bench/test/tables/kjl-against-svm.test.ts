import { expect, it } from 'vitest'
import { renderKjlAgainstSvm } from '../../src/tables/kjl-against-svm-page.js'
import { sampleTrial } from '../support/sample-trial.js'

const trial = (detector: string, repeat: number, auc: number, dataset = 'ctu-rows') =>
  sampleTrial({
    detector,
    repeat,
    dataset,
    results: [{ sample: 'all', normal: 10, novel: 10, auc, aucVariance: 0.001, averagePrecision: 0.5 }],
  })

it('sets the mixture beside the linear SVM where both were run, and counts who wins', () => {
  const files = renderKjlAgainstSvm([
    trial('oc-kjl', 0, 0.7),
    trial('oc-kjl', 1, 0.8),
    trial('oc-kjl-svm', 0, 0.5),
    trial('oc-kjl-svm', 1, 0.6),
    trial('oc-kjl', 0, 0.4, 'unb-rows'),
    trial('oc-kjl-svm', 0, 0.6, 'unb-rows'),
    // nothing to set beside it
    trial('oc-nystrom', 0, 0.9),
  ])
  const page = files.get('kjl-against-svm.md') ?? ''
  expect(page).toContain(
    '| ctu-rows | no tuning | oc-kjl | 0.750 ± 0.071 | oc-kjl-svm | 0.550 ± 0.071 | 0.200 |',
  )
  expect(page).toContain('| unb-rows | no tuning | oc-kjl | 0.400 | oc-kjl-svm | 0.600 | −0.200 |')
  expect(page).not.toContain('oc-nystrom')
  expect(page).toContain('higher mean in 1 of 2')
  expect(files.get('kjl-against-svm.svg')).toContain('ctu-rows, mixture: 0.750')
})

it('has no page where no pair was run', () => {
  expect(renderKjlAgainstSvm([trial('oc-kjl', 0, 0.7)]).size).toBe(0)
})
