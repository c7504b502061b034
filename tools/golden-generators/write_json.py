"""Where the generators write, and how: JSON with all digits of the numbers, versions in front."""
import json
from pathlib import Path

import numpy
import sklearn

TESTS = Path(__file__).resolve().parents[2] / "packages" / "detectors" / "test"


def plain(value):
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def write(name, content):
    head = {"madeBy": f"scikit-learn {sklearn.__version__}, numpy {numpy.__version__}"}
    path = TESTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain({**head, **content})) + "\n", encoding="utf-8")
    print(path)
