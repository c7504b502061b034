/*
 * The scores of OC-KJL and of a one-class SVM in C: what the same arithmetic costs in native code.
 *
 *   gcc -O3 -march=native -ffp-contract=off -DKERNEL=float -DSUM=double -DVECTOR=32 scores.c -o scores -lm
 *   ./scores MODEL ROWS        then one line "kjl|svm ROWS-A-CALL REPEATS" on standard input for each measurement
 *
 * KERNEL is the type of rows, distances and kernel values, SUM that of everything that is summed out of them. VECTOR
 * is 16 or 32, the bytes of gcc's vectors, in which the loops have the shape of the SIMD kernels of linalg (panels of
 * Y, four rows of X at a time, passes); without contraction into fused multiply-adds the arithmetic is theirs,
 * operation by operation. VECTOR=0 is C as one writes it down: a loop over rows, one over landmarks, one over columns,
 * libm's exp, and what the compiler makes of that. The answer is one JSON line: nanoseconds of CPU time a row, and the
 * sum of the scores, by which the caller sees that the same was computed.
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
#define BLOCK 512
#define BATCH_ROWS 8
#define LOWEST_EXPONENT -60
#if VECTOR
#define LANES ((int)(2 * VECTOR / sizeof(KERNEL)))
#define GROUP ((int)(VECTOR / sizeof(SUM)))
#else
#define LANES 1
#define GROUP 1
#endif

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

static int D, m, d, k, SV;
static double rho;
static K factor;
static K *landmarks, *vectors;
static S *projection, *normalisers, *means, *factors, *alpha;
static int groups, width, triangle;
static K *kernel;
static S *z, *terms;

#if VECTOR
typedef K VK __attribute__((vector_size(VECTOR)));
typedef S VS __attribute__((vector_size(VECTOR)));

/* rows x panels, each `stride` apart; two vectors a panel, four rows at a time */
static void distances(const K *restrict x, int rows, const K *restrict y, int panels, int D, K *restrict out, int stride) {
  int r = 0;
  for (; r + TILE <= rows; r += TILE)
    for (int p = 0; p < panels; p++) {
      const VK *restrict q = (const VK *)(y + p * D * LANES);
      const K *restrict x0 = x + r * D, *x1 = x0 + D, *x2 = x1 + D, *x3 = x2 + D;
      VK a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, e0 = {0}, e1 = {0};
      for (int t = 0; t < D; t++) {
        const VK u = q[2 * t], w = q[2 * t + 1];
        VK v = x0[t] - u; a0 += v * v;
        v = x0[t] - w; a1 += v * v;
        v = x1[t] - u; b0 += v * v;
        v = x1[t] - w; b1 += v * v;
        v = x2[t] - u; c0 += v * v;
        v = x2[t] - w; c1 += v * v;
        v = x3[t] - u; e0 += v * v;
        v = x3[t] - w; e1 += v * v;
      }
      VK *o = (VK *)(out + r * stride + p * LANES);
      o[0] = a0; o[1] = a1;
      o = (VK *)(out + (r + 1) * stride + p * LANES);
      o[0] = b0; o[1] = b1;
      o = (VK *)(out + (r + 2) * stride + p * LANES);
      o[0] = c0; o[1] = c1;
      o = (VK *)(out + (r + 3) * stride + p * LANES);
      o[0] = e0; o[1] = e1;
    }
  for (; r < rows; r++) {
    const K *restrict x0 = x + r * D;
    int p = 0;
    for (; p + 2 <= panels; p += 2) {
      const VK *restrict q = (const VK *)(y + p * D * LANES), *s = q + 2 * D;
      VK a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0};
      for (int t = 0; t < D; t++) {
        VK v = x0[t] - q[2 * t]; a0 += v * v;
        v = x0[t] - q[2 * t + 1]; a1 += v * v;
        v = x0[t] - s[2 * t]; b0 += v * v;
        v = x0[t] - s[2 * t + 1]; b1 += v * v;
      }
      VK *o = (VK *)(out + r * stride + p * LANES);
      o[0] = a0; o[1] = a1; o[2] = b0; o[3] = b1;
    }
    for (; p < panels; p++) {
      const VK *restrict q = (const VK *)(y + p * D * LANES);
      VK a0 = {0}, a1 = {0};
      for (int t = 0; t < D; t++) {
        VK v = x0[t] - q[2 * t]; a0 += v * v;
        v = x0[t] - q[2 * t + 1]; a1 += v * v;
      }
      VK *o = (VK *)(out + r * stride + p * LANES);
      o[0] = a0; o[1] = a1;
    }
  }
}

