/**
 * Completion scripts for bash, zsh and fish, and the manual page, from the command line that `--help` prints. Commands,
 * options and fixed values are in the script, so that a shell starts no Node to complete a word; all else is a file.
 */

import { EventEmitter } from 'node:events'
import { Argument, Command, Help, Option } from 'commander'

/** The command `completion` of a program, to be added to it last. @param version - for the manual page. */
export function completionCommand(program: Command, version: string): Command {
  const name = program.name()
  return new Command('completion')
    .description('print the completion script of a shell, or the manual page')
    .addArgument(new Argument('<kind>').choices(['bash', 'zsh', 'fish', 'man']))
    .addHelpText(
      'after',
      `
Examples:
  source <(${name} completion bash)                                   # or zsh: this shell
  ${name} completion bash > ~/.local/share/bash-completion/completions/${name}
  ${name} completion fish > ~/.config/fish/completions/${name}.fish
  ${name} completion man | man -l -`,
    )
    .action((kind: string) => {
      const text = kind === 'man' ? manualPage(program, version) : SCRIPTS[kind]!(program)
      process.stdout.write(text)
    })
}

const SCRIPTS: Record<string, (program: Command) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/** A command with the names that lead to it: ['oddflow', 'train']. */
interface Place {
  readonly path: readonly string[]
  readonly command: Command
}

function placesOf(command: Command, path: readonly string[] = [command.name()]): Place[] {
  const below = command.commands.flatMap((each) => placesOf(each, [...path, each.name()]))
  return [{ path, command }, ...below]
}

function optionsOf({ options }: Command): readonly Option[] {
  const isThere = options.some(({ long }) => long === '--help')
  return isThere ? options : [...options, new Option('-h, --help', 'print help and end')]
}

const namesOf = ({ short, long }: Option): string[] => [short, long].filter((name) => name !== undefined)
const takesValue = ({ required }: Option): boolean => required
const choicesOf = ({ registeredArguments }: Command): readonly string[] =>
  registeredArguments[0]?.argChoices ?? []

