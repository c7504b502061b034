/**
 * Checks a OnePacketRule (see feature-contract.ts) that was read from a file.
 */
import { FormatError } from './errors.js'
import type { OnePacketRule } from './feature-contract.js'

/** Most services that a rule lists. */
export const MAXIMUM_ONE_PACKET_SERVICES = 1024

const SERVICE = /^[a-z0-9-]{1,16}\/\d{1,5}$/

/** Throws FormatError naming the field. Services must be sorted and different. */
export function checkOnePacketRule(value: unknown): OnePacketRule {
  const fail = (field: string, expected: string): never => {
    throw new FormatError('model-file', `onePacketRule.${field}: expected ${expected}`, {
      field: `onePacketRule.${field}`,
    })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new FormatError('model-file', 'onePacketRule: expected an object', { field: 'onePacketRule' })
  }
  const { flows, services, ...rest } = value as Record<string, unknown>
  for (const field of Object.keys(rest)) fail(field, 'no such field')
  if (typeof flows !== 'number' || !Number.isSafeInteger(flows) || flows < 0) {
    return fail('flows', 'a whole number of 0 or more')
  }
  if (!Array.isArray(services) || services.length > MAXIMUM_ONE_PACKET_SERVICES) {
    return fail('services', `a list of at most ${MAXIMUM_ONE_PACKET_SERVICES}`)
  }
  const names = services.map((service: unknown, i) => {
    if (typeof service !== 'string' || !SERVICE.test(service)) {
      return fail(`services[${i}]`, 'protocol/port, for example udp/1900')
    }
    return service
  })
  for (let i = 1; i < names.length; i++) {
    if (!(names[i - 1]! < names[i]!)) fail(`services[${i}]`, 'services in order, each once')
  }
  return { flows, services: names }
}
