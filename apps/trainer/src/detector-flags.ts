/**
 * The detectors' own options as flags of `train`. A flag is its option's name in kebab-case; what it means, its default
 * and the detectors that take it stand in @oddflow/detectors.
 */
import { DETECTOR_NAMES, DETECTORS, OPTION_NAMES, type OptionName, optionNamed } from '@oddflow/detectors'
import { PLAIN_ROWS_DETECTORS } from '@oddflow/evaluation'
import { type Command, Option } from 'commander'
import { flagOf, list, number, whole } from './flags.js'

const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  whole,
  number,
  list: list((name) => name),
}

export function withDetectorFlags(command: Command): Command {
  const names = new Option(
    '--detector <name>',
    `one of ${DETECTOR_NAMES.join(', ')} (default: ensemble for flow-summary, oc-kjl-qs for other feature sets; for rows of a file, whichever of ${PLAIN_ROWS_DETECTORS.map(({ detector }) => detector).join(', ')} suits them)`,
  )
  command.addOption(names.helpGroup('Detector:'))
  for (const name of OPTION_NAMES) {
    for (const option of optionsOf(name)) command.addOption(option.helpGroup(`${optionNamed(name).group}:`))
  }
  return command
}

/** What the documents say of each flag; `detectors` is empty where all take it. */
export function detectorFlagRows(): { flag: string; detectors: string; byDefault: string; help: string }[] {
  return OPTION_NAMES.map((name) => {
    const { value, help, choices } = optionNamed(name)
    const flag = value === undefined ? flagOf(name).replace(/^--/, '--[no-]') : flagOf(name)
    return {
      flag: choices === undefined ? flag : `${flag} ${choices.join(', ')}`,
      detectors: takersOf(name),
      byDefault: value === undefined ? (defaultOf(name) === 'true' ? 'yes' : 'no') : defaultOf(name),
      help,
    }
  })
}

/** One option, or two for a switch. */
function optionsOf(name: OptionName): Option[] {
  const { kind, value, help, off, choices } = optionNamed(name)
  const flag = flagOf(name)
  if (value === undefined) {
    const isOn = defaultOf(name) === 'true'
    return [
      new Option(flag, `${help} (${join(takersOf(name), isOn ? 'default' : '')})`),
      new Option(flag.replace(/^--/, '--no-'), `${off ?? 'do not'}${isOn ? '' : ' (default)'}`),
    ]
  }
  const option = new Option(
    `${flag} <${value}>`,
    `${help} (${join(takersOf(name), `default: ${defaultOf(name)}`)})`,
  )
  const parse = PARSERS[kind]
  if (parse !== undefined) option.argParser(parse)
  return choices === undefined ? [option] : [option.choices([...choices])]
}

function defaultOf(name: OptionName): string {
  const { shownDefault, byDefault } = optionNamed(name)
  return shownDefault ?? String(byDefault)
}

/** "oc-kjl, gmm"; empty where all detectors take it. */
export function takersOf(option: OptionName): string {
  const takers = DETECTOR_NAMES.filter((name) => DETECTORS[name].options.includes(option))
  return takers.length === DETECTOR_NAMES.length ? '' : takers.join(', ')
}

function join(takers: string, rest: string): string {
  return [takers, rest].filter((part) => part !== '').join('; ')
}
