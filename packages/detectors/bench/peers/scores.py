"""The Python side of speed.mjs: the same models scored by numpy and scikit-learn, and scikit-learn's fits.

usage: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python3 scores.py FOLDER REFERENCE
FOLDER holds what speed.mjs wrote (model.json, *.npy), REFERENCE is the folder of the independent reference
implementation. Reads one JSON request a line, answers with one JSON line; times are CPU seconds of this process.
"""

import json
import sys
import time

import numpy as np
import scipy
import sklearn
from sklearn.mixture import GaussianMixture
from sklearn.svm import OneClassSVM

folder, reference = sys.argv[1:3]
sys.path.insert(0, reference)
import refimpl  # noqa: E402

given = json.load(open(f"{folder}/model.json"))
rows = np.load(f"{folder}/rows.npy")
train = np.load(f"{folder}/train.npy")
array = {name: np.load(f"{folder}/{name}.npy") for name in given["arrays"]}
h = given["bandwidth"]

kjl = object.__new__(refimpl.KJL)
kjl.S, kjl.sigma, kjl.P = array["landmarks"], h, array["projection"]
k, d = array["means"].shape
mixture = GaussianMixture(k)
mixture.weights_, mixture.means_ = array["weights"].ravel(), array["means"]
mixture.precisions_cholesky_ = np.transpose(array["factors"].reshape(k, d, d), (0, 2, 1)).copy()
svm = object.__new__(refimpl.OCSVM)
svm.linear, svm.sigma = False, h
svm.sv, svm.alpha, svm.rho = array["vectors"], array["alpha"].ravel(), given["offset"]
fitted = None


def score_kjl(x):
    return mixture.score_samples(kjl.transform(x))


def decision(x):
    return fitted.decision_function(x)


SCORES = {"kjl": score_kjl, "svm": lambda x: -svm.score(x), "sklearn-svm": decision}
out = sys.stdout
print(json.dumps({"versions": f"Python {sys.version.split()[0]}, numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"}), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    start = time.process_time()
    if ask["what"] == "fit":
        fitted = OneClassSVM(kernel="rbf", gamma=1 / h**2, nu=0.5).fit(train)
        answer = {"seconds": time.process_time() - start, "supportVectors": len(fitted.support_)}
    else:
        score, batch, count = SCORES[ask["what"]], ask["batch"], ask["count"]
        total = 0.0
        for i in range(0, count, batch):
            total += float(score(rows[i : i + batch]).sum())
        answer = {"nanos": 1e9 * (time.process_time() - start) / count, "sum": total}
    print(json.dumps(answer), file=out, flush=True)
