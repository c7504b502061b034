"""Scores rows with an OddFlow model file. Needs Python 3.8 or newer and numpy.

    import numpy, oddflow

    model = oddflow.load("camera.oddflow")
    rows = numpy.load("rows.npy")   # oddflow extract today.pcap -o rows.npy
    print(model.score(rows))        # higher = more normal
    print(model.predict(rows))      # 1 normal, -1 novel

All detectors and scalers are covered, in both precisions. Scores are those of OddFlow to the last bit: sums are
taken in the same order, and exp and log are OddFlow's own (fdlibm's methods). The formulas are in docs/model-file.md.
Rules for groups of flows and for flows of one packet are not applied here.

A model file may come from a stranger: nothing in it is executed, no more is allocated than the file's length and one
batch of rows, and whatever is wrong raises ModelError with the field.
"""
import json
import math
import os
import struct
import zlib

import numpy as np

__all__ = ["Model", "ModelError", "load"]

MAXIMUM_FILE_BYTES = 2**31 - 1
MAXIMUM_TENSORS = 1024
LARGEST = np.finfo(np.float64).max
LARGEST_F32 = float(np.finfo(np.float32).max)
SIGNATURE = b'{"__metadata__":{"checksum":"'
DTYPES = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "U32": "<u4", "U16": "<u2"}
# numbers of one intermediate array
BATCH_NUMBERS = 2**18


class ModelError(ValueError):
    """The file is no model, is damaged, or holds what no fit can produce."""


