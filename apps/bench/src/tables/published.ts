/**
 * Figures of others, which measured ones are set beside: the paper's tables, and the AUCs of an independent
 * implementation. Both are data files of this package.
 */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readShape } from '../read-shapes.js'

const tuning = z.enum(['none', 'minimal'])
/** Mean and standard deviation, as printed. */
const figure = z.tuple([z.number(), z.number().min(0)])

const paperFigures = z.strictObject({
  format: z.literal(1),
  source: z.string(),
  datasets: z.array(z.string()),
  tables: z.array(
    z.strictObject({
      /** Of the table in the paper's source. */
      label: z.string(),
      caption: z.string(),
      rows: z.array(
        z.strictObject({
          tuning,
          features: z.string(),
          detector: z.string(),
          metric: z.enum([
            'auc',
            'auc-retained',
            'train-millis-per-100',
            'test-millis-per-100',
            'space-kilobytes',
            'train-speedup',
            'test-speedup',
            'space-reduction',
          ]),
          machine: z.enum(['server', 'rspi', 'nano']).nullable(),
          figures: z.record(z.string(), figure),
        }),
      ),
    }),
  ),
})

const referenceAuc = z.strictObject({
  format: z.literal(1),
  source: z.string(),
  rows: z.array(
    z.strictObject({
      tuning,
      /** As trials name it: the reference of a centred sketch is `…-centred`. */
      detector: z.string(),
      runs: z.number().int().min(2),
      figures: z.record(z.string(), figure),
    }),
  ),
})

export type PaperFigures = z.infer<typeof paperFigures>
export type PaperRow = PaperFigures['tables'][number]['rows'][number]
export type ReferenceAuc = z.infer<typeof referenceAuc>

export const readPaperFigures = (): PaperFigures => read('paper-figures.json', paperFigures)
export const readReferenceAuc = (): ReferenceAuc => read('reference-auc.json', referenceAuc)

function read<T>(name: string, shape: z.ZodType<T>): T {
  return readShape(shape, fileURLToPath(new URL(`../../published/${name}`, import.meta.url)), 'published')
}
