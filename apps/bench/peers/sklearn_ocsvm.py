"""scikit-learn's OneClassSVM on rows that oddflow-bench has written; see src/peers/run-peers.ts.

    python3 sklearn_ocsvm.py FOLDER GAMMA NU TOLERANCE RUNS

FOLDER holds train.npy, test.npy and timed.npy; scores.npy is written there (decision function, larger is more normal).
One line of JSON on standard output: version, fit time and the times of RUNS passes over the timed rows, milliseconds.
"""
import json
import sys
import time

import numpy
import sklearn
from sklearn.svm import OneClassSVM

folder, gamma, nu, tolerance, runs = sys.argv[1], *map(float, sys.argv[2:5]), int(sys.argv[5])
train, test, timed = (numpy.load(f"{folder}/{name}.npy") for name in ("train", "test", "timed"))
started = time.perf_counter()
model = OneClassSVM(kernel="rbf", gamma=gamma, nu=nu, tol=tolerance).fit(train)
train_millis = 1000 * (time.perf_counter() - started)
numpy.save(f"{folder}/scores.npy", model.decision_function(test).reshape(-1, 1))
model.decision_function(timed)
test_millis = []
for _ in range(runs):
    started = time.perf_counter()
    model.decision_function(timed)
    test_millis.append(1000 * (time.perf_counter() - started))
print(json.dumps({
    "version": f"scikit-learn {sklearn.__version__}",
    "trainMillis": train_millis,
    "testMillis": test_millis,
    "supportVectors": int(model.support_.size),
}))
