#!/usr/bin/env python3
"""Farthest-first landmarks by numpy.

The first is the row nearest to the mean, then always the row farthest from its nearest landmark (Gonzalez 1985), the first
of equals.
"""
import json
from pathlib import Path

import numpy as np


def farthest_first(rows, m):
    chosen = [int(np.argmin(((rows - rows.mean(0)) ** 2).sum(1)))]
    nearest = ((rows - rows[chosen[0]]) ** 2).sum(1)
    while len(chosen) < m and nearest.max() > 0:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, ((rows - rows[chosen[-1]]) ** 2).sum(1))
    return chosen, np.sqrt(nearest).tolist()


def cases():
    rng = np.random.default_rng(7)
    for n, columns, m in [(40, 2, 12), (60, 5, 20), (25, 3, 25)]:
        rows = rng.normal(size=(n, columns)).round(4)
        rows[: n // 4] += 5
        rows[n // 2 : n // 2 + 4] = rows[0]
        chosen, distances = farthest_first(rows, m)
        yield {"rows": rows.tolist(), "m": m, "landmarks": chosen, "distances": distances}


path = Path(__file__).resolve().parents[2] / "packages/detectors/test/landmarks-numpy.json"
path.write_text(json.dumps({"madeBy": f"numpy {np.__version__}", "cases": list(cases())}) + "\n", encoding="utf-8")
