/** `sign`. */
import { Command } from 'commander'

export function signCommand(): Command {
  return new Command('sign')
    .description(
      'sign model files, for agents that accept only signed ones (modelKey in their configuration)',
    )
    .argument('<models...>', 'model files; the signature of MODEL is written to MODEL.sig')
    .requiredOption('--key <file>', 'a private key of Ed25519, in PEM')
    .addHelpText(
      'after',
      `
The key, and its public half for the agent:
  openssl genpkey -algorithm ed25519 -out models.key
  openssl pkey -in models.key -pubout -out models.pub

Examples:
  oddflow sign camera.oddflow --key models.key`,
    )
    .action(async (models: string[], options) => (await import('../commands/sign.js')).sign(models, options))
}
