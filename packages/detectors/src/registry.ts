/**
 * The one list of detectors. A new one is its file, its name in `detector-name.ts` and its line here.
 */
import type { DetectorDefinition } from './detector-definition.js'
import type { DetectorName } from './detector-name.js'
import { ensemble } from './detectors/ensemble.js'
import { gmm } from './detectors/gmm.js'
import { hbos } from './detectors/hbos.js'
import { iforest } from './detectors/iforest.js'
import { kde } from './detectors/kde.js'
import { nearest } from './detectors/nearest.js'
import { ocKjl } from './detectors/oc-kjl.js'
import { ocKjlQs } from './detectors/oc-kjl-qs.js'
import { ocKjlSvm } from './detectors/oc-kjl-svm.js'
import { ocNystrom } from './detectors/oc-nystrom.js'
import { ocNystromQs } from './detectors/oc-nystrom-qs.js'
import { ocNystromSvm } from './detectors/oc-nystrom-svm.js'
import { ocsvm } from './detectors/ocsvm.js'
import { pca } from './detectors/pca.js'

export const DETECTORS: Readonly<Record<DetectorName, DetectorDefinition>> = {
  ocsvm,
  'oc-kjl': ocKjl,
  'oc-nystrom': ocNystrom,
  'oc-kjl-qs': ocKjlQs,
  'oc-nystrom-qs': ocNystromQs,
  'oc-kjl-svm': ocKjlSvm,
  'oc-nystrom-svm': ocNystromSvm,
  gmm,
  nearest,
  kde,
  iforest,
  pca,
  hbos,
  ensemble,
}
