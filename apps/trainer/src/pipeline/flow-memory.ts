/**
 * --flow-memory: the bytes that flows may take. Open flows that are streamed have the flow library's default, the
 * same that a watcher has, so that a capture gives the same whether it is read from a file or live; flows that
 * are collected whole (train, extract) have the collector's, which is higher.
 */
import { ArgumentError } from '@oddflow/core'
import { UsageError } from '@oddflow/program'

export interface FlowMemory {
  /** The library's default where it is left out. */
  readonly flowMemoryBytes?: number | undefined
}

/** The library's option, where one was given. */
export function memoryOption({ flowMemoryBytes }: FlowMemory): { memoryBytes?: number } {
  return flowMemoryBytes === undefined ? {} : { memoryBytes: flowMemoryBytes }
}

/** Runs `create`; that there is too little memory for the smallest table is told by the option's name. */
export function namingFlowMemory<T>(create: () => T): T {
  try {
    return create()
  } catch (error) {
    if (!(error instanceof ArgumentError) || error.field !== 'memoryBytes') throw error
    throw new UsageError(error.message.replace('memoryBytes:', '--flow-memory:'))
  }
}
