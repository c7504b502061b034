/**
 * The speed table: scoring and training beside numpy, scikit-learn and C, on the paper authors' ctu rows.
 *
 *   npm run -s bench:speed -- [FOLDER] [--only-c]     (FOLDER defaults to ODDFLOW_SHARED, or ../shared)
 *
 * n = 5,000 training rows, D = 23, m = 100, d = 5, k = 20, h the 0.3-quantile of pair distances, ν = 0.5 (2,500
 * support vectors). All sides score the same models over the same 1,000 rows, one thread each, and take turns: nine
 * rounds, medians, CPU time, which a busy machine disturbs least. numpy and scikit-learn run in one Python process
 * with one thread (PYTHON names it, default /usr/bin/python3), C is compiled by `gcc -O3 -march=native` where there
 * is a gcc; a side that is absent is said to be. Sums of scores are compared, so that nobody is fast at something
 * else. Prints Markdown; with --only-c the second table alone, which takes a minute.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createRng, encodeNpy } from '@oddflow/core'
import { checkParameters, createScoreWorkspace, fitDetector, scoreSamples } from '../dist/index.js'
import { createOneClassSvmWorkspace, fitOneClassSvm, scoreOneClassSvm } from '../dist/one-class-svm/index.js'
import { packMixture } from '../dist/packed-mixture.js'
import { readNpy } from './npy.mjs'

const ROUNDS = 9
const SCORED = 1000
const here = dirname(fileURLToPath(import.meta.url))
const onlyC = process.argv.includes('--only-c')
const shared =
  process.argv.slice(2).find((argument) => !argument.startsWith('--')) ??
  process.env.ODDFLOW_SHARED ??
  resolve(here, '../../../../shared')
const rowsFile = join(shared, 'data/paper/ctu/X_train_r0.npy')
if (!existsSync(rowsFile)) {
  console.error(`no rows in ${shared}: give the folder that holds data/paper/ctu`)
  process.exit(2)
}
const train = readNpy(rowsFile)
const rows = { rows: SCORED, cols: train.cols, data: train.data.slice(0, SCORED * train.cols) }

/** The models of this side. */
const kjlOptions = { detector: 'oc-kjl', k: 20, supportGuard: false }
const learn = (options) => fitDetector(train, checkParameters(options), createRng(1))
const kjl = { f64: learn(kjlOptions), f32: learn({ ...kjlOptions, precision: 'f32' }) }
const guarded = {
  f64: learn({ ...kjlOptions, supportGuard: true }),
  f32: learn({ ...kjlOptions, supportGuard: true, precision: 'f32' }),
}
const { embedding, mixture } = kjl.f64
const { bandwidth } = embedding
const svm = fitOneClassSvm(train, { kernel: { kind: 'rbf', bandwidth }, nu: 0.5 })
const svm32 = {
  ...svm,
  supportVectors: { ...svm.supportVectors, data: svm.supportVectors.data.map(Math.fround) },
}

/** What the other sides read. */
const folder = mkdtempSync(join(tmpdir(), 'oddflow-speed-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
writeForPython()
writeForC()

function writeForPython() {
  const column = (data) => ({ rows: data.length, cols: 1, data })
  const arrays = {
    landmarks: embedding.landmarks,
    projection: embedding.projection,
    weights: column(mixture.weights),
    means: mixture.means,
    factors: column(mixture.precisionCholesky),
    vectors: svm.supportVectors,
    alpha: column(svm.dualCoefficients),
  }
  for (const [name, value] of Object.entries({ ...arrays, rows, train })) {
    writeFileSync(join(folder, `${name}.npy`), encodeNpy(value))
  }
  const head = { arrays: Object.keys(arrays), bandwidth, offset: svm.offset }
  writeFileSync(join(folder, 'model.json'), JSON.stringify(head))
}

function writeForC() {
  const { rows: m, cols } = embedding.landmarks
  const { k, d, logNormalisers } = packMixture(mixture)
  const triangles = []
  for (let j = 0; j < k; j++) {
    for (let i = 0; i < d; i++) {
      for (let t = 0; t <= i; t++) triangles.push(mixture.precisionCholesky[(j * d + i) * d + t])
    }
  }
  const numbers = [cols, m, d, k, bandwidth, ...embedding.landmarks.data, ...embedding.projection.data]
  numbers.push(...logNormalisers, ...mixture.means.data, ...triangles)
  numbers.push(svm.supportVectors.rows, svm.offset, ...svm.supportVectors.data, ...svm.dualCoefficients)
  writeFileSync(join(folder, 'model.bin'), Float64Array.from(numbers))
  writeFileSync(join(folder, 'rows.bin'), Float64Array.of(SCORED, ...rows.data))
}

/** A process that answers one JSON line to each line it is given. */
function startPeer(command, args, env = {}) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } })
  const waiting = []
  const lines = []
  const endAll = () => {
    for (const done of waiting) done(null)
  }
  const give = (line) => (waiting.length > 0 ? waiting.shift()(line) : lines.push(line))
  createInterface({ input: child.stdout }).on('line', give).on('close', endAll)
  child.on('error', endAll)
  const answer = async () => {
    const line = lines.shift() ?? (await new Promise((done) => waiting.push(done)))
    return line === null ? null : JSON.parse(line)
  }
  return {
    answer,
    ask(question) {
      child.stdin.write(`${question}\n`)
      return answer()
    },
    end: () => child.stdin.end(),
  }
}

