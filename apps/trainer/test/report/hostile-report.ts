import type { ReportData } from '../../src/report/index.js'
import { sampleReport } from './sample-report.js'

/** A small report in which every string is `text`, or, in the rows and notes, one of `texts` in turn. */
export function hostileReport(text: string, texts: readonly string[] = [text]): ReportData {
  const nth = (i: number): string => texts[i % texts.length]!
  const data = sampleReport({ normal: 30, novel: 10 })
  return {
    ...data,
    title: text,
    subtitle: text,
    oddflowVersion: text,
    verdictLine: text,
    model: texts.map((each) => ({ label: each, value: each })),
    captures: data.captures.map((capture, i) => ({ ...capture, name: nth(i) })),
    flagged: {
      rows: data.flagged.rows.map((row, i) => ({
        ...row,
        source: nth(i),
        destination: nth(i + 1),
        protocol: nth(i + 2),
        capture: nth(i + 3),
        device: text,
        reasons: [nth(i), nth(i + 1)],
      })),
      total: data.flagged.total,
      ofDevice: { [text]: 1 },
    },
    notes: texts,
  }
}