def load(path):
    """Reads a model file. Raises OSError or ModelError."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAXIMUM_FILE_BYTES:
            raise ModelError(f"{path}: expected at most {MAXIMUM_FILE_BYTES} bytes, found {size}")
        raw = _read_all(file)
    try:
        return Model(_read_file(raw))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _read_all(file):
    # read(MAXIMUM_FILE_BYTES) would take that much memory at once; a pipe has no size to ask for
    parts, room = [], MAXIMUM_FILE_BYTES
    while part := file.read(min(room, 2**20)):
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


class Model:
    """kind: the detector; columns: width of a row; threshold: novel if and only if score <= threshold; metadata."""

    def __init__(self, file):
        self.metadata = file.metadata
        self.kind = file.text("kind")
        contract = _object(file.json("featureContract"), "featureContract")
        self.columns = _whole(contract.get("dimension"), "featureContract.dimension", 1, 65535)
        self.threshold = _number(_object(file.json("threshold"), "threshold").get("value"), "threshold.value")
        parameters = _object(file.json("parameters"), "parameters")
        if parameters.get("detector") != self.kind:
            _fail("parameters.detector", self.kind, parameters.get("detector"))
        self._category = None
        if "scaler" in file.metadata:
            column = _object(file.json("scaler"), "scaler").get("categoryColumn")
            if self.columns < 2:
                _fail("scaler.categoryColumn", "more than one column", self.columns)
            self._category = _whole(column, "scaler.categoryColumn", 0, self.columns - 1)
        width = self.columns - (self._category is not None)
        self._scale = _scaler(file, contract.get("scaler"), width)
        if self.kind == "ensemble":
            self._scorer, widest = _ensemble(file, width, self._category is not None)
        else:
            self._scorer, widest = _detector(self.kind, file, parameters, width)
        self._batch = max(1, BATCH_NUMBERS // max(widest, width))

    def score(self, rows):
        """One score for each row of an array of n x columns; higher is more normal."""
        try:
            rows = np.asarray(rows, dtype=np.float64)
        except OverflowError:
            raise ValueError("rows: expected finite numbers, found an integer beyond the range of float64") from None
        if rows.ndim != 2 or rows.shape[1] != self.columns:
            raise ValueError(f"rows: expected {self.columns} columns as in training, found shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("rows: expected finite numbers")
        out = np.empty(len(rows))
        with np.errstate(all="ignore"):
            for start in range(0, len(rows), self._batch):
                part = rows[start : start + self._batch]
                services = None
                if self._category is not None:
                    services = part[:, self._category]
                    part = np.delete(part, self._category, axis=1)
                out[start : start + self._batch] = self._scorer(self._scale(part), services)
        return out

    def predict(self, rows):
        """1 for normal rows, -1 for novel ones."""
        return np.where(self.score(rows) > self.threshold, 1, -1)


# ---- the file


class _File:
    """Tensors and metadata by name; inside an ensemble, those of one member."""

    def __init__(self, metadata, tensors, prefix="", inner=None):
        self.metadata, self.tensors, self.prefix, self.inner = metadata, tensors, prefix, inner

    def within(self, prefix, inner):
        return _File(self.metadata, self.tensors, self.prefix + prefix, inner)

    def text(self, key):
        return self.metadata[key] if key in self.metadata else _fail(key, "an entry in the metadata", None)

    def json(self, key):
        if self.inner is None:
            return _parse_json(self.text(key), key)
        return self.inner[key] if key in self.inner else _fail(self.prefix + key, "an entry", None)

    def has(self, name):
        return self.prefix + name in self.tensors

    def tensor(self, name, *shape, dtype="F64"):
        """A tensor of that shape; None is any length of at least 1. Numbers are finite."""
        name = self.prefix + name
        found_dtype, values = self.tensors.get(name, (None, None))
        if found_dtype != dtype:
            _fail(name, f"a tensor of {dtype}", found_dtype)
        fits = values.ndim == len(shape) and all(
            found >= 1 if asked is None else found == asked for asked, found in zip(shape, values.shape)
        )
        if not fits:
            _fail(name, "shape " + " x ".join("n" if n is None else str(n) for n in shape), values.shape)
        if values.dtype.kind == "f":
            values = values.astype(np.float64)
            if not np.isfinite(values).all():
                _fail(name, "finite numbers", "others")
        return values


def _read_file(raw):
    if len(raw) < 8 + len(SIGNATURE) + 8 or raw[8 : 8 + len(SIGNATURE)] != SIGNATURE:
        raise ModelError("this is no OddFlow model")
    (length,) = struct.unpack_from("<Q", raw)
    start = 8 + length
    if start > len(raw) or length % 8 != 0:
        _fail("header", "a length within the file", length)
    at = 8 + len(SIGNATURE)
    checksum = zlib.crc32(raw[at + 8 :], zlib.crc32(b"0" * 8, zlib.crc32(raw[:at])))
    if raw[at : at + 8] != b"%08x" % checksum:
        raise ModelError("checksum: the file is damaged; copy or train it again")
    try:
        text = raw[8:start].decode("utf-8")
    except UnicodeDecodeError:
        _fail("header", "UTF-8", "other bytes")
    header = _object(_parse_json(text, "header"), "header")
    metadata = _object(header.pop("__metadata__"), "__metadata__")
    for key, value in metadata.items():
        if not isinstance(value, str):
            _fail(f"__metadata__.{key}", "a text", value)
    if metadata.get("formatVersion") != "1":
        _fail("formatVersion", "1", metadata.get("formatVersion"))
    if len(header) > MAXIMUM_TENSORS:
        _fail("header", f"at most {MAXIMUM_TENSORS} tensors", len(header))
    tensors = {}
    end = 0
    for name, entry in header.items():
        entry = _object(entry, name)
        dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            _fail(f"{name}.dtype", " ".join(DTYPES), dtype)
        for field, list_ in (("shape", shape), ("data_offsets", offsets)):
            if not isinstance(list_, list) or len(list_) > 8:
                _fail(f"{name}.{field}", "a list of at most 8 whole numbers", list_)
            for value in list_:
                _whole(value, f"{name}.{field}", 0, len(raw))
        count = 1
        for length in shape:
            count *= length
        bytes_ = count * np.dtype(DTYPES[dtype]).itemsize
        if offsets != [end, end + bytes_] or start + end + bytes_ > len(raw):
            _fail(f"{name}.data_offsets", f"[{end}, {end + bytes_}] within the file", offsets)
        values = np.frombuffer(raw, DTYPES[dtype], count, start + end).reshape(shape)
        tensors[name] = (dtype, values)
        end += bytes_
    if start + end != len(raw):
        _fail("header", f"tensors up to the file's end, {len(raw) - start}", end)
    return _File(metadata, tensors)


def _parse_json(text, field):
    def unique(pairs):
        value = dict(pairs)
        return value if len(value) == len(pairs) else _fail(field, "different keys", "one twice")

    def refuse(name):
        _fail(field, "JSON", name)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except ModelError:
        raise
    except (ValueError, RecursionError):
        return _fail(field, "JSON", text)


def _fail(field, expected, found):
    raise ModelError(f"{ascii(str(field)[:80])[1:-1]}: expected {expected}, found {ascii(found)[:60]}")


def _object(value, field):
    return value if isinstance(value, dict) else _fail(field, "an object", value)


def _number(value, field, low=-LARGEST):
    """A finite number, at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= LARGEST:
        _fail(field, f"a number of at least {low}", value)
    return float(value)


