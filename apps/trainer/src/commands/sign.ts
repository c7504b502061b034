/** `oddflow sign`: a signature beside each model. */
import { createLineWriter, printable, readModelFile, readPrivateKey, signaturePath } from '@oddflow/program'

export function sign(models: readonly string[], { key }: { readonly key: string }): void {
  const signWith = readPrivateKey(key)
  const out = createLineWriter(1)
  for (const model of models) {
    readModelFile(model, { onlyRegular: true, signWith })
    out.line(`${printable(signaturePath(model))}: signs ${printable(model)}`)
  }
  out.flush()
}
