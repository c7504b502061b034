#!/usr/bin/env python3
"""Areas under the ROC curve of scikit-learn's IsolationForest on the paper authors' rows, by seed."""
import os
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from write_json import write

shared = Path(os.environ.get("ODDFLOW_SHARED") or Path(__file__).resolve().parents[3] / "shared")
TREES, SUBSAMPLE_ROWS, SEEDS = 100, 256, 60
sets = {}
for name in ["aecho", "ctu", "dwshr", "sfrig", "unb"]:
    folder = shared / "data" / "paper" / name
    train, test, novel = (np.load(folder / f"{part}.npy") for part in ["X_train_r0", "X_test", "y_test"])
    sets[name] = []
    for seed in range(SEEDS):
        forest = IsolationForest(n_estimators=TREES, max_samples=SUBSAMPLE_ROWS, random_state=seed).fit(train)
        sets[name].append(round(roc_auc_score(novel, -forest.score_samples(test)), 6))
write(
    "isolation-forest/scikit-learn.json",
    {
        "inputs": "data/paper/NAME: fitted on X_train_r0.npy, scored on X_test.npy, y_test.npy 1 = novel",
        "trees": TREES,
        "subsampleRows": SUBSAMPLE_ROWS,
        "areasUnderCurve": sets,
    },
)