def _whole(value, field, low, high):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        _fail(field, f"a whole number from {low} to {high}", value)
    return value


def _positive(values, field):
    return values if (values > 0).all() else _fail(field, "positive numbers", float(values.min()))


def _ascending(values, field):
    return values if (values[1:] > values[:-1]).all() else _fail(field, "ascending numbers", "others")


# ---- exp, log and sums, in OddFlow's order of operations

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


def _exp(x):
    k = np.floor(x * 1.4426950408889634 + 0.5)
    k = np.where(np.abs(k) < 1100, k, 0.0)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    p = 0.00006613756321437934 + t * (-0.0000016533902205465252 + t * 4.1381367970572385e-8)
    c = r - t * (0.16666666666666602 + t * (-0.0027777777777015593 + t * p))
    y = 1 - (low - (r * c) / (2 - c) - high)
    # in two steps where 2^k itself is out of range
    first = np.where(k < -1022, k + 54, np.minimum(k, 1023))
    y = y * np.ldexp(1.0, first.astype(np.int64)) * np.ldexp(1.0, (k - first).astype(np.int64))
    y = np.where(x > 709.782712893384, np.inf, np.where(x < -745.1332191019411, 0.0, y))
    return np.where(np.isnan(x), np.nan, y)


def _log(x):
    x = np.asarray(x, dtype=np.float64)
    tiny = x < 2.2250738585072014e-308
    bits = np.where(tiny, x * 18014398509481984.0, x).view(np.int64)
    high = bits >> 32
    k = (high >> 20) - 1023 - np.where(tiny, 54, 0)
    high = high & 0xFFFFF
    carry = (high + 0x95F64) & 0x100000
    k = (k + (carry >> 20)).astype(np.float64)
    f = (((high | (carry ^ 0x3FF00000)) << 32) | (bits & 0xFFFFFFFF)).view(np.float64) - 1
    s = f / (2 + f)
    z = s * s
    w = z * z
    t1 = w * (0.3999999999940942 + w * (0.22222198432149784 + w * 0.15313837699209373))
    t2 = z * (0.6666666666666735 + w * (0.2857142874366239 + w * (0.1818357216161805 + w * 0.14798198605116586)))
    r = t2 + t1
    half = 0.5 * f * f
    whole = k * LN2_HIGH - (half - (s * (half + r) + k * LN2_LOW) - f)
    out = np.where(k == 0, f - (half - s * (half + r)), whole)
    out = np.where(f == 0, np.where(k == 0, 0.0, k * LN2_HIGH + k * LN2_LOW), out)
    return np.where(x > 0, np.where(x == np.inf, np.inf, out), np.where(x == 0, -np.inf, np.nan))


def _log_of(x):
    return float(_log(x))


def _sum_columns(values):
    """Of n x m numbers n sums, added from the first column on."""
    out = np.zeros(len(values))
    for t in range(values.shape[1]):
        out += values[:, t]
    return out


def _log_sum_exp(values):
    largest = np.full(len(values), -np.inf)
    for t in range(values.shape[1]):
        largest = np.where(values[:, t] > largest, values[:, t], largest)
    exponents = values - largest[:, None]
    terms = np.where(exponents < -60, 0.0, _exp(exponents))
    return np.where(np.isfinite(largest), largest + _log(_sum_columns(terms)), largest)


def _squares(x, points):
    """Squared distances of n x D rows to m x D points: n x m."""
    out = np.zeros((len(x), len(points)), dtype=x.dtype)
    for t in range(x.shape[1]):
        difference = x[:, t : t + 1] - points[:, t]
        out += difference * difference
    return out


def _times(values, matrix):
    """values (n x m) times the rows of matrix (d x m): n x d."""
    out = np.zeros((len(values), len(matrix)))
    for t in range(values.shape[1]):
        out += values[:, t : t + 1] * matrix[:, t]
    return out


def _finite(values, otherwise):
    """Infinities become the largest numbers, what is no number becomes `otherwise`."""
    values = np.where(np.isnan(values), otherwise, values)
    return np.clip(values, -LARGEST, LARGEST)


# ---- scalers


