/** Which sweeps there are, and which data sets they are over when nothing is said. */
export const SWEEP_NAMES = ['nu', 'scaler', 'rows'] as const
export type SweepName = (typeof SWEEP_NAMES)[number]

export const SWEEP_DATASETS: readonly string[] = ['ctu-rows', 'sfrig-rows']
