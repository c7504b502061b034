"""The Python side of oddflow-bench peers speed: the same models scored by numpy and scikit-learn, scikit-learn's fits.

usage: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python3 scores.py FOLDER [REFERENCE]
FOLDER holds what src/peers/speed.ts wrote (model.json, *.npy). REFERENCE is the folder of an independent
reference implementation (refimpl.py), whose numpy is timed where it is given; the same lines stand here otherwise.
Reads one JSON request a line, answers with one JSON line; times are CPU seconds of this process.
"""

import json
import sys
import time

import numpy as np
import scipy
import sklearn
from sklearn.mixture import GaussianMixture
from sklearn.svm import OneClassSVM

folder = sys.argv[1]
reference = None
if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])
    import refimpl as reference  # noqa: E402

given = json.load(open(f"{folder}/model.json"))
rows = np.load(f"{folder}/rows.npy")
train = np.load(f"{folder}/train.npy")
array = {name: np.load(f"{folder}/{name}.npy") for name in given["arrays"]}
h = given["bandwidth"]


def kernel(x, y):
    squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1)[None, :] - 2.0 * (x @ y.T)
    return np.exp(-np.maximum(squares, 0.0) / h**2)


if reference is None:
    embed = lambda x: kernel(x, array["landmarks"]) @ array["projection"].T  # noqa: E731
    decide = lambda x: kernel(x, array["vectors"]) @ array["alpha"].ravel() - given["offset"]  # noqa: E731
else:
    kjl = object.__new__(reference.KJL)
    kjl.S, kjl.sigma, kjl.P = array["landmarks"], h, array["projection"]
    svm = object.__new__(reference.OCSVM)
    svm.linear, svm.sigma = False, h
    svm.sv, svm.alpha, svm.rho = array["vectors"], array["alpha"].ravel(), given["offset"]
    embed = kjl.transform
    decide = lambda x: -svm.score(x)  # noqa: E731

k, d = array["means"].shape
mixture = GaussianMixture(k)
mixture.weights_, mixture.means_ = array["weights"].ravel(), array["means"]
mixture.precisions_cholesky_ = np.transpose(array["factors"].reshape(k, d, d), (0, 2, 1)).copy()
fitted = None


def score_kjl(x):
    return mixture.score_samples(embed(x))


def decision(x):
    return fitted.decision_function(x)


SCORES = {"kjl": score_kjl, "svm": decide, "sklearn-svm": decision}
out = sys.stdout
print(json.dumps({"versions": f"Python {sys.version.split()[0]}, numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}{'' if reference is None else ', reference implementation'}"}), flush=True)
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