def _signed_log(x):
    size = np.abs(x)
    u = 1 + size
    value = np.where(u == 1, size, _log(u) * (size / np.where(u == 1, 1.0, u - 1)))
    return np.where(x < 0, -value, value)


def _scaler(file, kind, width):
    if kind == "none":
        return lambda x: x
    if kind == "log":
        return _signed_log
    if kind in ("standard", "log-standard"):
        mean = file.tensor("scaler.mean", width)
        scale = _positive(file.tensor("scaler.scale", width), "scaler.scale")
        if kind == "standard":
            return lambda x: (x - mean) / scale
        return lambda x: (_signed_log(x) - mean) / scale
    if kind != "quantile":
        _fail("featureContract.scaler", "none, standard, log, log-standard or quantile", kind)
    starts = file.tensor("scaler.starts", width + 1, dtype="U32").astype(np.int64)
    knots = file.tensor("scaler.knots", None)
    positions = file.tensor("scaler.positions", len(knots))
    _ascending(starts, "scaler.starts")
    if starts[0] != 0 or starts[-1] != len(knots):
        _fail("scaler.starts", f"from 0 to {len(knots)}", starts)
    columns = []
    for first, end in zip(starts[:-1], starts[1:]):
        _ascending(positions[first:end], "scaler.positions")
        columns.append((_ascending(knots[first:end], "scaler.knots"), positions[first:end]))

    def scale_by_rank(x):
        out = np.empty_like(x)
        for j, (values, shares) in enumerate(columns):
            v = x[:, j]
            spread = values[-1] - values[0] if len(values) > 1 else 1.0
            low = np.clip(np.searchsorted(values, v, "right") - 1, 0, max(len(values) - 2, 0))
            high = np.minimum(low + 1, len(values) - 1)
            inside = shares[low] + (shares[high] - shares[low]) * ((v - values[low]) / (values[high] - values[low]))
            below = shares[0] + (v - values[0]) / spread
            above = shares[-1] + (v - values[-1]) / spread
            out[:, j] = np.where(v > values[0], np.where(v < values[-1], inside, above), below)
        return out

    return scale_by_rank


# ---- what detectors are made of: each function returns (function of scaled rows, numbers that a row needs)


def _kernel(points, bandwidth, field, precision):
    """exp(-|x - point|^2 / h^2) for n x D rows: n x m."""
    inverse = 1 / (bandwidth * bandwidth) if bandwidth > 1e-154 else 0.0
    if not 0 < inverse < math.inf:
        _fail(field, "a positive number whose square has an inverse", bandwidth)
    if precision != "f32":
        return lambda x: _exp(_squares(x, points) * -inverse)
    single = np.float32
    points = points.astype(single)
    factor = single(-inverse)
    if not 1.1754943508222875e-38 <= -factor <= LARGEST_F32:
        _fail(field, "a number whose square is in the range of float32", bandwidth)

    def kernel(x):
        v = _squares(np.clip(x, -LARGEST_F32, LARGEST_F32).astype(single), points) * factor
        far = ~(v >= -87)
        v = np.where(far, single(0), v)
        k = np.floor(v * single(1.4426950408889634) + single(0.5))
        r = v - k * single(0.693359375)
        r = r - k * single(-0.00021219444)
        p = single(0.00019875691) * r + single(0.0013981999)
        for coefficient in (0.0083334519, 0.041665796, 0.16666665, 0.5):
            p = p * r + single(coefficient)
        p = p * (r * r) + r + single(1)
        return np.where(far, 0.0, p.astype(np.float64) * np.ldexp(1.0, k.astype(np.int64)))

    return kernel


def _precision(parameters):
    precision = parameters.get("precision")
    return precision if precision in (None, "f64", "f32") else _fail("parameters.precision", "f64 or f32", precision)


