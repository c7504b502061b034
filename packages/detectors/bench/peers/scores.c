/*
 * The scores of OC-KJL and of a one-class SVM in C: what the same arithmetic costs in native code.
 *
 *   gcc -O3 -march=native -DKERNEL=float -DSUM=double scores.c -o scores -lm
 *   ./scores MODEL ROWS        then one line "kjl|svm ROWS-A-CALL REPEATS" on standard input for each measurement
 *
 * KERNEL is the type of rows, distances and kernel values, SUM that of everything that is summed out of them. The
 * loops have the shape of the SIMD kernels of linalg (panels of Y, four rows of X at a time, passes) with constant
 * trip counts, which is what gcc needs to make vectors of them. The answer is one JSON line: nanoseconds of CPU time
 * a row, and the sum of the scores, by which the caller sees that the same was computed.
 *
 * MODEL is little-endian float64 throughout: D m d k h, landmarks (m x D), projection (d x m), log-normalisers (k),
 * means (k x d), lower triangles (k x d(d+1)/2), SV rho, support vectors (SV x D), coefficients. ROWS: n, rows (n x D).
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TILE 4
#define LANES ((int)(64 / sizeof(KERNEL)))
#define BLOCK 512
#define BATCH_ROWS 8
#define GROUP ((int)(32 / sizeof(SUM)))

typedef KERNEL K;
typedef SUM S;

static double *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) { perror(path); exit(1); }
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  double *data = malloc(bytes);
  if (fread(data, 1, bytes, file) != (size_t)bytes) exit(1);
  fclose(file);
  return data;
}

static void *aligned(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
  memset(p, 0, (bytes + 127) & ~(size_t)63);
  return p;
}

static K *pack(const double *rows, int n, int D) {
  int panels = (n + LANES - 1) / LANES;
  K *out = aligned(sizeof(K) * panels * LANES * D);
  for (int i = 0; i < n; i++)
    for (int t = 0; t < D; t++) out[((i / LANES) * D + t) * LANES + i % LANES] = (K)rows[i * D + t];
  return out;
}

/* rows x panels, each `stride` apart */
static void distances(const K *restrict x, int rows, const K *restrict y, int panels, int D, K *restrict out, int stride) {
  int r = 0;
  for (; r + TILE <= rows; r += TILE)
    for (int p = 0; p < panels; p++) {
      K sums[TILE][LANES] = {{0}};
      const K *restrict q = y + p * D * LANES;
      for (int t = 0; t < D; t++)
        for (int a = 0; a < TILE; a++) {
          const K v = x[(r + a) * D + t];
          for (int l = 0; l < LANES; l++) {
            const K e = v - q[t * LANES + l];
            sums[a][l] += e * e;
          }
        }
      for (int a = 0; a < TILE; a++) memcpy(out + (r + a) * stride + p * LANES, sums[a], sizeof sums[a]);
    }
  for (; r < rows; r++)
    for (int p = 0; p < panels; p++) {
      K sums[LANES] = {0};
      const K *restrict q = y + p * D * LANES;
      for (int t = 0; t < D; t++) {
        const K v = x[r * D + t];
        for (int l = 0; l < LANES; l++) {
          const K e = v - q[t * LANES + l];
          sums[l] += e * e;
        }
      }
      memcpy(out + r * stride + p * LANES, sums, sizeof sums);
    }
}

static void exp_double(double *restrict values, int count, double factor) {
  for (int i = 0; i < count; i++) {
    const double x = values[i] * factor;
    const double k = floor(x * 1.4426950408889634 + 0.5);
    const double high = x - k * 0.6931471803691238, low = k * 1.9082149292705877e-10, r = high - low, t = r * r;
    const double c = r - t * (0.16666666666666602 + t * (-0.0027777777777015593 + t * (0.00006613756321437934 +
                     t * (-0.0000016533902205465252 + t * 4.1381367970572385e-8))));
    const double y = 1 - (low - (r * c) / (2 - c) - high);
    const double lift = k < -1022 ? 54 : 0, drop = k < -1022 ? 5.551115123125783e-17 : 1;
    union { double d; uint64_t u; } power = {.d = k + lift + 4503599627371519.0};
    power.u <<= 52;
    values[i] = x < -745.1332191019411 ? 0 : y * power.d * drop;
  }
}

static void exp_float(float *restrict values, int count, float factor) {
  for (int i = 0; i < count; i++) {
    const float x = values[i] * factor;
    const float k = floorf(x * 1.44269504f + 0.5f);
    const float r = x - k * 0.693359375f - k * -0.00021219444f;
    float p = 0.00019875691f * r + 0.0013981999f;
    p = p * r + 0.0083334519f;
    p = p * r + 0.041665796f;
    p = p * r + 0.16666665f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1;
    union { float f; uint32_t u; } power = {.f = k + 8388735.0f};
    power.u <<= 23;
    values[i] = x >= -87 ? p * power.f : 0;
  }
}

#define EXP(values, count, factor) \
  _Generic((values), float *: exp_float, double *: exp_double)((void *)(values), count, factor)

static int D, m, d, k, SV;
static double rho;
static K factor;
static K *landmarks, *vectors;
static S *projection, *normalisers, *means, *factors, *alpha;
static int groups, width, triangle;
static K *kernel;
static S *z, *terms;

static void project(int rows, int stride) {
  for (int r = 0; r < rows; r++) {
    S sums[64] = {0};
    for (int j = 0; j < m; j++) {
      const S v = kernel[r * stride + j];
      for (int i = 0; i < width; i++) sums[i] += v * projection[j * width + i];
    }
    memcpy(z + r * width, sums, sizeof(S) * width);
  }
}

