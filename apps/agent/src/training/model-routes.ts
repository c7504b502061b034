/** What the control socket tells of models, and does with them: `/models`. */
import { ArgumentError, OddFlowError } from '@oddflow/core'
import type { FurtherRoutes } from '../devices/control-socket.js'
import type { ModelRoom } from './model-room.js'

/**
 * GET lists the owners; POST `{ rollback: [owner, …] }` goes back, and says of each why not, or null. Rejects where what
 * is asked for is no list, or none of it can be kept.
 */
export function modelRoutes(room: ModelRoom): FurtherRoutes {
  return {
    '/models': async (body) => {
      if (body === null) return { owners: room.owners() }
      const { rollback } = body as { rollback?: unknown }
      if (!Array.isArray(rollback) || !rollback.every((owner) => typeof owner === 'string')) {
        throw new ArgumentError('rollback: expected a list of owners')
      }
      const results: { owner: string; refused: string | null }[] = []
      const failures: OddFlowError[] = []
      for (const owner of rollback as string[]) {
        try {
          results.push({ owner, refused: await room.rollback(owner) })
        } catch (error) {
          // one that cannot be kept undoes no other
          if (!(error instanceof OddFlowError)) throw error
          failures.push(error)
          results.push({ owner, refused: error.message })
        }
      }
      if (failures.length > 0 && failures.length === results.length) throw failures[0]
      return { results }
    },
  }
}
