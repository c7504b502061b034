/** The kinds of incidents: which facts make them, and their words; the agent uses them too. */

interface Kind {
  readonly title: string
  readonly advice: string
  /** Rules of the facts that make it. */
  readonly facts: readonly string[]
}

/** The gravest first: an incident is of the first of its facts' kinds. */
const KINDS = {
  'address-taken': {
    title: 'Address taken',
    advice: 'Find out which of the two devices is yours, and disconnect the other.',
    facts: ['address-taken', 'arp-conflict', 'nd-conflict'],
  },
  'password-guessing': {
    title: 'Password guessing',
    advice:
      'Find the device that guesses. If you do not know it, disconnect it. Then change the password of the other device.',
    facts: ['password-guessing'],
  },
  'dns-tunnel': {
    title: 'DNS tunnel',
    advice: 'Disconnect the device, and find out which program on it sends these DNS queries.',
    facts: ['dns-tunnel'],
  },
  flood: {
    title: 'Flood',
    advice: 'Disconnect the sending device if it is in your network. Otherwise ask your internet provider.',
    facts: ['device-flood', 'address-flood', 'request-flood'],
  },
  scan: {
    title: 'Scan',
    advice: 'Find the scanning device. If you did not start the scan, disconnect it.',
    facts: ['port-scan', 'host-scan'],
  },
  upload: {
    title: 'Upload',
    advice: 'Check what the device may send: a backup or a recording that you started, or your data.',
    facts: ['upload'],
  },
  download: {
    title: 'Download',
    advice: 'Check whether the device installs an update.',
    facts: ['download'],
  },
  'first-contact': {
    title: 'First contact',
    advice: 'Check whether the device has a new function or uses a new server.',
    facts: ['first-contact'],
  },
  'new-device': {
    title: 'New device',
    advice: 'Check whether you or a guest connected it.',
    facts: ['new-device', 'new-device-contact'],
  },
  'unusual-flows': {
    title: 'Unusual traffic',
    advice: 'Check whether the device was updated or is used in a new way.',
    facts: [],
  },
} as const satisfies Readonly<Record<string, Kind>>
export type IncidentKind = keyof typeof KINDS
export const INCIDENT_KINDS = Object.keys(KINDS) as IncidentKind[]

/** An event that an earlier version has kept may be of another kind. */
const kindNamed = (name: string): Kind | undefined => KINDS[name as IncidentKind]

const KIND_OF_FACT = new Map(
  Object.entries<Kind>(KINDS).flatMap(([kind, { facts }]) =>
    facts.map((rule) => [rule, kind as IncidentKind] as const),
  ),
)
/** The kind of incident that a rule's facts make; null for verdicts, and for facts about the agent's own work. */
export function kindOfFact(rule: string): IncidentKind | null {
  return KIND_OF_FACT.get(rule) ?? null
}

/** Most new devices and peers stay, and their flows are what a model has to learn. */
export const MAY_BE_NORMAL: readonly IncidentKind[] = ['new-device', 'first-contact', 'unusual-flows']

interface WithFacts {
  readonly facts: readonly { readonly rule: string }[]
}

/** Kinds of its facts that open an incident by themselves, and are no new device; the gravest first. */
export function seriousKinds({ facts }: WithFacts): IncidentKind[] {
  const kinds = new Set(facts.map(({ rule }) => kindOfFact(rule)))
  return INCIDENT_KINDS.filter((kind) => kinds.has(kind) && !MAY_BE_NORMAL.includes(kind))
}

export const titleOf = (kind: string): string => kindNamed(kind)?.title ?? kind

/** For its kind first, then for each further kind that its facts alone would make. */
export function adviceOf({ kind, facts }: WithFacts & { readonly kind: string }): string {
  const further = seriousKinds({ facts }).filter((each) => each !== kind)
  return [kind, ...further].map((each) => kindNamed(each)?.advice ?? '').join(' ')
}
