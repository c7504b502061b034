/** What a merge could not put in order (merge-captures.ts), in words: a line a matter, with the files by name. */
import { plural } from '@oddflow/core'
import { MAXIMUM_OPEN_CAPTURES } from '../merge-captures.js'

/** Most files that a line names. */
export const MAXIMUM_NAMED_FILES = 8

export interface FileOrder {
  readonly file: string
  readonly latePackets: number
  readonly wrongTimes: number
  readonly openedLate: boolean
}

export function describeDisorder(files: readonly FileOrder[]): string[] {
  const lines: string[] = []
  const waited = files.filter(({ openedLate }) => openedLate)
  if (waited.length > 0) {
    const late = waited.reduce((sum, { latePackets }) => sum + latePackets, 0)
    lines.push(
      `more than ${MAXIMUM_OPEN_CAPTURES} files overlap in time, the most that are read at once: ${plural(waited.length, 'file')} opened late, with ${plural(late, 'late packet')}; merge some of them beforehand (mergecap)`,
    )
  }
  const wrong = told(files, ({ wrongTimes }) => wrongTimes)
  if (wrong !== null) {
    lines.push(
      `${plural(wrong.packets, 'packet')} with a time more than a week from those before and behind; taken where they stand${wrong.where}`,
    )
  }
  const late = told(files, ({ latePackets }) => latePackets)
  if (late !== null) {
    lines.push(
      `${plural(late.packets, 'packet')} too late to be put in order; taken where they came${late.where}`,
    )
  }
  return lines
}

/** null where there is none. */
function told(
  files: readonly FileOrder[],
  of: (file: FileOrder) => number,
): { readonly packets: number; readonly where: string } | null {
  const concerned = files.filter((file) => of(file) > 0)
  if (concerned.length === 0) return null
  const packets = concerned.reduce((sum, file) => sum + of(file), 0)
  if (files.length === 1) return { packets, where: '' }
  const named = concerned.slice(0, MAXIMUM_NAMED_FILES).map((file) => `${of(file)} in ${file.file}`)
  const more = concerned.length - named.length
  return {
    packets,
    where: ` (${named.join(', ')}${more > 0 ? `, others in ${plural(more, 'more file')}` : ''})`,
  }
}
