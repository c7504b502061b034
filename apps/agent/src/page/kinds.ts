/** The kinds of incidents, and which facts make them; the agent uses them too. */

/** The gravest first: an incident is of the first of its facts' kinds. */
export const INCIDENT_KINDS = [
  'address-taken',
  'password-guessing',
  'dns-tunnel',
  'flood',
  'scan',
  'upload',
  'download',
  'first-contact',
  'new-device',
  'unusual-flows',
] as const
export type IncidentKind = (typeof INCIDENT_KINDS)[number]

/** By rule. */
const KIND_OF_FACT: Readonly<Record<string, IncidentKind>> = {
  'address-taken': 'address-taken',
  'arp-conflict': 'address-taken',
  'nd-conflict': 'address-taken',
  'device-flood': 'flood',
  'address-flood': 'flood',
  'request-flood': 'flood',
  'password-guessing': 'password-guessing',
  'dns-tunnel': 'dns-tunnel',
  'port-scan': 'scan',
  'host-scan': 'scan',
  'first-contact': 'first-contact',
  'new-device': 'new-device',
  'new-device-contact': 'new-device',
  upload: 'upload',
  download: 'download',
}
/** The kind of incident that a rule's facts make; null for verdicts, and for facts about the agent's own work. */
export function kindOfFact(rule: string): IncidentKind | null {
  return KIND_OF_FACT[rule] ?? null
}

/** Most new devices and peers stay, and their flows are what a model has to learn. */
export const MAY_BE_NORMAL: readonly IncidentKind[] = ['new-device', 'first-contact', 'unusual-flows']

/** Kinds of its facts that open an incident by themselves, and are no new device; the gravest first. */
export function seriousKinds({
  facts,
}: {
  readonly facts: readonly { readonly rule: string }[]
}): IncidentKind[] {
  const kinds = new Set(facts.map(({ rule }) => kindOfFact(rule)))
  return INCIDENT_KINDS.filter((kind) => kinds.has(kind) && !MAY_BE_NORMAL.includes(kind))
}
