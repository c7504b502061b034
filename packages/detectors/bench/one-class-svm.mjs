/**
 * Training and scoring a one-class SVM beside scikit-learn, on the authors' ctu rows: n = 5,000, D = 23,
 * ν = 0.5, h the 0.25-quantile of the pair distances, tolerance 1e-3.
 *
 *   node packages/detectors/bench/one-class-svm.mjs [folder of the paper's rows] [runs]
 *
 * Fits alternate: one here, one there, `runs` times (9). Wall and CPU time of both, medians and least; the
 * least CPU time is what a busy machine disturbs least. PYTHON names the interpreter (/usr/bin/python3);
 * without scikit-learn there, only this side is printed. The folder defaults to data/paper under
 * ODDFLOW_SHARED, or ../shared beside the checkout.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createRng } from '@oddflow/core'
import { pairDistanceQuantiles } from '@oddflow/linalg'
import { createOneClassSvmWorkspace, fitOneClassSvm, scoreOneClassSvm } from '../dist/one-class-svm/index.js'
import { readNpy } from './npy.mjs'

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const folder =
  process.argv[2] ?? join(process.env.ODDFLOW_SHARED ?? join(checkout, '../shared'), 'data/paper')
const runs = Number(process.argv[3] ?? 9)
const file = join(folder, 'ctu/X_train_r0.npy')
if (!existsSync(file)) {
  console.error(`no rows in ${folder}: give the folder that holds ctu/X_train_r0.npy`)
  process.exit(2)
}
const train = readNpy(file)
const bandwidth = pairDistanceQuantiles(train, [0.25], createRng(1)).quantiles[0]
const nu = 0.5

const PEER = `
import json, sys, time
try:
    import numpy, scipy, sklearn
    from sklearn.svm import OneClassSVM
except ImportError as error:
    print(json.dumps({"absent": str(error)}), flush=True); sys.exit()
x = numpy.load(sys.argv[1]).astype(float)
print(json.dumps({"versions": f"Python {sys.version.split()[0]}, scikit-learn {sklearn.__version__}, numpy {numpy.__version__}"}), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    model = OneClassSVM(kernel="rbf", gamma=ask["gamma"], nu=ask["nu"]).fit(x)
    fit = [1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)]
    wall, cpu = time.perf_counter(), time.process_time()
    for i in range(0, 2000, 100): model.decision_function(x[i:i + 100])
    score = [1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)]
    print(json.dumps({"fit": fit, "score": score, "rho": float(model.offset_[0]), "sv": len(model.support_), "iterations": int(model.n_iter_)}), flush=True)
`
const python = spawn(process.env.PYTHON ?? '/usr/bin/python3', ['-c', PEER, file], {
  stdio: ['pipe', 'pipe', 'inherit'],
  env: { ...process.env, OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' },
})
const lines = createInterface({ input: python.stdout })
const answer = async () => JSON.parse((await once(lines, 'line'))[0])
const hello = await Promise.race([
  answer(),
  once(python, 'error').then(([error]) => ({ absent: error.message })),
])

console.log(
  `${cpus()[0].model}, ${cpus().length} logical CPUs, load ${loadavg()[0].toFixed(1)}, Node ${process.version}, ${process.arch}; ${hello.versions ?? `no scikit-learn (${hello.absent})`}`,
)
console.log(
  `n=${train.rows} D=${train.cols} nu=${nu} h=${bandwidth.toFixed(2)}, one thread, ${runs} runs in turn`,
)

function timed(f) {
  const before = process.cpuUsage()
  const start = performance.now()
  const result = f()
  const wall = performance.now() - start
  const { user, system } = process.cpuUsage(before)
  return [result, [wall, (user + system) / 1000]]
}
const ours = { fit: [], score: [], single: [] }
const theirs = { fit: [], score: [] }
let model
let peer
const batch = { rows: 100, cols: train.cols, data: new Float64Array(100 * train.cols) }
const one = { rows: 1, cols: train.cols, data: new Float64Array(train.cols) }
const out = new Float64Array(100)
const scoreAll = (part, workspace) => {
  for (let i = 0; i < 2000; i += part.rows) {
    part.data.set(train.data.subarray(i * train.cols, (i + part.rows) * train.cols))
    scoreOneClassSvm(model, part, out, workspace)
  }
}
for (let run = 0; run <= runs; run++) {
  const [fitted, fit] = timed(() => fitOneClassSvm(train, { kernel: { kind: 'rbf', bandwidth }, nu }))
  model = fitted
  const workspace = createOneClassSvmWorkspace(model)
  const [, score] = timed(() => scoreAll(batch, workspace))
  const [, single] = timed(() => scoreAll(one, workspace))
  if (hello.absent === undefined) {
    python.stdin.write(`${JSON.stringify({ gamma: 1 / bandwidth ** 2, nu })}\n`)
    peer = await answer()
  }
  if (run === 0) continue // warm
  ours.fit.push(fit)
  ours.score.push(score)
  ours.single.push(single)
  if (peer !== undefined) {
    theirs.fit.push(peer.fit)
    theirs.score.push(peer.score)
  }
}
python.stdin.end()

const { report, offset } = model
console.log(
  `here          rho ${offset.toFixed(8)}, ${report.supportVectors} SV, ${report.iterations} iterations, ${report.kernelRows} kernel rows after the first gradient`,
)
if (peer) {
  console.log(`scikit-learn  rho ${peer.rho.toFixed(8)}, ${peer.sv} SV, ${peer.iterations} iterations`)
}
const figures = (values) => {
  const sorted = (k) => values.map((v) => v[k]).sort((a, b) => a - b)
  const middle = values.length >> 1
  return { wall: sorted(0)[middle], cpu: sorted(1)[middle], leastWall: sorted(0)[0], leastCpu: sorted(1)[0] }
}
function print(name, mine, other, scale, unit) {
  const show = (f) =>
    `wall ${(f.wall * scale).toFixed(1)} CPU ${(f.cpu * scale).toFixed(1)} (least ${(f.leastWall * scale).toFixed(1)}, ${(f.leastCpu * scale).toFixed(1)}) ${unit}`
  const a = figures(mine)
  console.log(`${name.padEnd(28)} here          ${show(a)}`)
  if (other === undefined || other.length === 0) return
  const b = figures(other)
  console.log(`${''.padEnd(28)} scikit-learn  ${show(b)}`)
  const ratio = (key) => (b[key] / a[key]).toFixed(2)
  console.log(
    `${''.padEnd(28)} times faster: wall ${ratio('wall')}, CPU ${ratio('cpu')}, least CPU ${ratio('leastCpu')}`,
  )
}
print('fit', ours.fit, theirs.fit, 1, 'ms')
print('score, 100 rows a call', ours.score, theirs.score, 0.5, 'µs a row')
print('score, 1 row a call', ours.single, undefined, 0.5, 'µs a row')
