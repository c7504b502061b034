"""scikit-learn's OneClassSVM on rows that oddflow-bench has written; see src/studies/capture-pairs.ts.

    python3 ocsvm_quantiles.py FOLDER QUANTILE...

FOLDER holds train.npy, normal.npy and novel.npy. One line of JSON on standard output: versions, and the AUC for each
bandwidth quantile (gamma = 1/h^2, nu = 0.5); none where h is 0.
"""
import json
import sys

import numpy as np
import scipy
import sklearn
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

folder, quantiles = sys.argv[1], [float(q) for q in sys.argv[2:]]
train, normal, novel = (np.load(f"{folder}/{name}.npy") for name in ("train", "normal", "novel"))
test = np.vstack([normal, novel])
is_novel = np.r_[np.zeros(len(normal)), np.ones(len(novel))]
distances = pdist(train)
auc = {}
for q in quantiles:
    h = np.quantile(distances, q)
    if h > 0:
        model = OneClassSVM(nu=0.5, gamma=1 / h**2).fit(train)
        auc[str(q)] = roc_auc_score(is_novel, -model.decision_function(test))
print(json.dumps({
    "versions": f"Python {sys.version.split()[0]}, numpy {np.__version__}, scipy {scipy.__version__}, "
                f"scikit-learn {sklearn.__version__}",
    "auc": auc,
}))
