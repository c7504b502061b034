/**
 * The parts of a saved model are each checked on their own; this is where they must agree with one another.
 */
import { categoryColumn, type FeatureContract, FormatError, type OnePacketRule } from '@oddflow/core'
import type { DetectorModel } from '../model.js'
import { FORMAT } from './layout.js'

/** Throws FormatError when contract, one-packet rule and detector do not belong together. */
export function checkAgreement(
  contract: FeatureContract,
  onePacketRule: OnePacketRule | null,
  { fitReport, scaler }: DetectorModel,
): void {
  const fail = (field: string, message: string): never => {
    throw new FormatError(FORMAT, `${field}: ${message}`, { field })
  }
  if (contract.dimension !== fitReport.dimension) {
    fail(
      'featureContract.dimension',
      `expected ${fitReport.dimension} as the detector has, found ${contract.dimension}`,
    )
  }
  if (contract.scaler !== scaler.kind) {
    fail('featureContract.scaler', `expected ${scaler.kind} as the detector has, found ${contract.scaler}`)
  }
  const names = categoryColumn(contract)
  // files from before there was such a column took its numbers for numbers
  if (
    scaler.categoryColumn !== undefined &&
    contract.featureSet !== 'rows' &&
    scaler.categoryColumn !== names
  ) {
    fail(
      'scaler.categoryColumn',
      `expected ${names ?? 'none'} as the contract has, found ${scaler.categoryColumn}`,
    )
  }
  if (onePacketRule !== null && contract.featureSet === 'rows') {
    fail('onePacketRule', 'expected null, since bare rows know no packets')
  }
  if (onePacketRule !== null && contract.featureSet === 'flow-summary') {
    fail('onePacketRule', 'expected null, since flows of one packet have rows')
  }
}
