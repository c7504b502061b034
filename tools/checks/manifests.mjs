/**
 * Every package.json says what a published package must say.
 *
 * Held for packages/* and apps/*: name, description, keywords, homepage, license, ESM, Node version, public access, the files
 * that are packed, README and LICENSE beside it, scripts that work alone, exact versions for foreign
 * dependencies and workspace:^ for our own. Libraries also: an exports map with types before default, and
 * sideEffects false. Apps: a bin. No repository address as long as there is none.
 */
const SCRIPTS = ['build', 'typecheck', 'test', 'watch']
const EXACT = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/

function* complaintsAbout(manifest, directory, isApp) {
  const expect = {
    license: 'MIT',
    type: 'module',
    'engines.node': '>=20.0.0',
    'publishConfig.access': 'public',
  }
  for (const [path, wanted] of Object.entries(expect)) {
    const found = path.split('.').reduce((value, key) => value?.[key], manifest)
    if (found !== wanted) yield `${path} must be ${JSON.stringify(wanted)}, and is ${JSON.stringify(found)}`
  }
  if (manifest.private === true) yield 'is private; every workspace is publishable'
  if (!/^(?:@oddflow\/[a-z][a-z-]*|oddflow(?:-[a-z]+)?)$/.test(manifest.name ?? ''))
    yield 'has no proper name'
  if ((manifest.description ?? '').length < 20) yield 'has no description worth the name'
  if (!(manifest.keywords?.length >= 3)) yield 'has fewer than three keywords'
  const homepage = `https://www.npmjs.com/package/${manifest.name}`
  if (manifest.homepage !== homepage) yield `homepage must be ${homepage}`
  if (manifest.repository !== undefined) yield 'names a repository, and there is none'
  for (const file of ['dist', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
    if (!manifest.files?.includes(file)) yield `files must list ${file}`
  }
  for (const script of SCRIPTS) {
    if (manifest.scripts?.[script] === undefined) yield `has no script ${script}`
  }
  // what is packed is what the sources say, from a fresh clone too
  const builds = `node ../../tools/workspace/run.mjs build ${directory}`
  if (!manifest.scripts?.prepack?.startsWith(builds)) yield `the script prepack must begin with ${builds}`
  for (const field of ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies']) {
    for (const [name, range] of Object.entries(manifest[field] ?? {})) {
      const isOurs = name.startsWith('@oddflow/')
      if (isOurs && range !== 'workspace:^') yield `${field}: ${name} must be workspace:^`
      if (!isOurs && !EXACT.test(range)) yield `${field}: ${name} must have an exact version, not ${range}`
    }
  }
  if (isApp) {
    const bins = Object.values(manifest.bin ?? {})
    if (bins.length !== 1) yield 'an app has one bin'
    // one that is a library too: only its programs do something when they are imported
    if (manifest.exports !== undefined && !manifest.sideEffects?.includes(bins[0])) {
      yield 'sideEffects must list the bin'
    }
    return
  }
  if (manifest.sideEffects !== false) yield 'sideEffects must be false'
  if (manifest.exports?.['.'] === undefined) yield 'exports has no "."'
  for (const [entry, conditions] of Object.entries(manifest.exports ?? {})) {
    if (Object.keys(conditions).join() !== 'types,default')
      yield `exports ${entry} must be { types, default }`
  }
}

export function checkManifests(files) {
  const present = new Set(files.map(({ path }) => path))
  const complaints = []
  for (const { path, text } of files) {
    const [, directory, group] = /^((packages|apps)\/[^/]+)\/package\.json$/.exec(path) ?? []
    if (directory === undefined) continue
    for (const message of complaintsAbout(JSON.parse(text), directory, group === 'apps')) {
      complaints.push({ path, line: 1, message })
    }
    for (const name of ['README.md', 'LICENSE', 'tsconfig.json', 'turbo.json']) {
      if (!present.has(`${directory}/${name}`))
        complaints.push({ path, line: 1, message: `has no ${name} beside it` })
    }
  }
  return complaints
}