def _mixture(file, kind, d):
    """log densities of n x d points under a Gaussian mixture."""
    weights = _positive(file.tensor("mixture.weights", None), "mixture.weights")
    k = len(weights)
    means = file.tensor("mixture.means", k, d)
    shapes = {"full": (k, d, d), "diagonal": (k, d), "tied": (d, d), "spherical": (k,)}
    if not isinstance(kind, str) or kind not in shapes:
        _fail("mixture.covarianceType", ", ".join(shapes), kind)
    factor = file.tensor("mixture.precisionCholesky", *shapes[kind])
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1) if kind in ("full", "tied") else factor
    _positive(diagonal, "mixture.precisionCholesky")
    if kind in ("full", "tied") and np.triu(factor, 1).any():
        _fail("mixture.precisionCholesky", "zeros above the diagonal", "others")
    log_2_pi = _log_of(2 * math.pi)
    constants = np.empty(k)
    for j in range(k):
        constant = _log_of(weights[j]) - 0.5 * d * log_2_pi
        if kind == "full" or kind == "diagonal":
            for scale in diagonal[j]:
                constant += _log_of(scale)
        elif kind == "spherical":
            constant = _log_of(weights[j]) + d * _log_of(factor[j]) - 0.5 * d * log_2_pi
        else:
            shared = -0.5 * d * log_2_pi
            for scale in diagonal:
                shared += _log_of(scale)
            constant = _log_of(weights[j]) + shared
        constants[j] = constant

    def project(difference, w):
        """The square of W times difference (n x d), W lower triangular; and W times difference."""
        out = np.zeros_like(difference)
        for t in range(d):
            # column after column: each sum takes its terms from the first on
            out[:, t:] += difference[:, t : t + 1] * w[t:, t]
        return out

    def tied_parts():
        centre = np.zeros(d)
        for j in range(k):
            centre = centre + weights[j] * means[j]
        return centre, project(means - centre, factor)

    if kind == "tied":
        centre, projected = tied_parts()

    def log_densities(z):
        terms = np.empty((len(z), k))
        at = project(z - centre, factor) if kind == "tied" else None
        for j in range(k):
            if kind == "spherical":
                square = _squares(z, means[j : j + 1])[:, 0]
                terms[:, j] = constants[j] - 0.5 * square * factor[j] * factor[j]
                continue
            if kind == "full":
                y = project(z - means[j], factor[j])
            elif kind == "diagonal":
                y = (z - means[j]) * factor[j]
            else:
                y = at - projected[j]
            terms[:, j] = constants[j] - 0.5 * _sum_columns(y * y)
        return _log_sum_exp(terms)

    return log_densities, max(k, d)


def _svm(file, d, precision):
    head = _object(file.json("svm"), "svm")
    kernel = _object(head.get("kernel"), "svm.kernel")
    offset = _number(head.get("offset"), "svm.offset")
    is_linear = kernel.get("kind") == "linear"
    dtype = "F32" if precision == "f32" and not is_linear else "F64"
    vectors = file.tensor("svm.supportVectors", None, d, dtype=dtype)
    alphas = file.tensor("svm.dualCoefficients", len(vectors))
    if is_linear:
        normal = np.zeros(d)
        for alpha, vector in zip(alphas, vectors):
            normal = normal + alpha * vector
        return (lambda x: _times(x, normal[None, :])[:, 0] - offset), d
    if kernel.get("kind") != "rbf":
        _fail("svm.kernel.kind", "rbf or linear", kernel.get("kind"))
    bandwidth = _number(kernel.get("bandwidth"), "svm.kernel.bandwidth", 0)
    values = _kernel(vectors, bandwidth, "svm.kernel.bandwidth", precision)

    def decide(x):
        terms = values(x) * alphas
        # four sums, of support vectors i = 0, 1, 2, 3 modulo 4
        s = [_sum_columns(terms[:, r::4]) for r in range(4)]
        return s[0] + s[1] + (s[2] + s[3]) - offset

    return decide, len(vectors)


def _log_tail(table, field):
    """log of the share of training rows whose value is not larger."""
    values, logs = table[:, 0], table[:, 1]
    _ascending(values, field)
    _ascending(logs, field)
    if not (logs < 0).all() or np.abs(table).max() > 1e300 or len(table) > 65:
        _fail(field, "at most 65 knots of numbers up to 1e300 and logarithms below 0", "others")
    slope, upper = 1.0, 1.0
    if len(table) > 1:
        end = 1
        while end + 1 < len(table) and logs[end] < _log_of(0.05):
            end += 1
        slope = min((logs[end] - logs[0]) / (values[end] - values[0]), 1e300)
        upper = values[-1] - values[0]

    def log_tail(asked):
        v = np.where(asked > -1e300, asked, -1e300)
        below = np.maximum(-1e300, logs[0] - (values[0] - v) * slope)
        above = logs[-1] / (1 + (v - values[-1]) / upper)
        low = np.clip(np.searchsorted(values, v, "right") - 1, 0, max(len(values) - 2, 0))
        high = np.minimum(low + 1, len(values) - 1)
        step = (v - values[low]) / (values[high] - values[low])
        inside = np.minimum(logs[high], logs[low] + (logs[high] - logs[low]) * step)
        return np.where(v >= values[0], np.where(v >= values[-1], above, inside), below)

    return log_tail


