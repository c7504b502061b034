/**
 * Whose model judges a device: its own, its group's, or the one of all.
 *
 * An owner goes by the device's key, by the group's name, or by `all`; `other` are the devices of no group. In file
 * names the colons of addresses are hyphens, and what kind it is stands in front, so that no two owners share a file.
 */
export type ModelsPer = 'device' | 'group' | 'all'

export const NO_GROUP = 'other'
export const EVERYONE = 'all'

export interface OwnerRule {
  readonly per: ModelsPer
  /** Devices' keys by the name of their group; empty but for `group`. */
  readonly groups: ReadonlyMap<string, readonly string[]>
}

/** The owner of a device. */
export function createOwnerOf({ per, groups }: OwnerRule): (device: string) => string {
  if (per === 'device') return (device) => device
  if (per === 'all') return () => EVERYONE
  const groupOf = new Map<string, string>()
  for (const [group, devices] of groups) for (const device of devices) groupOf.set(device, group)
  return (device) => groupOf.get(device) ?? NO_GROUP
}

/** Without an extension. */
export function ownerFileName(per: ModelsPer, owner: string): string {
  return `${per}-${owner.replaceAll(':', '-')}`
}