/* gcc makes no vectors of floor() and of selections unless traps may be ignored, so these are written as vectors */
typedef double VD __attribute__((vector_size(VECTOR)));
typedef float VF __attribute__((vector_size(VECTOR)));
typedef int64_t ID __attribute__((vector_size(VECTOR)));
typedef int32_t IF __attribute__((vector_size(VECTOR)));

#if VECTOR == 32 && defined(__AVX__)
#include <immintrin.h>
#define FLOOR_DOUBLE(v) ((VD)_mm256_floor_pd((__m256d)(v)))
#define FLOOR_FLOAT(v) ((VF)_mm256_floor_ps((__m256)(v)))
#elif VECTOR == 16 && defined(__SSE4_1__)
#include <immintrin.h>
#define FLOOR_DOUBLE(v) ((VD)_mm_floor_pd((__m128d)(v)))
#define FLOOR_FLOAT(v) ((VF)_mm_floor_ps((__m128)(v)))
#else
static VD FLOOR_DOUBLE(VD v) { for (int l = 0; l < VECTOR / 8; l++) v[l] = floor(v[l]); return v; }
static VF FLOOR_FLOAT(VF v) { for (int l = 0; l < VECTOR / 4; l++) v[l] = floorf(v[l]); return v; }
#endif

static void exp_double(double *restrict values, int count, double factor) {
  for (int i = 0; i < count; i += VECTOR / 8) {
    const VD x = *(VD *)(values + i) * factor;
    const VD k = FLOOR_DOUBLE(x * 1.4426950408889634 + 0.5);
    const VD high = x - k * 0.6931471803691238, low = k * 1.9082149292705877e-10, r = high - low, t = r * r;
    const VD c = r - t * (0.16666666666666602 + t * (-0.0027777777777015593 + t * (0.00006613756321437934 +
                 t * (-0.0000016533902205465252 + t * 4.1381367970572385e-8))));
    const VD y = 1 - (low - (r * c) / (2 - c) - high);
    const ID tiny = k < -1022;
    const VD lift = (VD)(tiny & (ID)((VD){} + 54));
    const VD drop = (VD)((tiny & (ID)((VD){} + 5.551115123125783e-17)) | (~tiny & (ID)((VD){} + 1)));
    const VD power = (VD)((ID)(k + lift + 4503599627371519.0) << 52);
    *(VD *)(values + i) = (VD)((ID)(y * power * drop) & ~(x < -745.1332191019411));
  }
}

static void exp_float(float *restrict values, int count, float factor) {
  for (int i = 0; i < count; i += VECTOR / 4) {
    const VF x = *(VF *)(values + i) * factor;
    const VF k = FLOOR_FLOAT(x * 1.44269504f + 0.5f);
    const VF r = x - k * 0.693359375f - k * -0.00021219444f;
    VF p = 0.00019875691f * r + 0.0013981999f;
    p = p * r + 0.0083334519f;
    p = p * r + 0.041665796f;
    p = p * r + 0.16666665f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1;
    const VF power = (VF)((IF)(k + 8388735.0f) << 23);
    *(VF *)(values + i) = (VF)((IF)(p * power) & (x >= -87));
  }
}

#define EXP(values, count, factor) \
  _Generic((values), float *: exp_float, double *: exp_double)((void *)(values), count, factor)

static void project(int rows, int stride) {
  const int vectors = width / GROUP;
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v += 2) {
      VS a = {0}, b = {0};
      const VS *restrict p = (const VS *)projection + v;
      if (v + 1 < vectors) {
        for (int j = 0; j < m; j++) {
          a += (S)kernel[r * stride + j] * p[j * vectors];
          b += (S)kernel[r * stride + j] * p[j * vectors + 1];
        }
        ((VS *)(z + r * width))[v + 1] = b;
      } else {
        for (int j = 0; j < m; j++) a += (S)kernel[r * stride + j] * p[j * vectors];
      }
      ((VS *)(z + r * width))[v] = a;
    }
}