def _embedded(file, parameters, width):
    precision = _precision(parameters)
    bandwidth = _number(_object(file.json("embedding"), "embedding").get("bandwidth"), "embedding.bandwidth", 0)
    dtype = "F32" if precision == "f32" else "F64"
    landmarks = file.tensor("embedding.landmarks", None, width, dtype=dtype)
    projection = file.tensor("embedding.projection", None, len(landmarks))
    kernel = _kernel(landmarks, bandwidth, "embedding.bandwidth", precision)
    d = len(projection)
    if parameters["detector"].endswith("-svm"):
        decide, _ = _svm(file, d, None)
        widest = max(len(landmarks), d)
    else:
        decide, widest = _mixture(file, "full", d)
        widest = max(len(landmarks), widest)
    if parameters.get("supportGuard") is not True:
        return (lambda x: decide(_times(kernel(x), projection))), widest
    reaches = _positive(file.tensor("supportGuard.squaredReaches", len(landmarks)), "supportGuard.squaredReaches")
    density = _log_tail(file.tensor("supportGuard.density", None, 2), "supportGuard.density")
    support = _log_tail(file.tensor("supportGuard.support", None, 2), "supportGuard.support")
    inverses = 1 / reaches

    def guarded(x):
        squares = _squares(x, landmarks)
        nearest = squares.argmin(axis=1)
        supports = -(inverses[nearest] * squares[np.arange(len(x)), nearest])
        return density(decide(_times(kernel(x), projection))) + support(supports)

    return guarded, widest


def _distances(x, landmarks):
    """To the nearest of the landmarks."""
    squares = _squares(x, landmarks).min(axis=1)
    out = np.sqrt(squares)
    far = np.isinf(squares)
    if far.any():
        scale = 2.0**-540
        scaled = _squares(x[far] * scale, landmarks * scale).min(axis=1)
        out[far] = np.minimum(np.sqrt(scaled) / scale, LARGEST)
    return out


def _histograms(file, tables, width, least_width):
    """How unusual rows are to table t: a function of (rows, t)."""
    low = file.tensor("low", tables, width)
    high = file.tensor("high", tables, width)
    counts = file.tensor("surprises", tables, width, None, dtype="U16")
    bins = counts.shape[2] - 2
    spread = high - low
    if bins < 1 or not ((spread >= 0) & (spread < math.inf)).all():
        _fail(file.prefix + "high", "bins of numbers no lower than low", "others")
    widths = np.maximum(spread / bins, least_width)

    def view(x, t):
        w = widths[t]
        bin_ = np.where(w > 0, np.floor((x - low[t]) / np.where(w > 0, w, 1)), np.where(x > low[t], bins, 0))
        bin_ = 1 + np.minimum(bin_, np.where(x <= high[t], bins - 1, bins))
        bin_ = np.where(x < low[t], 0, bin_).astype(np.int64)
        return counts[t][np.arange(width), bin_].sum(axis=1, dtype=np.int64) / 2048

    return view


