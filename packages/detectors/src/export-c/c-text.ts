/** C text: tables of numbers, and the functions that headers of several models share. */
import { HIGHEST_SURPRISE, TAIL_SURPRISE } from '../calibration/held-out.js'
import { LOWEST_LOG_TAIL } from '../calibration/tail-probability.js'
import { FAR_SCALE } from '../embedding/landmarks.js'

// ---- tables

const BYTES = { double: 8, float: 4, int32_t: 4, uint16_t: 2 } as const

/** Numbers as C reads them: the shortest text of the same double. */
export function double(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value)
  return /[.e]/.test(text) ? text : `${text}.0`
}

/** With parentheses where a minus sign may precede. */
export const parenthesised = (value: number): string => (value < 0 ? `(${double(value)})` : double(value))

/** Collects tables and functions; \$ in C text stands for the header's prefix. */
export class CWriter {
  tableBytes = 0
  stackBytes = 0
  private readonly needed = new Set<HelperName>()
  private readonly parts: string[] = []

  constructor(private readonly name: string) {}

  table(name: string, type: keyof typeof BYTES, values: ArrayLike<number>): string {
    this.tableBytes += BYTES[type] * values.length
    const lines: string[] = []
    let line = ' '
    for (let i = 0; i < values.length; i++) {
      const text = type === 'double' || type === 'float' ? double(values[i]!) : String(values[i])
      const item = ` ${text}${type === 'float' ? 'f' : ''},`
      if (line.length + item.length > 116) {
        lines.push(line)
        line = ' '
      }
      line += item
    }
    lines.push(line)
    this.parts.push(`static const ${type} $${name}[${values.length}] = {\n${lines.join('\n')}\n};\n`)
    return `$${name}`
  }

  code(text: string): void {
    this.parts.push(text)
  }

  /** Writes $PREFIXscore_scaled(x), a finite number of the C text `result`. */
  scoreScaled(prefix: string, result: string, declarations = ''): void {
    this.need('finite')
    this.code(
      `static inline double $${prefix}score_scaled(const double *x) {\n${declarations}  return $finite(${result}, -DBL_MAX);\n}\n`,
    )
  }

