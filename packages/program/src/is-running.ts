/** Whether a process of this number is there; also where it is somebody else's, which may not be signalled. */
export function isRunning(id: number): boolean {
  // 0 and below are groups, which are always there
  if (!Number.isSafeInteger(id) || id < 1) return false
  try {
    process.kill(id, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