def _forest(file, width):
    head = _object(file.json("isolationForest"), "isolationForest")
    if head.get("dimension") != width:
        _fail("isolationForest.dimension", width, head.get("dimension"))
    rows = _whole(head.get("subsampleRows"), "isolationForest.subsampleRows", 2, 2**20)
    starts = file.tensor("isolationForest.treeStarts", None, dtype="I32")
    features = file.tensor("isolationForest.features", None, dtype="I32")
    count = len(features)
    thresholds = file.tensor("isolationForest.thresholds", count)
    rights = file.tensor("isolationForest.rightChildren", count, dtype="I32")
    sizes = file.tensor("isolationForest.sizes", count, dtype="I32")
    nodes = np.arange(count)
    is_inner = features >= 0
    if features.max() >= width or features.min() < -1:
        _fail("isolationForest.features", f"columns from -1 to {width - 1}", "others")
    # children stand behind their parents, so a walk ends
    if (is_inner & ((rights <= nodes + 1) | (rights >= count))).any():
        _fail("isolationForest.rightChildren", "nodes behind their parents", "others")
    if starts.min() < 0 or starts.max() >= count:
        _fail("isolationForest.treeStarts", f"nodes below {count}", "others")
    if sizes.min() < 1 or sizes.max() > rows:
        _fail("isolationForest.sizes", f"from 1 to {rows}", "others")
    lengths = np.zeros(rows + 1)
    harmonic = 0.0
    for size in range(2, rows + 1):
        harmonic += 1 / (size - 1)
        lengths[size] = 2 * harmonic - (2 * (size - 1)) / size
    paths = np.zeros(count)
    for node in range(count):
        if is_inner[node]:
            paths[node + 1] = paths[rights[node]] = paths[node] + 1
        else:
            paths[node] += lengths[sizes[node]]
    factor = -0.6931471805599453 / (len(starts) * lengths[rows])

    def score(x):
        total = np.zeros(len(x))
        at = np.arange(len(x))
        for start in starts:
            node = np.full(len(x), start, dtype=np.int64)
            while True:
                moving = is_inner[node]
                if not moving.any():
                    break
                goes_left = x[at, np.maximum(features[node], 0)] <= thresholds[node]
                node = np.where(moving, np.where(goes_left, node + 1, rights[node]), node)
            total += paths[node]
        return -_exp(factor * total)

    return score, 64


def _detector(kind, file, parameters, width):
    """Function of (scaled rows, services) and the numbers that it needs for a row."""
    if kind in ("oc-kjl", "oc-nystrom", "oc-kjl-qs", "oc-nystrom-qs", "oc-kjl-svm", "oc-nystrom-svm"):
        score, widest = _embedded(file, parameters, width)
        return (lambda x, _: _finite(score(x), -LARGEST)), widest
    if kind == "ocsvm":
        score, widest = _svm(file, width, _precision(parameters))
    elif kind == "gmm":
        score, widest = _mixture(file, _object(file.json("mixture"), "mixture").get("covarianceType"), width)
    elif kind == "nearest":
        landmarks = file.tensor("nearestLandmark.landmarks", None, width)
        score, widest = (lambda x: 0 - _distances(x, landmarks)), len(landmarks)
    elif kind == "kde":
        bandwidth = _number(_object(file.json("kernelDensity"), "kernelDensity").get("bandwidth"), "bandwidth", 1e-150)
        centres = file.tensor("kernelDensity.centres", None, width)
        factor = -(1 / (bandwidth * bandwidth))
        constant = -_log_of(len(centres)) - width * (0.5 * _log_of(math.pi) + _log_of(bandwidth))
        score, widest = (lambda x: _log_sum_exp(_squares(x, centres) * factor) + constant), len(centres)
    elif kind == "iforest":
        score, widest = _forest(file, width)
    elif kind == "pca":
        components = file.tensor("principalComponents.components", None, width)
        mean = file.tensor("principalComponents.mean", width)

        def score(x):
            residual = x - mean
            coordinates = _times(residual, components)
            for c in range(len(components)):
                residual = residual - coordinates[:, c : c + 1] * components[c]
            return 0 - _sum_columns(residual * residual)

        widest = len(components)
    elif kind == "hbos":
        view = _histograms(file.within("histograms.", None), 1, width, 0.0)
        score, widest = (lambda x: 0 - view(x, 0)), 1
    else:
        raise ModelError(f"kind: the detector {kind[:40]!r} is not known here")
    return (lambda x, _: _finite(score(_finite(x, LARGEST)), -LARGEST)), widest


# ---- the ensemble

LIMIT = 1e150
TAIL_SURPRISE = -_log_of(0.1)


def _surprise(body, mean_excess, body_weight, tail_weight, field):
    """The surprise of a view's values, weighted."""
    values, surprises = _ascending(body[:, 0], field), _ascending(body[:, 1], field)
    if len(body) > 64 or surprises[0] < 0 or surprises[-1] > TAIL_SURPRISE:
        _fail(field, "at most 64 surprises from 0 to log 10", "others")

    def surprise(v):
        tail = np.minimum((v - values[-1]) / mean_excess, 30 - TAIL_SURPRISE)
        low = np.clip(np.searchsorted(values, v, "left") - 1, 0, max(len(values) - 2, 0))
        high = np.minimum(low + 1, len(values) - 1)
        range_ = values[high] - values[low]
        halves = (v / 2 - values[low] / 2) / (values[high] / 2 - values[low] / 2)
        share = np.minimum(np.where(range_ < math.inf, (v - values[low]) / range_, halves), 1)
        inside = body_weight * (surprises[low] + (surprises[high] - surprises[low]) * share)
        inside = np.where(v > values[0], inside, body_weight * surprises[0])
        return np.where(v > values[-1], body_weight * TAIL_SURPRISE + tail_weight * tail, inside)

    return surprise


