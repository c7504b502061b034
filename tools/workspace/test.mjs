/**
 * `npm test`: the whole proof that a checkout is sound, and one plain line at its end.
 *
 * It installs and builds, then every test of every workspace and of test/ goes in one vitest run, and beside it the
 * other stages (stages.mjs) in turn. A stage that fails does not hide the others, except that nothing is tested that
 * could not be built. A stage counts as one test. `slow-tests` is the same with all cases of every enumeration. What was skipped is listed with the reason that the test gave. The last line
 * is `N passed, N failed` (`, N skipped` after it if any), alone, on standard output.
 *
 * Arguments go to vitest (`npm test -- packages/linalg` runs the tests whose path contains that).
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './command.mjs'
import { pnpmEnvironment } from './install.mjs'
import { readJson, root, stateDirectory } from './layout.mjs'
import { runStage } from './stages.mjs'

const countsPath = join(stateDirectory, 'test-counts.json')
const samplesPath = join(stateDirectory, 'test-samples.jsonl')

const print = (text) => process.stdout.write(`${text}\n`)

function report({ name, error, seconds }) {
  print(`${error === undefined ? 'ok    ' : 'FAILED'} ${name.padEnd(10)} ${seconds.toFixed(1).padStart(6)} s`)
}

async function runTests(args) {
  const start = performance.now()
  for (const path of [countsPath, samplesPath]) rmSync(path, { force: true })
  mkdirSync(stateDirectory, { recursive: true })
  const vitest = join(root, 'node_modules', '.bin', 'vitest')
  const config = join(root, 'tools', 'workspace', 'vitest.all.config.mjs')
  const env = {
    ...(await pnpmEnvironment()),
    ODDFLOW_TEST_COUNTS: countsPath,
    ODDFLOW_TEST_SAMPLES: samplesPath,
  }
  const { code } = await run(vitest, ['run', '--config', config, ...args], { env, stdout: 'inherit' })
  let counts
  try {
    counts = readJson(countsPath)
  } catch {
    counts = { passed: 0, failed: 0, skipped: [], errors: 0 } // vitest itself did not get to its end
  }
  const failed = counts.failed + counts.errors
  return {
    ...counts,
    failed: code !== 0 && failed === 0 ? 1 : failed,
    seconds: (performance.now() - start) / 1000,
  }
}

/** One line a file and reason: the names alone would bury it where the evidence folder is absent. */
function printSkipped(skipped) {
  const groups = new Map()
  for (const { file, name, reason } of skipped) {
    const key = `${file}: ${reason}`
    groups.set(key, [...(groups.get(key) ?? []), name])
  }
  for (const [key, names] of groups) {
    print(`skipped ${names.length === 1 ? `"${names[0]}"` : `${names.length} tests`} of ${key}`)
  }
}

/** How many cases ran of the enumerations of which `npm test` runs a part (samples.mjs), and the files that cost most. */
function printSamples() {
  if (!existsSync(samplesPath)) return
  const places = new Map()
  const files = []
  for (const line of readFileSync(samplesPath, 'utf8').trimEnd().split('\n')) {
    const record = JSON.parse(line)
    if ('file' in record) {
      files.push(record)
      continue
    }
    const { place, ran, of } = record
    const sum = places.get(place) ?? { enumerations: 0, ran: 0, of: 0 }
    places.set(place, { enumerations: sum.enumerations + 1, ran: sum.ran + ran, of: sum.of + of })
  }
  for (const [place, { enumerations, ran, of }] of [...places].sort())
    print(`sampled ${place}: ${ran} of ${of} cases of ${enumerations} enumerations`)
  if (process.env.ODDFLOW_TESTS !== 'all') print('all of them: npm run slow:tests')
  files.sort((a, b) => b.processorSeconds - a.processorSeconds)
  for (const { file, processorSeconds } of files.slice(0, 20))
    print(`processor time ${processorSeconds.toFixed(1).padStart(6)} s ${file}`)
}

export async function runEverything(args) {
  const start = performance.now()
  let passed = 0
  let failed = 0
  let skipped = []
  const failures = []
  const stage = async (name) => {
    const result = await runStage(name)
    report(result)
    if (result.error === undefined) passed++
    else failures.push(result.error)
    return result.error === undefined
  }
  if ((await stage('install')) && (await stage('build'))) {
    const besideTests = async () => {
      for (const name of ['boundaries', 'checks', 'lint', 'unused', 'types']) await stage(name)
    }
    // of given paths, the tests alone
    const [tests] = await Promise.all([runTests(args), args.length > 0 ? null : besideTests()])
    passed += tests.passed
    failed += tests.failed
    skipped = tests.skipped
    print(`${tests.failed === 0 ? 'ok    ' : 'FAILED'} tests      ${tests.seconds.toFixed(1).padStart(6)} s`)
  }
  failed += failures.length
  // at the end, where the tests do not bury them
  for (const { output, message } of failures) print(`\n${output.trimEnd()}\n${message}\n`)
  printSamples()
  printSkipped(skipped)
  print(`all of it took ${((performance.now() - start) / 1000).toFixed(0)} s\n`)
  print(`${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}`)
  if (failed > 0) process.exitCode = 1
}
