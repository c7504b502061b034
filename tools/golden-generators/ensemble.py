#!/usr/bin/env python3
"""The ensemble of nearest landmark and column histograms, written from its definition with numpy alone."""
import numpy as np

from write_json import write

TAIL = -np.log(0.1)


def standardisation(rows, least):
    low, high = (np.quantile(rows, q, axis=0, method=m) for q, m in ((0.01, "lower"), (0.99, "higher")))
    clipped = np.clip(rows, low, high)
    scale = clipped.std(axis=0)
    if least is not None:
        return clipped.mean(axis=0), np.maximum(scale, least)
    scale[low == high] = 0
    positive = scale[scale > 0]
    return clipped.mean(axis=0), np.where(scale > 0, scale, 0.1 * np.median(positive) if len(positive) else 1)


def nearest(rows, services, m):
    distance = lambda a, b: np.sqrt(((a - b) ** 2).sum(axis=-1))
    chosen = []
    cover = np.zeros(len(rows))
    names, counts = np.unique(services, return_counts=True)
    for name in sorted(names, key=lambda s: -counts[list(names).index(s)])[:m]:
        own = np.flatnonzero(services == name)
        first = own[distance(rows[own], rows[own].mean(axis=0)).argmin()]
        chosen.append(first)
        cover[own] = distance(rows[own], rows[first])
    while len(chosen) < m and cover.max() > 0:
        found = cover.argmax()
        own = services == services[found]
        chosen.append(found)
        cover[own] = np.minimum(cover[own], distance(rows[own], rows[found]))

    def view(points, of):
        out = []
        for point, service in zip(points, of):
            own = [i for i in chosen if services[i] == service]
            out.append(min(distance(rows[i], point) for i in own or chosen) + (0 if own else 2))
        return np.array(out)

    return view


def histogram(rows, bins):
    low, high = (np.quantile(rows, q, axis=0, method=m) for q, m in ((0.01, "lower"), (0.99, "higher")))
    width = np.maximum((high - low) / bins, 0.1)

    def bins_of(points):
        found = np.floor((points - low) / width)
        found = np.where((points >= low) & (points <= high), np.clip(found, 0, bins - 1), found)
        return (np.clip(found, -1, bins) + 1).astype(int)

    n, columns = rows.shape
    table = np.array([np.bincount(b, minlength=bins + 2) for b in bins_of(rows).T])
    # tables are kept in 1/2048 nat
    table = np.floor(-np.log((table + 0.5) / (n + 0.5)) * 2048 + 0.5) / 2048
    return lambda points: table[np.arange(columns), bins_of(points)].sum(axis=1)


def histograms(rows, services, bins):
    everything = histogram(rows, bins)
    names, counts = np.unique(services, return_counts=True)
    own = {s: histogram(rows[services == s], 8) for s, n in zip(names, counts) if n >= 8}

    def view(points, of):
        out = everything(points)
        for s in own.keys() & set(of):
            out[of == s] = own[s](points[of == s])
        return out

    return view


def whatever_service(view):
    return lambda points, of: view(points)


def surprise(values, body, beyond):
    values = np.sort(values)
    n = len(values)
    start = np.quantile(values, 0.9)
    excess = values[values > start] - start
    mean_excess = (excess.mean() if len(excess) else 0) + 1e-9
    knots = np.unique(values[values <= start])
    levels = -np.log((1 + n - np.searchsorted(values, knots)) / (n + 1))
    if knots[-1] < start:
        knots, levels = np.append(knots, start), np.append(levels, TAIL)
    if len(knots) > 64:
        steps = np.minimum(np.floor(levels / TAIL * 62), 61)
        kept = np.append(np.diff(steps) > 0, True)
        kept[0] = True
        knots, levels = knots[kept], levels[kept]

    def of(x):
        tail = TAIL + np.minimum((x - start) / mean_excess, 30 - TAIL)
        x = np.where(x > start, tail, np.interp(x, knots, levels))
        return body * np.minimum(x, TAIL) + beyond * np.maximum(x - TAIL, 0)

    return of


