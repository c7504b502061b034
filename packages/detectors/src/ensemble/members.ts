/**
 * The kinds of members of an ensemble: nearest and hbos compare a row with rows of its service; any other detector is a
 * member as it is, over standardized rows.
 */
import { ArgumentError, type Rng, takeRows } from '@oddflow/core'
import type { Folds, SurpriseCurve, SurpriseWeights } from '../calibration/held-out.js'
import type { DetectorDefinition, DetectorFit, MemberName } from '../detector.js'
import type { EnsembleParameters } from '../detectors/ensemble.js'
import { failField, fieldsAt, namingPaths, pathIn } from '../fields.js'
import { checkedTrainingRows, fitChecked, NOTHING_SHARED } from '../fit-rows.js'
import type { ModelFileParts } from '../model-file/layout.js'
import { OptionReader } from '../options.js'
import { checkModelBy } from '../table-checks.js'
import type {
  DetectorMember,
  EnsembleMember,
  MemberFit,
  MemberKind,
  MemberModel,
  MemberTraining,
  View,
} from './ensemble-part.js'
import { createHbosFit, hbosMember, joinHbos } from './hbos-member.js'
import { fitNearest, joinNearest, nearestMember } from './nearest-member.js'

/** The detectors that can be members of an ensemble. */
export type MemberDetectors = Readonly<Record<MemberName, DetectorDefinition>>
/** Their fits. */
export type MemberFits = Readonly<Record<MemberName, DetectorFit>>

const OWN_KINDS = { nearest: nearestMember, hbos: hbosMember }

export function memberKind(detectors: MemberDetectors, name: MemberName): MemberKind<MemberModel> {
  return ownKind(name) ?? detectorMember(detectors, name as DetectorMember['name'])
}

// a member is only passed to the kind of its own name
function ownKind(name: MemberName): MemberKind<MemberModel> | undefined {
  return (OWN_KINDS as Partial<Record<MemberName, MemberKind<MemberModel>>>)[name]
}

// ---- any detector

const WHOLE: SurpriseWeights = { body: 1, tail: 1 }

function detectorMember(detectors: MemberDetectors, name: DetectorMember['name']): MemberKind<MemberModel> {
  const definition = detectors[name]
  return {
    viewWeights: () => [WHOLE],
    createViews(member, _hasServices, simd) {
      const { model } = member as DetectorMember
      const scorer = definition.createScorer(model, { simd })
      return [
        (rows, _, out) => {
          scorer.score(rows, out)
          for (let i = 0; i < rows.rows; i++) out[i] = 0 - out[i]!
        },
      ]
    },
    encode(member, prefix) {
      const { model } = member as DetectorMember
      const { parameters, fitReport } = model
      const inside = definition.encode(model)
      const tensors = Object.entries(inside.tensors).map(([tensor, data]) => [
        `${prefix}model.${tensor}`,
        data,
      ])
      return {
        metadata: { model: { parameters, fitReport, ...inside.metadata } },
        tensors: Object.fromEntries(tensors) as ModelFileParts['tensors'],
      }
    },
    decode(metadata, file, path) {
      const head = fieldsAt(metadata.model, `${path}.model`)
      const parameters = fieldsAt(head.parameters, `${path}.model.parameters`)
      const scaler = { kind: 'none' }
      const inside = namingPaths(pathIn(`${path}.model.`), () =>
        definition.decode(file.within('model.', head), parameters),
      )
      return { name, model: { kind: name, parameters, scaler, ...inside, fitReport: head.fitReport } }
    },
    check(value, _parameters, { cols }, memberPath) {
      const path = `${memberPath}.model`
      const fields = fieldsAt(value.model, path)
      const model = namingPaths(pathIn(`${path}.`), () => checkModelBy(detectors, fields))
      if (model.kind !== name) failField(`${path}.kind`, name, model.kind)
      if (model.scaler.kind !== 'none') failField(`${path}.scaler`, 'none', model.scaler.kind)
      if (model.fitReport.dimension !== cols || model.scaler.categoryColumn !== undefined) {
        failField(`${path}.fitReport.dimension`, `${cols} columns`, model.fitReport.dimension)
      }
      return { name, model }
    },
    spaceNumbers: (member) => definition.spaceNumbers((member as DetectorMember).model),
    facts: (member) =>
      definition
        .facts((member as DetectorMember).model)
        .map(({ label, value }) => ({ label: `${name}: ${label}`, value })),
  }
}

// ---- views

/** Weights of the surprises of a member's views, one for each. */
export function viewWeights(name: MemberName, hasServices: boolean): readonly SurpriseWeights[] {
  return ownKind(name)?.viewWeights(hasServices) ?? [WHOLE]
}

/** A member's views, as many as `viewWeights` says. */
export function createViews(
  detectors: MemberDetectors,
  member: MemberModel,
  hasServices: boolean,
  simd: boolean,
): readonly View[] {
  return memberKind(detectors, member.name).createViews(member, hasServices, simd)
}

/** A view with its curve and the weights of its surprises. */
interface WeightedView {
  readonly view: View
  readonly surprise: SurpriseCurve
  readonly weights: SurpriseWeights
}

export function createWeightedViews(
  detectors: MemberDetectors,
  member: EnsembleMember,
  hasServices: boolean,
  simd: boolean,
): readonly WeightedView[] {
  const kind = memberKind(detectors, member.name)
  const weights = kind.viewWeights(hasServices)
  return kind.createViews(member, hasServices, simd).map((view, k) => ({
    view,
    surprise: member.surprises[k]!,
    weights: weights[k]!,
  }))
}

// ---- fits

/** Fits a member to the `kept` training rows without each fold, and to all of them. */
export function createMemberFit(
  detectors: MemberDetectors,
  fits: MemberFits,
  name: MemberName,
  training: MemberTraining,
  folds: Folds,
  kept: Uint32Array,
  parameters: EnsembleParameters,
): MemberFit {
  const { m } = parameters
  if (name === 'nearest') return ({ numbers }, rng) => fitNearest(training, numbers, m!, rng)
  if (name === 'hbos') return createHbosFit(training, folds, kept, parameters)
  const definition = detectors[name]
  const takesLandmarks = m !== null && definition.options.includes('m')
  // lowered, not refused, if a fold has fewer rows
  const given = definition.checkParameters(new OptionReader(takesLandmarks ? { m } : {}))
  return ({ numbers }, rng) => {
    const rows = checkedTrainingRows(takeRows(training.rows, numbers), false, null)
    const { model } = fitChecked(fits[name], rows, given, {}, rng, NOTHING_SHARED)
    return { name, model }
  }
}

/** A member with these weighted rows added. Throws ArgumentError for a detector that cannot add rows. */
export function joinMember(
  member: MemberModel,
  training: MemberTraining,
  numbers: Uint32Array,
  weight: number,
  { m }: EnsembleParameters,
  rng: Rng,
): MemberModel {
  if (member.name === 'nearest') return joinNearest(member, training, numbers, m!, rng)
  if (member.name === 'hbos') return joinHbos(member, training, numbers, weight)
  throw new ArgumentError(`members: an ensemble with ${member.name} cannot learn on`, 'members')
}
