/** What the control socket tells of models, and does with them: `/models`. */
import type { FurtherRoutes } from '../devices/control-socket.js'
import type { ModelRoom } from './model-room.js'

/** GET lists the owners; POST `{ rollback: [owner, …] }` goes back, and says of each why not, or null. */
export function modelRoutes(room: ModelRoom): FurtherRoutes {
  return {
    '/models': async (body) => {
      if (body === null) return { owners: room.owners() }
      const { rollback } = body as { rollback?: unknown }
      if (!Array.isArray(rollback) || !rollback.every((owner) => typeof owner === 'string')) {
        throw new Error('rollback: expected a list of owners')
      }
      const results: { owner: string; refused: string | null }[] = []
      for (const owner of rollback as string[]) results.push({ owner, refused: await room.rollback(owner) })
      return { results }
    },
  }
}
