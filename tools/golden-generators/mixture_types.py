#!/usr/bin/env python3
"""EM of scikit-learn's GaussianMixture with diagonal, tied and spherical covariances, from given starts.

Every iterate is what a fit with that many steps leaves. The likelihood of the start is compared with scipy's,
to be sure that scikit-learn starts from what is written down. Rows stay near the origin, because scikit-learn
expands squares (x² − 2xµ + µ²) and loses digits far from it.
"""
import warnings

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from write_json import write

warnings.simplefilter("ignore", ConvergenceWarning)
rng = np.random.default_rng(22)
TOLERANCE, REGULARISATION, STEPS = 1e-3, 1e-6, 100
NAMES = {"diag": "diagonal", "tied": "tied", "spherical": "spherical"}


def three_clusters():
    parts = [
        rng.normal([0, 0, 0], [1, 0.5, 2], size=(30, 3)),
        rng.normal([4, 1, -3], [0.6, 1.2, 0.7], size=(25, 3)),
        rng.normal([1, 5, 2], [0.9, 1.6, 1.1], size=(20, 3)),
    ]
    return np.round(np.vstack(parts), 3)


def start_of(kind, k, d):
    weights = np.array([0.5, 0.2, 0.3])[:k]
    spreads = np.array([1.5, 1.0, 2.0])[:k]
    if kind == "spherical":
        return weights / weights.sum(), spreads
    if kind == "diag":
        return weights / weights.sum(), spreads[:, None] * np.linspace(1, 1.3, d)
    return weights / weights.sum(), np.eye(d) * 1.4 + 0.2


def full(kind, covariances, j, d):
    if kind == "spherical":
        return np.eye(d) * covariances[j]
    return np.diag(covariances[j]) if kind == "diag" else covariances


def state_of(model):
    return {"weights": model.weights_, "means": model.means_, "covariances": model.covariances_}


equal = three_clusters()
equal[30:55] = [4.25, 1.5, -3.0]
apart = three_clusters() * 0.1 + [10, -20, 5]
cases = []
for name, rows, means in [
    ("three clusters", three_clusters(), [[0.5, 0, 0], [3, 2, -2], [0, 4, 1]]),
    ("a cluster of equal rows", equal, [[0.5, 0, 0], [4, 1, -3], [0, 4, 1]]),
    ("two components, off the origin", apart, [[10, -20, 5], [10.4, -19.9, 4.7]]),
]:
    means = np.array(means, float)
    k, d = means.shape
    points = np.vstack([rows[:5], np.round(rows[::9] + rng.normal(size=rows[::9].shape) * 2, 3)])
    for kind in NAMES:
        weights, covariances = start_of(kind, k, d)
        precisions = np.linalg.inv(covariances) if kind == "tied" else 1 / covariances

        def fit(steps):
            return GaussianMixture(
                k,
                covariance_type=kind,
                tol=TOLERANCE,
                reg_covar=REGULARISATION,
                max_iter=steps,
                weights_init=weights,
                means_init=means,
                precisions_init=precisions,
            ).fit(rows)

        last = fit(STEPS)
        each = [fit(step) for step in range(1, last.n_iter_ + 1)]
        start = [
            multivariate_normal(means[j], full(kind, covariances, j, d)).logpdf(rows) + np.log(weights[j])
            for j in range(k)
        ]
        assert abs(logsumexp(start, axis=0).mean() - each[0].lower_bound_) < 1e-9, (name, kind)
        cases.append(
            {
                "name": name,
                "covarianceType": NAMES[kind],
                "tolerance": TOLERANCE,
                "regularisation": REGULARISATION,
                "rows": rows,
                "points": points,
                "start": {"weights": weights, "means": means, "covariances": covariances},
                "iterates": [state_of(model) for model in each[:3]],
                "final": state_of(last),
                "meanLogLikelihoods": [model.lower_bound_ for model in each],
                "converged": last.converged_,
                "logDensities": last.score_samples(points),
            }
        )
write("mixture-types/scikit-learn.json", {"cases": cases})
