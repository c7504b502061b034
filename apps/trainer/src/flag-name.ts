/** The flag of an option of the libraries: bandwidthQuantile → --bandwidth-quantile. */
export function flagOf(option: string): string {
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}
