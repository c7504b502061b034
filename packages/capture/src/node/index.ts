export {
  CaptureFileError,
  type CaptureFileProblem,
  type FrameSource,
} from './frame-source.js'
export {
  type CaptureFileSummary,
  type CaptureReaderName,
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
  endWithThisProcess,
  LiveCaptureError,
  type LiveCaptureProblem,
  type LiveEnd,
  type LiveSource,
  type OpenLiveOptions,
  openLive,
} from './open-live.js'
export type * from './pcap-parser-frames.js'
export { framesFromPcapParser } from './pcap-parser-frames.js'
export type { CaptureDirection, RecorderCounts, RecorderName, RecorderOptions } from './recorder.js'
export { DEFAULT_KERNEL_BUFFER_FRAMES } from './recorder.js'
