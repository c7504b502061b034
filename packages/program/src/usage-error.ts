/** The command line itself is wrong: exit code 2. The message says what to write instead. */
export class UsageError extends Error {}