/** In single quotes, for all three shells (fish alone reads \\ and \' within them, and texts have no backslash). */
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const firstSentence = (text: string): string => text.split(/[;:(]|\. /, 1)[0]!.trim()

function bashScript(program: Command): string {
  const places = placesOf(program)
  const name = `_${program.name().replace(/\W/g, '_')}`
  const within = places.slice(1).map(({ path }) => quote(path.join(' ')))
  const words: string[] = []
  const values: string[] = []
  for (const { path, command } of places) {
    const at = path.join(' ')
    const others = [...command.commands.map((each) => each.name()), ...choicesOf(command)]
    const flags = optionsOf(command).flatMap(namesOf)
    words.push(`    ${quote(at)}) others=${quote(others.join(' '))} flags=${quote(flags.join(' '))} ;;`)
    for (const option of optionsOf(command).filter(takesValue)) {
      const patterns = namesOf(option).map((flag) => quote(`${at} ${flag}`))
      values.push(
        `    ${patterns.join('|')}) COMPREPLY=($(compgen -W ${quote((option.argChoices ?? []).join(' '))} -- "$word")); return ;;`,
      )
    }
  }
  return `# bash completion for ${program.name()}
${name}() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} at=${program.name()} others flags i
  COMPREPLY=()
  # --option=value arrives as three words
  if [[ $word == '=' ]]; then word=''; elif [[ $before == '=' ]]; then before=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${within.join('|')}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at $before" in
${values.join('\n')}
  esac
  case "$at" in
${words.join('\n')}
  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word"))
  else COMPREPLY=($(compgen -W "$others" -- "$word")); fi
}
# what the function does not know is the name of a file
complete -o bashdefault -o default -F ${name} ${program.name()}
`
}

function zshScript(program: Command): string {
  // as zsh wants it: the function has the name of the file in $fpath
  const nameOf = (path: readonly string[]): string => `_${path.join('_')}`
  const bracket = (text: string): string => firstSentence(text).replace(/[[\]\\:]/g, '\\$&')
  const functions = placesOf(program).map(({ path, command }) => {
    const specs = optionsOf(command).map((option) => {
      const names = namesOf(option)
      const values = option.argChoices === undefined ? '_files' : `(${option.argChoices.join(' ')})`
      const value = takesValue(option) ? `:value:${values}` : ''
      const flags = names.length > 1 ? `{${names.join(',')}}` : names[0]!
      const excluded = names.length > 1 ? quote(`(${names.join(' ')})`) : ''
      return `${excluded}${flags}${quote(`[${bracket(option.description)}]${value}`)}`
    })
    const list = specs.map((spec) => `    ${spec}`).join(' \\\n')
    if (command.commands.length === 0) {
      const choices = choicesOf(command)
      const rest = choices.length > 0 ? `1:value:(${choices.join(' ')})` : '*:file:_files'
      return `${nameOf(path)}() {\n  _arguments -s \\\n${list} \\\n    ${quote(rest)}\n}`
    }
    const described = command.commands.map((each) =>
      quote(`${each.name()}:${firstSentence(each.description()).replaceAll(':', '\\:')}`),
    )
    const below = command.commands.map((each) => `      ${each.name()}) ${nameOf([...path, each.name()])} ;;`)
    return `${nameOf(path)}() {
  local line state
  _arguments -C \\
${list} \\
    '1: :->command' '*:: :->rest'
  case $state in
    command) local -a commands=(${described.join(' ')}); _describe command commands ;;
    rest) case $line[1] in
${below.join('\n')}
    esac ;;
  esac
}`
  })
  const name = nameOf([program.name()])
  return `#compdef ${program.name()}
${functions.join('\n')}
# installed in $fpath, or read by: source <(${program.name()} completion zsh)
if [[ $funcstack[1] == ${name} ]]; then ${name} "$@"; else compdef ${name} ${program.name()}; fi
`
}

function fishScript(program: Command): string {
  const lines = [`# fish completion for ${program.name()}`]
  for (const { path, command } of placesOf(program)) {
    const below = command.commands.map((each) => each.name())
    const isHere = [
      ...path.slice(1).map((name) => `__fish_seen_subcommand_from ${name}`),
      ...(below.length > 0 ? [`not __fish_seen_subcommand_from ${below.join(' ')}`] : []),
    ].join('; and ')
    const head = `complete -c ${program.name()}${isHere === '' ? '' : ` -n ${quote(isHere)}`}`
    for (const each of command.commands) {
      lines.push(`${head} -f -a ${each.name()} -d ${quote(firstSentence(each.description()))}`)
    }
    if (choicesOf(command).length > 0) lines.push(`${head} -f -a ${quote(choicesOf(command).join(' '))}`)
    for (const option of optionsOf(command)) {
      const short = option.short === undefined ? '' : ` -s ${option.short.slice(1)}`
      const long = option.long === undefined ? '' : ` -l ${option.long.slice(2)}`
      const choices = option.argChoices === undefined ? ' -r' : ` -x -a ${quote(option.argChoices.join(' '))}`
      const value = takesValue(option) ? choices : ''
      lines.push(`${head}${short}${long}${value} -d ${quote(firstSentence(option.description))}`)
    }
  }
  return `${lines.join('\n')}\n`
}

/** The manual page, in the macros of man(7). */
function manualPage(program: Command, version: string): string {
  const escaped = (text: string): string =>
    text
      .replaceAll('\\', '\\e')
      .replaceAll('-', '\\-')
      .replace(/^(?=[.'])/gm, '\\&')
  const help = new Help()
  const pieces = placesOf(program).map(({ path, command }) => {
    const title = path.length === 1 ? '.SH OPTIONS' : `.SH ${escaped(path.slice(1).join(' ').toUpperCase())}`
    const usage =
      path.length === 1
        ? ''
        : `.B ${escaped(help.commandUsage(command))}\n.PP\n${escaped(command.description())}\n`
    const options = command.options.map(
      (option) => `.TP\n.B ${escaped(option.flags)}\n${escaped(help.optionDescription(option))}\n`,
    )
    return `${title}\n${usage}${options.join('')}${preformatted(textAfterHelp(command))}`
  })
  const commands = program.commands.map(
    (each) => `.TP\n.B ${escaped(each.name())}\n${escaped(each.description())}\n`,
  )
  const [top, ...others] = pieces
  return `.TH ${program.name().toUpperCase()} 1 "" "${program.name()} ${version}" "OddFlow"
.SH NAME
${escaped(program.name())} \\- ${escaped(program.description().replace(/\.$/, ''))}
.SH SYNOPSIS
.B ${escaped(help.commandUsage(program))}
.SH COMMANDS
${commands.join('')}${top}${others.join('')}`

  function preformatted(text: string): string {
    return text.trim() === '' ? '' : `.PP\n.nf\n${escaped(text.trim())}\n.fi\n`
  }
}

/** Such as examples: commander passes it to the `write` of the help's context. */
function textAfterHelp(command: Command): string {
  const parts: string[] = []
  // which it is, though its types do not say so
  EventEmitter.prototype.emit.call(command, 'afterHelp', {
    command,
    error: false,
    isWhole: true,
    write: (text: string) => parts.push(text),
  })
  return parts.join('')
}
