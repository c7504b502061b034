#!/usr/bin/env python3
"""Components, variances and squared reconstruction errors of scikit-learn's PCA."""
import numpy as np
from sklearn.decomposition import PCA

from write_json import write

rng = np.random.default_rng(21)


def correlated(n, columns, spreads):
    basis = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    return np.round(rng.normal(size=(n, columns)) * spreads @ basis + rng.normal(size=columns) * 5, 4)


constant = correlated(40, 5, [6, 3, 1, 0.3, 0.1])
constant[:, 2] = 7.25
cases = []
for name, rows, share in [
    ("correlated columns", correlated(50, 6, [9, 4, 2, 0.6, 0.3, 0.1]), 0.95),
    ("a smaller share", correlated(50, 6, [9, 4, 2, 0.6, 0.3, 0.1]), 0.5),
    ("fewer rows than columns", correlated(5, 8, [9, 7, 5, 3, 2, 1, 1, 1]), 0.9),
    ("a constant column", constant, 0.95),
    ("columns of very different size", correlated(40, 4, [5, 3, 2, 1]) * [1, 1e3, 1, 1e-2], 0.999),
]:
    model = PCA(n_components=share, svd_solver="full").fit(rows)
    points = np.vstack([rows[:4], np.round(rows[:4] + rng.normal(size=(4, rows.shape[1])) * 3, 4)])
    residual = points - model.inverse_transform(model.transform(points))
    cases.append(
        {
            "name": name,
            "varianceShare": share,
            "rows": rows,
            "points": points,
            "mean": model.mean_,
            "components": model.components_,
            "explainedVariances": model.explained_variance_,
            "explainedShare": model.explained_variance_ratio_.sum(),
            "squaredErrors": (residual**2).sum(axis=1),
        }
    )
write("principal-components/scikit-learn.json", {"cases": cases})
