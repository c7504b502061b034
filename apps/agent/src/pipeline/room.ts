/**
 * Room: whether an input that can wait should, since alerts in memory wait for something that works.
 *
 * With a state folder alerts are in memory until the disk has them, and an output that is down leaves them there: the
 * disk alone is waited for. Without one they are in memory until the slowest output has them: each output that works is waited
 * for, for what is held for it alone, and one that fails is not. What fails would be waited for without end; what it cannot
 * take is refused or dropped, and counted.
 */
import type { Delivery } from '../outputs/delivery.js'
import type { AlertLog } from '../spool/alert-log.js'

export function isWorthWaiting(
  log: Pick<AlertLog, 'trouble' | 'pendingBytes'>,
  deliveries: readonly Pick<Delivery, 'trouble' | 'memoryBytes'>[],
  enoughBytes: number,
): boolean {
  if (log.trouble === null && log.pendingBytes > enoughBytes) return true
  return deliveries.some(({ trouble, memoryBytes }) => trouble === null && memoryBytes > enoughBytes)
}
