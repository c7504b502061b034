/**
 * The one list of detectors. A new one is its file, its name in `detector-name.ts` and its line here.
 */
import type { DetectorDefinition } from './detector-definition.js'
import type { DetectorName } from './detector-name.js'
import { ocKjl } from './detectors/oc-kjl.js'
import { ocKjlQs } from './detectors/oc-kjl-qs.js'
import { ocNystrom } from './detectors/oc-nystrom.js'
import { ocNystromQs } from './detectors/oc-nystrom-qs.js'

export const DETECTORS: Readonly<Record<DetectorName, DetectorDefinition>> = {
  'oc-kjl': ocKjl,
  'oc-nystrom': ocNystrom,
  'oc-kjl-qs': ocKjlQs,
  'oc-nystrom-qs': ocNystromQs,
}
