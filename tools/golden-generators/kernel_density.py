#!/usr/bin/env python3
"""Log-densities of scikit-learn's KernelDensity, near and far from its rows."""
import numpy as np
from sklearn.neighbors import KernelDensity

from write_json import write

rng = np.random.default_rng(20)
cases = []
for n, columns, bandwidth in [(30, 3, 1.7), (25, 6, 0.4), (12, 1, 30.0)]:
    rows = np.round(rng.normal(size=(n, columns)) * rng.uniform(0.5, 4, columns) + 10, 3)
    far = rows[:3] + np.array([[30.0], [200.0], [1000.0]])
    points = np.vstack([rows[:3], np.round(rng.normal(size=(6, columns)) * 4 + 10, 3), far])
    # h of exp(-d^2 / h^2) is sqrt(2) standard deviations
    model = KernelDensity(kernel="gaussian", bandwidth=bandwidth / np.sqrt(2), rtol=0, atol=0).fit(rows)
    cases.append(
        {"bandwidth": bandwidth, "rows": rows, "points": points, "logDensities": model.score_samples(points)}
    )
write("kernel-density/scikit-learn.json", {"cases": cases})
