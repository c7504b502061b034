export * from './frame-batch.js'
export * from './packet-batch.js'
export * from './packet-status.js'