const python = startPeer(
  process.env.PYTHON ?? '/usr/bin/python3',
  [join(here, 'peers/scores.py'), folder, join(shared, 'reference')],
  { OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1', PYTHONDONTWRITEBYTECODE: '1' },
)
const pythonVersions = onlyC ? undefined : (await python.answer())?.versions

const SUMS_F64 = { f64: ['-DKERNEL=double', '-DSUM=double'], f32: ['-DKERNEL=float', '-DSUM=double'] }
const SAME_BITS = '-ffp-contract=off'
/** Each in f64 and f32, but for the last. */
const C_KINDS = {
  'C 32': ['-DVECTOR=32', SAME_BITS],
  'C 16': ['-DVECTOR=16', SAME_BITS],
  'C loops': ['-DVECTOR=0', SAME_BITS],
  'C FMA': ['-DVECTOR=32'],
}
const C_BUILDS = Object.entries(C_KINDS).flatMap(([kind, flags]) =>
  Object.entries(SUMS_F64).map(([precision, types]) => [`${kind} ${precision}`, [...flags, ...types]]),
)
C_BUILDS.push(['C all float32', ['-DVECTOR=32', SAME_BITS, '-DKERNEL=float', '-DSUM=float']])
let gcc
const c = {}
try {
  gcc = execFileSync('gcc', ['--version'], { encoding: 'utf8' }).split('\n')[0]
  for (const [name, flags] of C_BUILDS) {
    const binary = join(folder, name.replaceAll(' ', '-'))
    execFileSync('gcc', ['-O3', '-march=native', ...flags, join(here, 'peers/scores.c'), '-o', binary, '-lm'])
    c[name] = startPeer(binary, [join(folder, 'model.bin'), join(folder, 'rows.bin')])
  }
} catch (error) {
  if (error.code !== 'ENOENT') throw error
}

/** Nanoseconds of CPU time a row of `score(part, out)` over all rows, `batch` at a time, and the sum of scores. */
function timeScores(score, batch, repeats = 1) {
  const parts = []
  for (let i = 0; i < SCORED; i += batch) {
    parts.push({
      rows: batch,
      cols: rows.cols,
      data: rows.data.slice(i * rows.cols, (i + batch) * rows.cols),
    })
  }
  const out = new Float64Array(batch)
  let sum = 0
  const seconds = cpuSeconds(() => {
    for (let r = 0; r < repeats; r++) {
      sum = 0
      for (const part of parts) {
        score(part, out)
        for (let i = 0; i < batch; i++) sum += out[i]
      }
    }
  })
  return { nanos: (1e9 * seconds) / (SCORED * repeats), sum }
}

function cpuSeconds(run) {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}

/** name → { nanos | seconds, … } of each round. */
const measured = new Map()
const note = (name, answer) => {
  if (answer === null) return
  if (!measured.has(name)) measured.set(name, [])
  measured.get(name).push(answer)
}

const scorer = (model, simd) => {
  const workspace = createScoreWorkspace(model, { simd })
  return (part, out) => scoreSamples(model, part, out, workspace)
}
const svmScorer = (model, options) => {
  const workspace = createOneClassSvmWorkspace(model, options)
  return (part, out) => scoreOneClassSvm(model, part, out, workspace)
}
const ours = {
  'kjl f64': [scorer(kjl.f64, true), 20],
  'kjl f32': [scorer(kjl.f32, true), 20],
  'kjl f64 typed arrays': [scorer(kjl.f64, false), 5],
  'guarded kjl f64': [scorer(guarded.f64, true), 20],
  'guarded kjl f32': [scorer(guarded.f32, true), 20],
  'svm f64': [svmScorer(svm, {}), 2],
  'svm f32': [svmScorer(svm32, { precision: 'f32' }), 2],
  'svm f64 typed arrays': [svmScorer(svm, { simd: false }), 1],
}
const loadBefore = loadavg()[0]
for (let round = 0; round <= ROUNDS; round++) {
  process.stderr.write(`\rround ${round} of ${ROUNDS} `)
  if (round === 1) measured.clear() // the first one warms up
  for (const batch of [100, 1]) {
    const name = (text) => `${text}, ${batch}`
    for (const [what, [score, repeats]] of Object.entries(ours)) {
      if (onlyC && !/^(kjl|svm) f\d\d$/.test(what)) continue
      note(name(what), timeScores(score, batch, repeats))
    }
    for (const [kind, peer] of Object.entries(c)) {
      note(name(`kjl ${kind}`), await peer.ask(`kjl ${batch} 20`))
      note(name(`svm ${kind}`), await peer.ask(`svm ${batch} 2`))
    }
    if (pythonVersions === undefined) continue
    const count = batch === 1 ? 100 : SCORED
    note(name('kjl numpy'), await python.ask(JSON.stringify({ what: 'kjl', batch, count })))
    note(name('svm numpy'), await python.ask(JSON.stringify({ what: 'svm', batch, count })))
  }
  if (onlyC) continue
  note('OC-KJL-QS fit', { seconds: cpuSeconds(() => learn({ detector: 'oc-kjl-qs' })) })
  note('OCSVM fit', {
    seconds: cpuSeconds(() => fitOneClassSvm(train, { kernel: { kind: 'rbf', bandwidth }, nu: 0.5 })),
  })
  if (pythonVersions === undefined) continue
  note('OneClassSVM.fit', await python.ask(JSON.stringify({ what: 'fit' })))
  note(
    'svm scikit-learn, 100',
    await python.ask(JSON.stringify({ what: 'sklearn-svm', batch: 100, count: 300 })),
  )
}
process.stderr.write('\r                  \r')
for (const peer of [python, ...Object.values(c)]) peer.end()

const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1]
const median = (name) => {
  const answers = measured.get(name)
  return answers === undefined ? undefined : middle(answers.map(({ nanos, seconds }) => nanos ?? seconds))
}
const sumOf = (name) => measured.get(name)?.[0].sum