static void score_kjl(const K *x, int rows, double *out) {
  const int panels = (m + LANES - 1) / LANES, stride = panels * LANES;
  distances(x, rows, landmarks, panels, D, kernel, stride);
  EXP(kernel, rows * stride, factor);
  project(rows, stride);
  int kept = 0, ends[BATCH_ROWS];
  for (int r = 0; r < rows; r++) {
    S *row = terms + r * groups * GROUP;
    for (int g = 0; g < groups; g++) {
      VS differences[16], q = {0};
      const VS *restrict mu = (const VS *)means + g * d, *restrict f = (const VS *)factors + g * triangle;
      for (int i = 0; i < d; i++) differences[i] = z[r * width + i] - mu[i];
      for (int i = 0; i < d; i++) {
        VS y = {0};
        for (int t = 0; t <= i; t++) y += *f++ * differences[t];
        q += y * y;
      }
      ((VS *)row)[g] = ((const VS *)normalisers)[g] - (S)0.5 * q;
    }
    S largest = row[0];
    for (int j = 1; j < groups * GROUP; j++) largest = row[j] > largest ? row[j] : largest;
    out[r] = largest;
    /* terms lost beside the largest are left out; the others of all rows move together, for one pass of exp */
    for (int j = 0; j < k; j++) {
      const S lower = row[j] - largest;
      terms[kept] = lower;
      kept += lower >= LOWEST_EXPONENT;
    }
    ends[r] = kept;
  }
  const int filled = (kept + GROUP - 1) / GROUP * GROUP;
  for (int j = kept; j < filled; j++) terms[j] = 0;
  EXP(terms, filled, 1);
  for (int r = 0, j = 0; r < rows; r++) {
    S sum = 0;
    for (; j < ends[r]; j++) sum += terms[j];
    out[r] += log(sum);
  }
}

static void score_svm(const K *x, int rows, double *out) {
  const int panels = (SV + LANES - 1) / LANES, padded = panels * LANES;
  S sums[TILE][8] __attribute__((aligned(32))) = {{0}};
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

#else
#define EXP(v) _Generic((v), float: expf, double: exp)(v)
#define LOG(v) _Generic((v), float: logf, double: log)(v)

static K kernel_value(const K *restrict x, const K *restrict y) {
  K sum = 0;
  for (int t = 0; t < D; t++) sum += (x[t] - y[t]) * (x[t] - y[t]);
  return EXP(factor * sum);
}

static void score_kjl(const K *x, int rows, double *out) {
  for (int r = 0; r < rows; r++) {
    for (int j = 0; j < m; j++) kernel[j] = kernel_value(x + r * D, landmarks + j * D);
    for (int i = 0; i < d; i++) z[i] = 0;
    for (int j = 0; j < m; j++)
      for (int i = 0; i < d; i++) z[i] += (S)kernel[j] * projection[j * d + i];
    S largest = -INFINITY, sum = 0;
    for (int j = 0; j < k; j++) {
      const S *f = factors + j * triangle;
      S q = 0;
      for (int i = 0; i < d; i++) {
        S y = 0;
        for (int t = 0; t <= i; t++) y += *f++ * (z[t] - means[j * d + t]);
        q += y * y;
      }
      terms[j] = normalisers[j] - (S)0.5 * q;
      if (terms[j] > largest) largest = terms[j];
    }
    for (int j = 0; j < k; j++)
      if (terms[j] - largest >= LOWEST_EXPONENT) sum += EXP(terms[j] - largest);
    out[r] = largest + LOG(sum);
  }
}

static void score_svm(const K *x, int rows, double *out) {
  for (int r = 0; r < rows; r++) {
    S sum = 0;
    for (int i = 0; i < SV; i++) sum += alpha[i] * (S)kernel_value(x + r * D, vectors + i * D);
    out[r] = sum - rho;
  }
}
#endif

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const double *p = read_file(argv[1]), *given = read_file(argv[2]);
  D = *p++; m = *p++; d = *p++; k = *p++;
  const double h = *p++;
  factor = -1 / (h * h);
  landmarks = pack(p, m, D); p += m * D;
  width = (d + GROUP - 1) / GROUP * GROUP;
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
