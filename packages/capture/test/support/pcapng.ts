/** pcapng blocks by hand, for the cases that no file at hand has. */
export function block(type: number, body: readonly number[], little = true): number[] {
  const padded = [...body, ...new Array<number>(-body.length & 3).fill(0)]
  const length = padded.length + 12
  return [...u32(type, little), ...u32(length, little), ...padded, ...u32(length, little)]
}

export function u16(value: number, little = true): number[] {
  const bytes = [value & 255, (value >>> 8) & 255]
  return little ? bytes : bytes.reverse()
}

export function u32(value: number, little = true): number[] {
  const bytes = [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, (value >>> 24) & 255]
  return little ? bytes : bytes.reverse()
}

export function section(little = true): number[] {
  const body = [...u32(0x1a2b3c4d, little), ...u16(1, little), ...u16(0, little), ...u32(-1), ...u32(-1)]
  return block(0x0a0d0d0a, body, little)
}

export function interfaceBlock(options: readonly number[] = [], little = true, linkType = 1): number[] {
  return block(1, [...u16(linkType, little), 0, 0, ...u32(0, little), ...options], little)
}

export function enhancedPacket(id: number, ticks: bigint, bytes: readonly number[], little = true): number[] {
  const body = [id, Number(ticks >> 32n), Number(ticks & 0xffffffffn), bytes.length, bytes.length]
  return block(6, [...body.flatMap((word) => u32(word, little)), ...bytes], little)
}