for (const [mine, theirs, tolerance] of [
  ['kjl f64, 100', 'kjl numpy, 100', 1e-6],
  ['kjl f64, 100', 'kjl C 32 f64, 100', 1e-9],
  ['kjl f64, 100', 'kjl C 16 f64, 100', 1e-9],
  ['kjl f64, 100', 'kjl C loops f64, 100', 1e-9],
  ['kjl f64, 100', 'kjl f32, 100', 1e-3],
  ['kjl f32, 100', 'kjl C 32 f32, 100', 1e-9],
  ['kjl f32, 100', 'kjl C 16 f32, 100', 1e-9],
  ['kjl f32, 100', 'kjl C loops f32, 100', 1e-3],
  ['svm f64, 100', 'svm numpy, 100', 1e-6],
  ['svm f64, 100', 'svm C 32 f64, 100', 1e-9],
  ['svm f64, 100', 'svm C loops f64, 100', 1e-9],
  ['svm f64, 100', 'svm f32, 100', 1e-3],
]) {
  const [a, b] = [sumOf(mine), sumOf(theirs)]
  if (a !== undefined && b !== undefined && !(Math.abs(a - b) <= tolerance * Math.abs(a))) {
    throw new Error(`${mine} and ${theirs} did not compute the same: sums ${a} and ${b}`)
  }
}

const nanos = (name) => {
  const value = median(name)
  return value === undefined
    ? 'absent'
    : value < 10_000
      ? `${value.toFixed(0)} ns`
      : `${(value / 1000).toFixed(1)} µs`
}
const seconds = (name) => {
  const value = median(name)
  return value === undefined ? 'absent' : `${(1000 * value).toFixed(0)} ms`
}
const ratio = (theirs, mine) => {
  const [a, b] = [median(theirs), median(mine)]
  return a === undefined || b === undefined ? 'absent' : `${(a / b).toFixed(2)}×`
}
const print = (...cells) => console.log(`| ${cells.join(' | ')} |`)

console.log(
  `${cpus()[0].model}, ${cpus().length} logical CPUs, Node ${process.version} (V8 ${process.versions.v8}), ${process.arch}; ${pythonVersions ?? 'no scikit-learn'}; ${gcc ?? 'no gcc'}; one thread a side; load average ${loadBefore.toFixed(1)} before, ${loadavg()[0].toFixed(1)} after.`,
)
console.log(
  `n = ${train.rows}, D = ${train.cols}, m = ${embedding.landmarks.rows}, d = ${embedding.projection.rows}, k = ${mixture.weights.length}, ${svm.supportVectors.rows} support vectors; CPU time, medians of ${ROUNDS} rounds in turn.\n`,
)
if (!onlyC) printPeers()

