export {}

declare global {
  /** How many of so many cases of an enumeration are run: a tenth, or `share`, in `npm test`, and all in `npm run slow:tests`. */
  function sampleCount(count: number, share?: number): number
  /** The cases that are run, in their order: a seeded tenth, or `share`, at least one; all in `npm run slow:tests`. */
  function sampleOf<T>(items: Iterable<T>, share?: number): T[]
}
