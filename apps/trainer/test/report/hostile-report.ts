import type { ReportData } from '../../src/report/index.js'
import { sampleReport } from './sample-report.js'

/** A small report in which every string is the one given. */
export function hostileReport(text: string): ReportData {
  const data = sampleReport({ normal: 30, novel: 10 })
  const { label: _, ...unlabelled } = data.flagged.rows[0]!
  return {
    ...data,
    title: text,
    subtitle: text,
    oddflowVersion: text,
    verdictLine: text,
    model: [{ label: text, value: text }],
    captures: data.captures.map((capture) => ({ ...capture, name: text, note: text })),
    flagged: {
      rows: [...data.flagged.rows, unlabelled].map((row) => ({
        ...row,
        source: text,
        destination: text,
        protocol: text,
        capture: text,
      })),
      total: data.flagged.total + 1,
    },
    notes: [text, text],
  }
}
