import fc from 'fast-check'

/** Scores with and without ties, and labels for them; one class alone happens too. */
export const scored = fc
  .array(
    fc.tuple(
      fc.oneof(fc.integer({ min: -3, max: 3 }), fc.double({ noNaN: true }), fc.constantFrom(-0, 1 / 3)),
      fc.boolean(),
    ),
    { maxLength: 60 },
  )
  .map((rows) => ({ scores: rows.map(([score]) => score), isNovel: rows.map(([, novel]) => novel) }))

export const hasBoth = ({ isNovel }: { isNovel: boolean[] }): boolean =>
  isNovel.includes(true) && isNovel.includes(false)
