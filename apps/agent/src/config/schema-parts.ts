/** Parts of the configuration's schema that the file itself and the outputs share. */
import * as v from 'valibot'

export const path = (what: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(4096), v.description(what))
export const text = (what: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(256), v.description(what))
export const number = (least: number, most: number, what: string) =>
  v.pipe(v.number(), v.minValue(least), v.maxValue(most), v.description(what))
export const whole = (least: number, most: number, what: string) =>
  v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most), v.description(what))
export const flag = (what: string) => v.pipe(v.boolean(), v.description(what))
export const choice = <const Names extends readonly string[]>(names: Names, what: string) =>
  v.pipe(v.picklist(names), v.description(what))