static void score_kjl(const K *x, int rows, double *out) {
  const int panels = (m + LANES - 1) / LANES, stride = panels * LANES;
  distances(x, rows, landmarks, panels, D, kernel, stride);
  EXP(kernel, rows * stride, factor);
  project(rows, stride);
  for (int r = 0; r < rows; r++) {
    S *restrict row = terms + r * groups * GROUP;
    for (int g = 0; g < groups; g++) {
      S differences[16][GROUP], q[GROUP] = {0};
      for (int i = 0; i < d; i++)
        for (int l = 0; l < GROUP; l++) differences[i][l] = z[r * width + i] - means[(g * d + i) * GROUP + l];
      const S *restrict f = factors + g * triangle * GROUP;
      for (int i = 0; i < d; i++) {
        S y[GROUP] = {0};
        for (int t = 0; t <= i; t++, f += GROUP)
          for (int l = 0; l < GROUP; l++) y[l] += f[l] * differences[t][l];
        for (int l = 0; l < GROUP; l++) q[l] += y[l] * y[l];
      }
      for (int l = 0; l < GROUP; l++) row[g * GROUP + l] = normalisers[g * GROUP + l] - (S)0.5 * q[l];
    }
    S largest = row[0];
    for (int j = 1; j < groups * GROUP; j++) largest = row[j] > largest ? row[j] : largest;
    for (int j = 0; j < groups * GROUP; j++) row[j] -= largest;
    out[r] = largest;
  }
  EXP(terms, rows * groups * GROUP, 1);
  for (int r = 0; r < rows; r++) {
    S sum = 0;
    for (int j = 0; j < k; j++) sum += terms[r * groups * GROUP + j];
    out[r] += log(sum);
  }
}

static void score_svm(const K *x, int rows, double *out) {
  const int panels = (SV + LANES - 1) / LANES, padded = panels * LANES;
  S sums[TILE][16] = {{0}};
  for (int first = 0; first < padded; first += BLOCK) {
    const int count = padded - first < BLOCK ? padded - first : BLOCK;
    distances(x, rows, vectors + first * D, count / LANES, D, kernel, count);
    EXP(kernel, rows * count, factor);
    for (int r = 0; r < rows; r++)
      for (int j = 0; j < count; j += 8)
        for (int l = 0; l < 8; l++) sums[r][l] += (S)kernel[r * count + j + l] * alpha[first + j + l];
  }
  for (int r = 0; r < rows; r++) {
    S sum = 0;
    for (int l = 0; l < 8; l++) sum += sums[r][l];
    out[r] = sum - rho;
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const double *p = read_file(argv[1]), *given = read_file(argv[2]);
  D = *p++; m = *p++; d = *p++; k = *p++;
  const double h = *p++;
  factor = -1 / (h * h);
  landmarks = pack(p, m, D); p += m * D;
  width = (d + 1) & ~1;
  projection = aligned(sizeof(S) * m * width);
  for (int i = 0; i < d; i++) for (int j = 0; j < m; j++) projection[j * width + i] = p[i * m + j];
  p += d * m;
  groups = (k + GROUP - 1) / GROUP;
  triangle = d * (d + 1) / 2;
  normalisers = aligned(sizeof(S) * groups * GROUP);
  for (int j = 0; j < groups * GROUP; j++) normalisers[j] = j < k ? p[j] : -INFINITY;
  p += k;
  means = aligned(sizeof(S) * groups * GROUP * d);
  for (int j = 0; j < k; j++) for (int i = 0; i < d; i++) means[((j / GROUP) * d + i) * GROUP + j % GROUP] = p[j * d + i];
  p += k * d;
  factors = aligned(sizeof(S) * groups * GROUP * triangle);
  for (int j = 0; j < k; j++)
    for (int i = 0; i < triangle; i++) factors[((j / GROUP) * triangle + i) * GROUP + j % GROUP] = p[j * triangle + i];
  p += k * triangle;
  SV = *p++; rho = *p++;
  vectors = pack(p, SV, D); p += SV * D;
  alpha = aligned(sizeof(S) * (SV + LANES));
  for (int i = 0; i < SV; i++) alpha[i] = p[i];
  kernel = aligned(sizeof(K) * BATCH_ROWS * (BLOCK > m + LANES ? BLOCK : m + LANES));
  z = aligned(sizeof(S) * BATCH_ROWS * width);
  terms = aligned(sizeof(S) * BATCH_ROWS * groups * GROUP);

  const int n = *given++;
  K *rows = aligned(sizeof(K) * n * D);
  for (int i = 0; i < n * D; i++) rows[i] = given[i];
  double *out = malloc(sizeof(double) * n);
  char name[8];
  int batch, repeats;
  while (scanf("%7s %d %d", name, &batch, &repeats) == 3) {
    const int isSvm = strcmp(name, "svm") == 0, tile = batch < (isSvm ? TILE : BATCH_ROWS) ? batch : isSvm ? TILE : BATCH_ROWS;
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int q = 0; q < repeats; q++)
      for (int i = 0; i < n; i += tile) {
        const int count = n - i < tile ? n - i : tile;
        if (isSvm) score_svm(rows + i * D, count, out + i); else score_kjl(rows + i * D, count, out + i);
      }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += out[i];
    printf("{\"nanos\": %.3f, \"sum\": %.17g}\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / ((double)n * repeats), sum);
    fflush(stdout);
  }
  return 0;
}