  need(...names: readonly HelperName[]): void {
    for (const name of names) {
      if (this.needed.has(name)) continue
      for (const [, called] of HELPERS[name].matchAll(/\$(\w+)\(/g)) {
        if (called !== name) this.need(called as HelperName)
      }
      // its caller's four squares
      if (name === 'squares') this.stackBytes += 32
      this.needed.add(name)
    }
  }

  render(): string {
    const helpers = [...this.needed].map((name) => HELPERS[name])
    return [...helpers, ...this.parts].join('\n').replaceAll('$', () => `${this.name}_`)
  }
}

// ---- the C functions of all models, each after those that it calls

// texts that call a function are getters, so that a bundler can leave the table out
const HELPERS = {
  power: `/* 2^k, -1022 <= k <= 1023 */
static inline double $power(int k) {
  const uint64_t bits = (uint64_t)(k + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
`,
  exp: `/* fdlibm's method, rounded alike on every machine */
static inline double $exp(double x) {
  double k, high, low, r, t, c, y;
  if (!(x >= -745.1332191019411)) return x < -745.1332191019411 ? 0.0 : x;
  if (x > 709.782712893384) return INFINITY;
  k = floor(x * 1.4426950408889634 + 0.5);
  high = x - k * 0.6931471803691238;
  low = k * 1.9082149292705877e-10;
  r = high - low;
  t = r * r;
  c = r - t * (0.16666666666666602 + t * (-0.0027777777777015593 + t * (0.00006613756321437934
      + t * (-0.0000016533902205465252 + t * 4.1381367970572385e-8))));
  y = 1.0 - (low - (r * c) / (2.0 - c) - high);
  if (k < -1022.0) return y * $power((int)k + 54) * 5.551115123125783e-17;
  if (k > 1023.0) return y * 2.0 * $power(1023);
  return y * $power((int)k);
}
`,
  log: `/* fdlibm's method; x > 0 and finite, or 0 */
static inline double $log(double x) {
  uint64_t bits;
  uint32_t high, carry;
  double k, f, s, z, w, t1, t2, r, half;
  int exponent = 0;
  if (!(x > 0.0)) return -INFINITY;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0;
    exponent = -54;
  }
  memcpy(&bits, &x, sizeof bits);
  high = (uint32_t)(bits >> 32);
  exponent += (int)(high >> 20) - 1023;
  high &= 0x000fffffu;
  carry = (high + 0x95f64u) & 0x100000u;
  exponent += (int)(carry >> 20);
  bits = ((uint64_t)(high | (carry ^ 0x3ff00000u)) << 32) | (bits & 0xffffffffu);
  memcpy(&f, &bits, sizeof f);
  f -= 1.0;
  k = exponent;
  if (f == 0.0) return exponent == 0 ? 0.0 : k * 0.6931471803691238 + k * 1.9082149292705877e-10;
  s = f / (2.0 + f);
  z = s * s;
  w = z * z;
  t1 = w * (0.3999999999940942 + w * (0.22222198432149784 + w * 0.15313837699209373));
  t2 = z * (0.6666666666666735 + w * (0.2857142874366239 + w * (0.1818357216161805 + w * 0.14798198605116586)));
  r = t2 + t1;
  half = 0.5 * f * f;
  if (exponent == 0) return f - (half - s * (half + r));
  return k * 0.6931471803691238 - (half - (s * (half + r) + k * 1.9082149292705877e-10) - f);
}
`,
  signed_log: `static inline double $signed_log(double x) {
  const double size = x < 0.0 ? -x : x;
  const double u = 1.0 + size;
  const double value = u == 1.0 ? size : $log(u) * (size / (u - 1.0));
  return x < 0.0 ? -value : value;
}
`,
  quantile: `static inline double $quantile(double x, const double *knots, const double *positions, int count) {
  const int last = count - 1;
  const double range = last > 0 ? knots[last] - knots[0] : 1.0;
  int low = 0, high = last;
  if (!(x > knots[0])) return positions[0] + (x - knots[0]) / range;
  if (!(x < knots[last])) return positions[last] + (x - knots[last]) / range;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (knots[middle] <= x) low = middle;
    else high = middle;
  }
  return positions[low] + (positions[high] - positions[low]) * ((x - knots[low]) / (knots[high] - knots[low]));
}
`,
  squared_distance: `static inline double $squared_distance(const double *x, const double *y, int columns) {
  double sum = 0.0;
  int t;
  for (t = 0; t < columns; t++) {
    const double difference = x[t] - y[t];
    sum += difference * difference;
  }
  return sum;
}
`,
  squares: `/* to rows j, ..., j + 3 of y where j is a multiple of 4: four sums at once keep a processor busier than one */
static inline double $squares(const double *x, const double *y, int j, int count, int columns, double *squares) {
  const double *a = y + j * columns, *b, *c, *d;
  double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
  int t;
  if (j % 4 != 0) return squares[j % 4];
  if (count - j < 4) {
    for (t = 0; t < count - j; t++) squares[t] = $squared_distance(x, a + t * columns, columns);
    return squares[0];
  }
  b = a + columns;
  c = b + columns;
  d = c + columns;
  for (t = 0; t < columns; t++) {
    const double d0 = x[t] - a[t], d1 = x[t] - b[t], d2 = x[t] - c[t], d3 = x[t] - d[t];
    s0 += d0 * d0;
    s1 += d1 * d1;
    s2 += d2 * d2;
    s3 += d3 * d3;
  }
  squares[0] = s0;
  squares[1] = s1;
  squares[2] = s2;
  squares[3] = s3;
  return s0;
}
`,
  single: `static inline float $single(double value) {
  return value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : (float)value;
}
`,
  square32: `static inline float $square32(const float *x, const double *y, int columns) {
  float sum = 0.0f;
  int t;
  for (t = 0; t < columns; t++) {
    const float difference = x[t] - (float)y[t];
    sum += difference * difference;
  }
  return sum;
}
`,
  exp32: `static inline double $exp32(float square, float factor) {
  const float x = square * factor;
  float k, r, p;
  if (!(x >= -87.0f)) return 0.0;
  k = floorf(x * 1.44269504f + 0.5f);
  r = x - k * 0.693359375f;
  r = r - k * -0.00021219444f;
  p = 0.00019875691f * r + 0.0013981999f;
  p = p * r + 0.0083334519f;
  p = p * r + 0.041665796f;
  p = p * r + 0.16666665f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  return (double)p * $power((int)k);
}
`,
  log_sum_exp: `static inline double $log_sum_exp(const double *terms, int count) {
  double largest = -INFINITY, sum = 0.0;
  int j;
  for (j = 0; j < count; j++) {
    if (terms[j] > largest) largest = terms[j];
  }
  if (!(largest - largest == 0.0)) return largest;
  for (j = 0; j < count; j++) {
    const double exponent = terms[j] - largest;
    if (!(exponent < -60.0)) sum += $exp(exponent);
  }
  if (!(sum - sum == 0.0)) return sum;
  return largest + $log(sum);
}
`,
  project: `/* y = W(z - mean), W lower triangular without its zeros */
static inline void $project(const double *z, const double *mean, const double *w, double *y, int d) {
  int i, t;
  for (i = 0; i < d; i++) {
    double sum = 0.0;
    for (t = 0; t <= i; t++) sum += *w++ * (z[t] - mean[t]);
    y[i] = sum;
  }
}
`,
  finite: `static inline double $finite(double value, double otherwise) {
  if (value - value == 0.0) return value;
  return value > 0.0 ? DBL_MAX : value < 0.0 ? -DBL_MAX : otherwise;
}
`,
  get distance() {
    return `/* to the nearest of count landmarks */
static inline double $distance(const double *x, const double *landmarks, int count, int columns) {
  const double scale = ${double(FAR_SCALE)};
  double smallest = INFINITY, distance, squares[4];
  int j, t;
  for (j = 0; j < count; j++) {
    const double square = $squares(x, landmarks, j, count, columns, squares);
    if (square < smallest) smallest = square;
  }
  if (smallest < INFINITY) return sqrt(smallest);
  /* all squares overflow: of numbers times 2^-540 */
  for (j = 0; j < count; j++) {
    double sum = 0.0;
    for (t = 0; t < columns; t++) {
      const double difference = x[t] * scale - landmarks[j * columns + t] * scale;
      sum += difference * difference;
    }
    if (sum < smallest) smallest = sum;
  }
  distance = sqrt(smallest) / scale;
  return distance < DBL_MAX ? distance : DBL_MAX;
}
`
  },
  kernel_density: `/* log of the sum of exp(factor * square) over all centres; in two passes, so that no array is needed */
static inline double $kernel_density(const double *x, const double *centres, int count, int columns, double factor) {
  double largest = -INFINITY, sum = 0.0, squares[4];
  int j;
  for (j = 0; j < count; j++) {
    const double term = $squares(x, centres, j, count, columns, squares) * factor;
    if (term > largest) largest = term;
  }
  if (!(largest - largest == 0.0)) return largest;
  for (j = 0; j < count; j++) {
    const double exponent = $squares(x, centres, j, count, columns, squares) * factor - largest;
    if (!(exponent < -60.0)) sum += $exp(exponent);
  }
  return largest + $log(sum);
}
`,
  forest: `/* the sum of path lengths over all trees */
static inline double $forest(const double *x, const int32_t *starts, const int32_t *features,
    const double *thresholds, const int32_t *right_children, const double *path_lengths, int trees) {
  double sum = 0.0;
  int tree;
  for (tree = 0; tree < trees; tree++) {
    int32_t node = starts[tree];
    while (features[node] >= 0) {
      node = x[features[node]] <= thresholds[node] ? node + 1 : right_children[node];
    }
    sum += path_lengths[node];
  }
  return sum;
}
`,
  histograms: `static inline double $histograms(const double *x, const double *low, const double *high, const double *widths,
    const uint16_t *surprises, int columns, int bins) {
  uint32_t sum = 0;
  int j;
  for (j = 0; j < columns; j++, surprises += bins + 2) {
    double bin, last;
    if (x[j] < low[j]) {
      sum += surprises[0];
      continue;
    }
    bin = widths[j] > 0.0 ? floor((x[j] - low[j]) / widths[j]) : x[j] > low[j] ? bins : 0;
    last = x[j] <= high[j] ? bins - 1 : bins;
    sum += surprises[1 + (int)(bin < last ? bin : last)];
  }
  return sum / 2048.0;
}
`,
  index_of: `/* where in ascending numbers a number stands, or -1 */
static inline int $index_of(const double *sorted, int count, double value) {
  int low = 0, high = count - 1;
  while (low <= high) {
    const int middle = (low + high) / 2;
    if (sorted[middle] == value) return middle;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
`,
  get log_tail() {
    return `static inline double $log_tail(double asked, const double *values, const double *logs, int count,
    double slope, double upper_scale) {
  const double lowest = ${double(LOWEST_LOG_TAIL)};
  const double value = asked > lowest ? asked : lowest;
  const int last = count - 1;
  double tail;
  int low = 0, high = last;
  if (!(value >= values[0])) {
    tail = logs[0] - (values[0] - value) * slope;
    return tail > lowest ? tail : lowest;
  }
  if (value >= values[last]) return logs[last] / (1.0 + (value - values[last]) / upper_scale);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (values[middle] <= value) low = middle;
    else high = middle;
  }
  tail = logs[low] + (logs[high] - logs[low]) * ((value - values[low]) / (values[high] - values[low]));
  return tail < logs[high] ? tail : logs[high];
}
`
  },
  get surprise() {
    return `static inline double $surprise(double value, const double *values, const double *surprises, int count,
    double mean_excess, double body, double tail) {
  const int last = count - 1;
  double range, share;
  int low = 0, high = last;
  if (value > values[last]) {
    const double excess = (value - values[last]) / mean_excess;
    const double most = ${double(HIGHEST_SURPRISE - TAIL_SURPRISE)};
    return body * ${double(TAIL_SURPRISE)} + tail * (excess < most ? excess : most);
  }
  if (!(value > values[0])) return body * surprises[0];
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (values[middle] < value) low = middle;
    else high = middle;
  }
  range = values[high] - values[low];
  share = range < INFINITY ? (value - values[low]) / range
    : (value / 2.0 - values[low] / 2.0) / (values[high] / 2.0 - values[low] / 2.0);
  return body * (surprises[low] + (surprises[high] - surprises[low]) * (share < 1.0 ? share : 1.0));
}
`
  },
}

type HelperName = keyof typeof HELPERS
