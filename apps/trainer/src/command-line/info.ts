/** `info`. */
import { Argument, Command } from 'commander'
import { withCaptureFlags, withFormat } from '../flags.js'

export function infoCommand(): Command {
  const command = new Command('info')
    .description('show what a capture holds')
    .addArgument(new Argument('<capture...>', 'captures; - is standard input'))
  return withCaptureFlags(withFormat(command, ['text', 'json']))
    .addHelpText(
      'after',
      `
With --filter, info counts only the packets that match.

Examples:
  oddflow info today.pcap
  oddflow info *.pcapng --format json
  oddflow info gtp.pcap --decap inner --filter "net 10.0.0.0/8"
  oddflow info ring-*.pcap --continuous`,
    )
    .action(async (files: string[], options) => (await import('../commands/info.js')).info(files, options))
}
