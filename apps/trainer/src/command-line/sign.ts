/** `sign`. */
import { Command } from 'commander'

export function signCommand(): Command {
  return new Command('sign')
    .description(
      'sign model files, for agents that accept only signed ones (modelKey in their configuration)',
    )
    .argument('<models...>', 'model files; the signature of MODEL is written to MODEL.sig')
    .requiredOption('--key <file>', 'an Ed25519 private key, in PEM')
    .addHelpText(
      'after',
      `
To make the key, and its public key for the agent:
  openssl genpkey -algorithm ed25519 -out models.key
  openssl pkey -in models.key -pubout -out models.pub

Examples:
  oddflow sign camera.oddflow --key models.key`,
    )
    .action(async (models: string[], options) => (await import('../commands/sign.js')).sign(models, options))
}
