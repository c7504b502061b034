import type { ChildProcess } from 'node:child_process'

export declare const natsEnvironment: NodeJS.ProcessEnv
/** Says that tests are skipped if it is false. */
export declare const hasNatsServer: boolean
/** `args` name the port too. Rejects if the server ends. */
export declare function startNatsServer(
  port: number,
  args: readonly string[],
  options?: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> },
): Promise<ChildProcess>
export declare function freePort(): Promise<number>
