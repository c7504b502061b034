/** Headers by hand, for the frames that no capture at hand has. */
export const MACS = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]
/** From port 53 to port 5353, without payload. */
export const UDP = [0, 53, 0x14, 0xe9, 0, 8, 0, 0]

/** RFC 791 from 192.0.2.1 to 192.0.2.2; `total` overrides the length, `fragment` is flags and offset. */
export function ipv4(
  protocol: number,
  payload: readonly number[],
  total = 20 + payload.length,
  fragment = 0,
  id = 0,
): number[] {
  const ids = [id >> 8, id & 255]
  const head = [0x45, 0, total >> 8, total & 255, ...ids, fragment >> 8, fragment & 255, 64, protocol, 0, 0]
  return [...head, 192, 0, 2, 1, 192, 0, 2, 2, ...payload]
}

/** RFC 8200 from 2001:db8::1 to 2001:db8::2. */
export function ipv6(next: number, payload: readonly number[], length = payload.length): number[] {
  const address = (last: number): number[] => [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
  return [0x60, 0, 0, 0, length >> 8, length & 255, next, 61, ...address(1), ...address(2), ...payload]
}

export function udp(destinationPort: number, payload: readonly number[], sourcePort = 40_000): number[] {
  const length = 8 + payload.length
  const ports = [sourcePort >> 8, sourcePort & 255, destinationPort >> 8, destinationPort & 255]
  return [...ports, length >> 8, length & 255, 0, 0, ...payload]
}

export function ethernet(etherType: number, payload: readonly number[]): number[] {
  return [...MACS, etherType >> 8, etherType & 255, ...payload]
}
