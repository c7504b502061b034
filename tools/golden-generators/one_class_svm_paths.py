#!/usr/bin/env python3
"""Where libsvm ends on the rows of golden 10: with shrinking (the paper authors' models), without, and solved on.

ODDFLOW_SHARED names the folder of the golden files and the paper authors' rows. For each of the 36 models: rho, number
of support vectors, steps and the area under the ROC curve. "solved" (tolerance 1e-8) is there where shrinking or its
absence leads elsewhere.
"""
import json
import os
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from write_json import write

SHARED = Path(os.environ["ODDFLOW_SHARED"])
FOLDERS = {"UNB": "unb", "CTU": "ctu", "SFRIG_2020": "sfrig", "AECHO": "aecho", "DWSHR_AECHO": "dwshr"}

models = []
for stored in json.loads((SHARED / "golden/10_authors_models.json").read_text())["ocsvm"]:
    rows = SHARED / "data/paper" / FOLDERS[stored["dataset"]]
    train = np.load(rows / f"X_train_r{stored['repeat']}.npy")[: stored["n_train"]].astype(float)
    test = np.load(rows / "X_test.npy").astype(float)
    is_novel = np.load(rows / "y_test.npy")

    def solve(shrinking, tolerance):
        svm = OneClassSVM(gamma=1 / stored["sigma"] ** 2, nu=0.5, shrinking=shrinking, tol=tolerance).fit(train)
        return {
            "auc": roc_auc_score(is_novel, -svm.decision_function(test)),
            "supportVectors": len(svm.support_),
            "rho": -svm.intercept_[0],
            "steps": int(svm.n_iter_),
        }

    model = {key: stored[key] for key in ["dataset", "n_train", "repeat", "tuned"]}
    model["shrinking"] = solve(True, 1e-3)
    model["unshrunk"] = solve(False, 1e-3)
    if abs(model["unshrunk"]["auc"] - model["shrinking"]["auc"]) > 1e-12 or (
        abs(model["unshrunk"]["rho"] / model["shrinking"]["rho"] - 1) > 1e-12
    ):
        model["solved"] = solve(False, 1e-8)
    models.append(model)
write("one-class-svm/libsvm-paths.json", {"models": models})
