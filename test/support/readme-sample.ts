/**
 * The first ```ts block of a README, and the ```text block after it (before any further ```ts block): what
 * the sample prints, if the README shows it.
 */
export interface ReadmeSample {
  code: string
  output: string | undefined
}

const FENCE = /^```(\w+)[^\n]*\n([\s\S]*?)^```\s*$/gm

export function findReadmeSample(markdown: string): ReadmeSample | undefined {
  const fences = [...markdown.matchAll(FENCE)].map(([, language, body]) => ({ language, body: body! }))
  const first = fences.findIndex(({ language }) => language === 'ts')
  if (first < 0) return undefined
  const next = fences.slice(first + 1).find(({ language }) => language === 'ts' || language === 'text')
  return { code: fences[first]!.body, output: next?.language === 'text' ? next.body : undefined }
}
