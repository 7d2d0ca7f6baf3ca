"""Writes a golden file as make.py does, of what scikit-learn computes: metrics, which have no gradients.

    python3.12 -m venv venv && venv/bin/pip install scikit-learn==1.7.2 numpy==2.4.6
    venv/bin/python make_sklearn.py
"""

import platform

import numpy as np
import sklearn

from draw import SEED
from lines import kind, write

FAMILIES = ["sklearn_metrics"]
HEADER = {
    "program": "tests/golden/make_sklearn.py",
    "python": platform.python_version(),
    "sklearn": sklearn.__version__,
    "numpy": np.__version__,
    "seed": SEED,
}


def evaluate(function, inputs, draw, edge=None):
    """Outputs, and cotangents of the float ones, which the files' reader wants; inputs are whole numbers."""
    assert all(kind(x) == "int" for x in inputs)
    outputs = [np.asarray(y) for y in function(*inputs)]
    return outputs, [draw.normal_of(y.shape) for y in outputs if kind(y) == "float"], []


if __name__ == "__main__":
    write(FAMILIES, HEADER, evaluate)