def fit(table, inputs, least, m=15, bins=20):
    """`table`: rows with the service last; `inputs`: of each row. Of fewer than 16 landmarks none is drawn at random."""
    distinct = np.unique(inputs)
    fold = np.arange(len(table)) % 4 if len(distinct) < 2 else np.searchsorted(distinct, inputs) % min(10, len(distinct))
    services = table[:, -1]

    def held_out(odd):
        centre, scale = standardisation(table[~odd, :-1], least)
        rows = (table[:, :-1] - centre) / scale
        members = []
        sums = 0
        views = (
            (lambda r, s: nearest(r, s, m), (0.5, 1)),
            (lambda r, s: histograms(r, s, bins), (0.5, 0.4)),
            (lambda r, s: whatever_service(histogram(r, bins)), (0.5, 0.4)),
        )
        for learn, weights in views:
            values = np.empty(len(rows))
            for f in np.unique(fold):
                on = (fold != f) & ~odd
                values[fold == f] = learn(rows[on], services[on])(rows[fold == f], services[fold == f])
            curve = surprise(values[~odd], *weights)
            sums = sums + curve(values)
            members.append((learn(rows[~odd], services[~odd]), curve))
        score = lambda t: -sum(curve(view((t[:, :-1] - centre) / scale, t[:, -1])) for view, curve in members)
        return score, sums

    odd = np.zeros(len(table), bool)
    score, sums = held_out(odd)
    order = np.argsort(-sums, kind="stable")
    for i in range(max(1, int(np.ceil(len(sums) / 100))), 0, -1):
        if sums[order[i - 1]] > 12 and sums[order[i - 1]] - sums[order[i]] >= 6:
            odd[order[:i]] = True
            score, sums = held_out(odd)
            break
    return score, sums, odd


def threshold(sums, odd, rate):
    rest = sums[~odd]
    start = np.quantile(rest, 0.9)
    tail = start + (rest[rest > start] - start).mean() * np.log(0.1 / rate)
    rank = max(1, int(np.floor(rate * (len(rest) + 1))))
    return -max(np.sort(rest)[-rank], tail)


rng = np.random.default_rng(14)


def traffic(n, columns, services):
    centres = rng.normal(size=(services, columns)) * 4
    of = rng.choice(services, size=n, p=np.arange(services, 0, -1) / (services * (services + 1) / 2))
    rows = centres[of] + rng.normal(size=(n, columns)) * rng.uniform(0.05, 1, columns)
    # repeated values, none of them on the edge of a bin, where the last bit of a mean decides
    rows[:, 1] = np.array([0, 1, 2.7])[np.round(rows[:, 1]).astype(int) % 3]
    rows[:, 2] = 3
    return np.column_stack([np.round(rows, 3), of * 7.0])


cases = []
for name, n, columns, services, inputs, least in [
    ("services, inputs", 130, 5, 4, 5, 0.1),
    ("services, more inputs than folds", 420, 4, 6, 13, 0.1),
    ("one service, one input", 60, 4, 1, 1, None),
]:
    table = traffic(n, columns, services)
    of = rng.integers(inputs, size=n)
    if inputs > 1:
        table[7, :-1] += 40
    points = np.vstack([traffic(12, columns, services), table[:6], table[:6] + 0.4])
    points[3:6, -1] = 999
    points[18:, -1] = table[:6, -1]
    score, sums, odd = fit(table, of, least)
    cases.append(
        {
            "name": name,
            "minimumScale": least,
            "rows": table,
            "inputs": of,
            "points": points,
            "scores": score(points),
            "heldOut": -sums,
            "odd": odd.astype(int),
            "thresholds": {str(rate): threshold(sums, odd, rate) for rate in (0.01, 0.05)},
        }
    )
    print(name, int(odd.sum()), "odd")
write("ensemble/numpy.json", {"cases": cases})
