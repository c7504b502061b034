#!/usr/bin/env python3
"""Partial AUC and average precision of scikit-learn, DeLong's variance by its definition, normal quantiles of scipy."""
import json

import numpy as np
import scipy
import sklearn
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from write_json import TESTS, plain

rng = np.random.default_rng(23)


def delong_variance(novelty, novel):
    """Covariances of the structural components over the full table of pairs (DeLong et al. 1988, eq. 4 to 6)."""
    x, y = novelty[novel == 1], novelty[novel == 0]
    wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
    return np.cov(wins.mean(axis=1)) / len(x) + np.cov(wins.mean(axis=0)) / len(y)


cases = []
for name, normal, novel, decimals in [
    ("no ties", 40, 25, 9),
    ("many ties", 50, 30, 0),
    ("few novel rows", 200, 4, 1),
    ("two values", 20, 20, None),
]:
    is_novel = rng.permutation(np.r_[np.zeros(normal, int), np.ones(novel, int)])
    score = rng.normal(size=normal + novel) - is_novel
    score = (score > 0).astype(float) if decimals is None else np.round(score, decimals) + 0.0
    cases.append(
        {
            "name": name,
            "scores": score,
            "isNovel": is_novel,
            "averagePrecision": average_precision_score(is_novel, -score),
            "standardisedPartialAuc": {
                str(limit): roc_auc_score(is_novel, -score, max_fpr=limit) for limit in [0.01, 0.1, 0.33, 0.8]
            },
            "delongVariance": delong_variance(-score, is_novel),
        }
    )
p = [1e-300, 1e-20, 1e-9, 0.001, 0.025, 0.074, 0.076, 0.3, 0.5, 0.62, 0.9, 0.975, 0.9995, 1 - 1e-9]
path = TESTS.parents[1] / "evaluation" / "test" / "golden-measures.json"
made_by = f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
content = {"madeBy": made_by, "cases": cases, "normalQuantiles": [[q, norm.ppf(q)] for q in p]}
path.write_text(json.dumps(plain(content)) + "\n", encoding="utf-8")
