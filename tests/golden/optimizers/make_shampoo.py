"""Writes shampoo.json: trajectories of Shampoo and SOAP, in f64.

    python3.11 -m venv venv
    venv/bin/pip install -r requirements.txt
    venv/bin/python make_shampoo.py

Neither PyTorch nor optax has these, so they are restated here from the papers (arXiv 1802.09568, 2309.06497,
2409.11321), with LAPACK's eigenvectors for roots and its QR for bases. SOAP's bases start as the identity,
and 1e-5 of the norm is added to the second moments on their diagonal before a power iteration.
"""

import pathlib
import platform

import numpy as np

from draws import draw, write

KEPT = [1, 2, 10, 30]
SHAPES = {"matrix": (1, 4, 8), "square": (1, 4, 4), "cube": (2, 8, 4)}
LR = 0.02


def blocks(shape, most):
    """The slices of the matrices and blocks that a variable is cut into."""
    count, rows, cols = shape
    for k in range(count):
        for i in range(0, rows, min(rows, most)):
            for j in range(0, cols, min(cols, most)):
                yield (k, slice(i, i + min(rows, most)), slice(j, j + min(cols, most)))


def root(a, epsilon):
    values, vectors = np.linalg.eigh(a + epsilon * np.eye(len(a)))
    return vectors @ np.diag(values ** -0.25) @ vectors.T


def basis(a, q):
    product = (a / np.linalg.norm(a) + 1e-5 * np.eye(len(a))) @ q
    q, r = np.linalg.qr(product)
    return q * np.sign(np.diag(r))


class Shampoo:
    def __init__(self, shape, beta1=0.9, beta2=0.999, epsilon=1e-3, interval=1):
        self.options = beta1, beta2, epsilon, interval
        self.m, self.t = np.zeros(shape), 0
        self.l, self.r = np.zeros((shape[0],) * 2), np.zeros((shape[1],) * 2)

    def update(self, g):
        beta1, beta2, epsilon, interval = self.options
        self.t += 1
        new = 1 if beta2 == 1 else 1 - beta2
        self.l = beta2 * self.l + new * g @ g.T
        self.r = beta2 * self.r + new * g.T @ g
        self.m = beta1 * self.m + (1 - beta1) * g
        weight = 1 if beta2 == 1 else 1 - beta2**self.t
        if (self.t - 1) % interval == 0:
            self.roots = root(self.l / weight, epsilon), root(self.r / weight, epsilon)
        return self.roots[0] @ self.m / (1 - beta1**self.t) @ self.roots[1]


class Soap:
    def __init__(self, shape, beta1=0.95, beta2=0.95, epsilon=1e-8, interval=1):
        self.options = beta1, beta2, epsilon, interval
        self.m, self.v, self.t = np.zeros(shape), np.zeros(shape), 0
        self.l, self.r = np.zeros((shape[0],) * 2), np.zeros((shape[1],) * 2)
        self.ql, self.qr = np.eye(shape[0]), np.eye(shape[1])

    def update(self, g):
        beta1, beta2, epsilon, interval = self.options
        self.t += 1
        turn = lambda x: self.ql.T @ x @ self.qr
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * turn(g) ** 2
        m, v = turn(self.m) / (1 - beta1**self.t), self.v / (1 - beta2**self.t)
        update = self.ql @ (m / (np.sqrt(v) + epsilon)) @ self.qr.T
        self.l = beta2 * self.l + (1 - beta2) * g @ g.T
        self.r = beta2 * self.r + (1 - beta2) * g.T @ g
        if (self.t - 1) % interval == 0:
            self.ql, self.qr = basis(self.l, self.ql), basis(self.r, self.qr)
        return update


CASES = [
    ("shampoo", Shampoo, dict(), dict()),
    ("shampoo_sum", Shampoo, dict(beta1=0.0, beta2=1.0), dict()),
    ("shampoo_interval", Shampoo, dict(beta1=0.8, beta2=0.95, interval=4), dict(decay=0.1)),
    ("shampoo_blocks", Shampoo, dict(interval=2), dict(most=2)),
    ("soap", Soap, dict(), dict()),
    ("soap_interval", Soap, dict(beta1=0.9, beta2=0.99, interval=4), dict(decay=0.1)),
    ("soap_blocks", Soap, dict(interval=2), dict(most=2)),
]


def trajectory(name, kind, options, shape, seed, decay=0.0, most=100):
    start, grads = draw(shape, seed)
    of = lambda numbers: np.array(numbers).reshape(SHAPES[shape])
    w = of(start)
    parts = list(blocks(SHAPES[shape], most))
    optimizers = [kind(w[part].shape, **options) for part in parts]
    values = []
    for step, grad in enumerate(grads[: KEPT[-1]], 1):
        grad, update = of(grad), np.zeros_like(w)
        for part, optimizer in zip(parts, optimizers):
            update[part] = optimizer.update(grad[part])
        w = w - LR * (update + decay * w)
        if step in KEPT:
            values.append(w.reshape(-1).tolist())
    return {"name": name, "shape": shape, "seed": seed, "values": values, "slots": {}}


header = {
    "program": "tests/golden/optimizers/make_shampoo.py",
    "python": platform.python_version(),
    "numpy": np.__version__,
}
cases = []
for name, kind, options, more in CASES:
    for shape in SHAPES:
        cases.append(trajectory(name, kind, options, shape, 0, **more))
path = pathlib.Path(__file__).with_name("shampoo.json")
write(path, header, cases, digits=13, kept=KEPT)
