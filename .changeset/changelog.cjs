/** A changelog for its readers: what changed, without hashes of commits, and one line for all packages of ours. */
module.exports = {
  getReleaseLine: async ({ summary }) => summary.trim(),
  getDependencyReleaseLine: async (_changesets, dependencies) => {
    const names = dependencies.map(({ name, newVersion }) => `${name} ${newVersion}`)
    return names.length === 0 ? '' : `With ${names.join(', ')}.`
  },
}
