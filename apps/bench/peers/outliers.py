"""LOF by scikit-learn and ECOD by its paper's formula on rows that oddflow-bench has written; see src/studies/rows.ts.

    python3 outliers.py FOLDER

FOLDER holds test.npy and train-0.npy, train-1.npy, …; for each of these lof-N.npy and ecod-N.npy are written there (larger is
more normal). Columns are standardised by the training rows. One line of JSON on standard output: the version.
"""
import glob
import json
import sys

import numpy
import sklearn
from sklearn.neighbors import LocalOutlierFactor


def ecod(train, test):
    """Li et al. 2022: sums of -log of empirical tails, left, right and by the sign of the skew; the largest of the three."""
    tails = []
    for j in range(train.shape[1]):
        column = numpy.sort(train[:, j])
        n = len(column)
        left = numpy.searchsorted(column, test[:, j], "right")
        right = n - numpy.searchsorted(column, test[:, j], "left")
        left, right = (-numpy.log(numpy.maximum(part, 0.5) / n) for part in (left, right))
        deviation = column - column.mean()
        skew = (deviation**3).mean()
        tails.append((left, right, left if skew < 0 else right))
    return -numpy.max([sum(part) for part in zip(*tails)], axis=0)


folder = sys.argv[1]
test = numpy.load(f"{folder}/test.npy")
for i in range(len(glob.glob(f"{folder}/train-*.npy"))):
    train = numpy.load(f"{folder}/train-{i}.npy")
    deviation = train.std(0)
    scale = numpy.where(deviation > 0, deviation, 1)
    a, z = (train - train.mean(0)) / scale, (test - train.mean(0)) / scale
    lof = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(a)
    numpy.save(f"{folder}/lof-{i}.npy", lof.score_samples(z).reshape(-1, 1))
    numpy.save(f"{folder}/ecod-{i}.npy", ecod(a, z).reshape(-1, 1))
print(json.dumps({"version": f"scikit-learn {sklearn.__version__}, numpy {numpy.__version__}"}))