function printPeers() {
  print('what', 'OddFlow f64', 'f32', 'beside it', 'times faster: f64', 'f32', 'asked')
  print('---', '--:', '--:', '--:', '--:', '--:', '--:')
  const score = (title, what, batch, peer, asked) => {
    const [a, b, other] = [`${what} f64, ${batch}`, `${what} f32, ${batch}`, `${peer}, ${batch}`]
    print(
      title,
      nanos(a),
      nanos(b),
      `${nanos(other)} (${peer.split(' ').slice(1).join(' ')})`,
      ratio(other, a),
      ratio(other, b),
      asked,
    )
  }
  score('OC-KJL score, batches of 100', 'kjl', 100, 'kjl numpy', '2×')
  score('OC-KJL score, one flow a call', 'kjl', 1, 'kjl numpy', '100×')
  score('OCSVM score, batches of 100', 'svm', 100, 'svm numpy', '2×')
  score('OCSVM score, batches of 100', 'svm', 100, 'svm scikit-learn', '')
  score('OCSVM score, one flow a call', 'svm', 1, 'svm numpy', '')
  score('OC-KJL against our typed arrays, batches of 100', 'kjl', 100, 'kjl f64 typed arrays', '1.5×')
  score('OC-KJL against our typed arrays, one flow a call', 'kjl', 1, 'kjl f64 typed arrays', '1.5×')
  score('OCSVM against our typed arrays, batches of 100', 'svm', 100, 'svm f64 typed arrays', '1.5×')
  print(
    'OC-KJL with the support guard, batches of 100',
    nanos('guarded kjl f64, 100'),
    nanos('guarded kjl f32, 100'),
    '',
    '',
    '',
    '',
  )
  print(
    'OC-KJL with the support guard, one flow a call',
    nanos('guarded kjl f64, 1'),
    nanos('guarded kjl f32, 1'),
    '',
    '',
    '',
    '',
  )
  for (const [batch, asked] of [
    [100, '15×'],
    [1, '8×'],
  ]) {
    const title = `OC-KJL against our own OCSVM, ${batch === 1 ? 'one flow a call' : 'batches of 100'}`
    const [a, b] = ['f64', 'f32'].map((p) => ratio(`svm ${p}, ${batch}`, `kjl ${p}, ${batch}`))
    print(
      title,
      nanos(`kjl f64, ${batch}`),
      nanos(`kjl f32, ${batch}`),
      `${nanos(`svm f64, ${batch}`)}, ${nanos(`svm f32, ${batch}`)}`,
      a,
      b,
      asked,
    )
  }
  print(
    'OC-KJL-QS training',
    seconds('OC-KJL-QS fit'),
    '',
    `${seconds('OneClassSVM.fit')} (OneClassSVM.fit)`,
    ratio('OneClassSVM.fit', 'OC-KJL-QS fit'),
    '',
    '1.5×',
  )
  print(
    'OCSVM training',
    seconds('OCSVM fit'),
    '',
    `${seconds('OneClassSVM.fit')} (OneClassSVM.fit)`,
    ratio('OneClassSVM.fit', 'OCSVM fit'),
    '',
    '1×',
  )
}

console.log('\nOur time as a multiple of that of C with the same arithmetic:\n')
print(
  'what',
  'ours',
  'C, 32-byte vectors',
  'multiple',
  'C, 16-byte vectors',
  'multiple',
  'width',
  'plain C',
  'multiple',
  'C, 32 bytes and FMA',
  'multiple',
  'C, all float32',
  'multiple',
)
print('---', ...Array(12).fill('--:'))
for (const [title, what] of [
  ['OC-KJL', 'kjl'],
  ['OCSVM', 'svm'],
]) {
  for (const precision of ['f64', 'f32']) {
    for (const batch of [100, 1]) {
      const mine = `${what} ${precision}, ${batch}`
      const peer = (kind) => `${what} ${kind} ${precision}, ${batch}`
      const plain = (text) => text.replace('×', '')
      const cells = (name) => [nanos(name), plain(ratio(mine, name))]
      print(
        `${title} ${precision}, ${batch === 1 ? 'one flow a call' : 'batches of 100'}`,
        nanos(mine),
        ...cells(peer('C 32')),
        ...cells(peer('C 16')),
        plain(ratio(peer('C 16'), peer('C 32'))),
        ...cells(peer('C loops')),
        ...cells(peer('C FMA')),
        ...(precision === 'f32' ? cells(`${what} C all float32, ${batch}`) : ['', '']),
      )
    }
  }
}