def _nearest_views(file, width, has_services):
    landmarks = file.tensor("landmarks", None, width)
    if np.abs(landmarks).max() > LIMIT:
        _fail(file.prefix + "landmarks", f"numbers up to {LIMIT}", "others")
    if not has_services:
        return [(lambda x, _: _distances(x, landmarks), 0.5, 1.0)], len(landmarks)
    categories = file.tensor("categories", len(landmarks))

    def view(x, services):
        out = np.empty(len(x))
        is_foreign = np.ones(len(x), dtype=bool)
        for service in np.unique(categories):
            rows = services == service
            is_foreign &= ~rows
            if rows.any():
                out[rows] = _distances(x[rows], landmarks[categories == service])
        out[is_foreign] = np.minimum(_distances(x[is_foreign], landmarks) + 2, LARGEST)
        return out

    return [(view, 0.5, 1.0)], len(landmarks)


def _hbos_views(file, width, has_services):
    of_all = _histograms(file.within("histograms.", None), 1, width, 0.1)

    def all_view(x, _):
        return of_all(x, 0)

    if not has_services:
        return [(all_view, 1.0, 1.0)], 1
    if not file.has("own.categories"):
        return [(all_view, 0.5, 0.4), (all_view, 0.5, 0.4)], 1
    categories = _ascending(file.tensor("own.categories", None), file.prefix + "own.categories")
    of_own = _histograms(file.within("own.histograms.", None), len(categories), width, 0.1)

    def own_view(x, services):
        out = of_all(x, 0)
        for t, service in enumerate(categories):
            rows = services == service
            if rows.any():
                out[rows] = of_own(x[rows], t)
        return out

    return [(own_view, 0.5, 0.4), (all_view, 0.5, 0.4)], 1


def _member_views(name, file, head, width):
    field = f"ensemble.{name}.model"
    inner = _object(head.get("model"), field)
    parameters = _object(inner.get("parameters"), f"{field}.parameters")
    if parameters.get("detector") != name or name == "ensemble":
        _fail(f"{field}.parameters.detector", name, parameters.get("detector"))
    score, widest = _detector(name, file.within("model.", inner), parameters, width)
    return [(lambda x, _: 0 - score(x, None), 1.0, 1.0)], widest


def _ensemble(file, width, has_services):
    heads = _object(file.json("ensemble"), "ensemble")
    members = _object(file.json("parameters"), "parameters").get("members")
    if not isinstance(members, list) or not 1 <= len(members) <= 32:
        _fail("parameters.members", "a list of names", members)
    centre = file.tensor("ensemble.centre", width)
    scale = _positive(file.tensor("ensemble.scale", width), "ensemble.scale")
    views = []
    widest = width
    for name in members:
        if not isinstance(name, str):
            _fail("parameters.members", "names", name)
        head = _object(heads.get(name), f"ensemble.{name}")
        inside = file.within(f"ensemble.{name}.", None)
        if name == "nearest":
            found, needed = _nearest_views(inside, width, has_services)
        elif name == "hbos":
            found, needed = _hbos_views(inside, width, has_services)
        else:
            found, needed = _member_views(name, inside, head, width)
        widest = max(widest, needed)
        excesses = head.get("meanExcess")
        if not isinstance(excesses, list) or len(excesses) != len(found):
            _fail(f"ensemble.{name}.meanExcess", f"a list of {len(found)}", excesses)
        for v, (view, body_weight, tail_weight) in enumerate(found):
            field = f"ensemble.{name}.surprise.{v}"
            excess = _number(excesses[v], f"ensemble.{name}.meanExcess", 1e-9)
            body = inside.tensor(f"surprise.{v}", None, 2)
            views.append((view, _surprise(body, excess, body_weight, tail_weight, field)))

    def score(x, services):
        x = np.clip((_finite(x, LARGEST) - centre) / scale, -LIMIT, LIMIT)
        total = np.zeros(len(x))
        for view, surprise in views:
            total += surprise(view(x, services))
        return 0 - total

    return score, widest
