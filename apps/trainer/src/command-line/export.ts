/** `export`. */
import { Command, Option } from 'commander'

export function exportCommand(): Command {
  return new Command('export')
    .description('write a model as source code that scores rows without OddFlow')
    .argument('<model>', 'model file')
    .addOption(
      new Option('--to <language>', 'c: one C99 header, without allocation')
        .choices(['c'])
        .makeOptionMandatory(),
    )
    .requiredOption('-o, --output <file>', 'the header; - is standard output')
    .option(
      '--name <prefix>',
      'prefix of all names in the header, so that one program can use several models',
      'oddflow',
    )
    .addHelpText(
      'after',
      `
The header works for every detector: it gives the same scores to the last bit, and the verdict of the threshold. Its first
lines say how to compile it, which columns it expects, and how many bytes it takes. It scores rows that extract writes.
The rules for groups of flows and for flows of one packet are not in it.

In C:
  #include "camera.h"
  double row[CAMERA_COLUMNS] = { ... };
  if (camera_is_novel(camera_score(row))) ...

Examples:
  oddflow export camera.oddflow --to c --name camera -o camera.h
  gcc -std=c99 -ffp-contract=off -O2 main.c -lm`,
    )
    .action(async (model: string, options) =>
      (await import('../commands/export.js')).exportModel(model, options),
    )
}
