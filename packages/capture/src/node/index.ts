export {
  CaptureFileError,
  type CaptureFileProblem,
  describeSystemError,
  type FrameSource,
  frameSource,
} from './frame-source.js'
export {
  CAPTURE_READERS,
  type CaptureFileSummary,
  type CaptureReaderName,
  DEFAULT_BLOCK_BYTES,
  type OpenCaptureOptions,
  openCapture,
  readCapture,
  type SummariseOptions,
  summariseCaptureFile,
} from './open-capture.js'
export {
  type ContinuousEnd,
  type ContinuousFile,
  type OpenContinuousOptions,
  openContinuous,
} from './open-continuous.js'
export {
  describeEnding,
  describeSpawnError,
  endWithThisProcess,
  LiveCaptureError,
  type LiveCaptureProblem,
  type LiveEnd,
  type LiveSource,
  type OpenLiveOptions,
  openLive,
} from './open-live.js'
export { type OpenReplayOptions, openReplay } from './open-replay.js'
export { framesFromPcapParser, type PcapParserOptions } from './pcap-parser-frames.js'
export type * from './pcap-parser-types.js'
export type { CaptureDirection, RecorderCounts, RecorderName, RecorderOptions } from './recorder.js'
export { DEFAULT_KERNEL_BUFFER_FRAMES } from './recorder.js'
