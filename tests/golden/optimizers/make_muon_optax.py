"""Writes muon_optax.json: trajectories of optax's Muon, in f64.

    python3.12 -m venv venv
    venv/bin/pip install jax==0.11.2 optax==0.2.8
    venv/bin/python make_muon_optax.py

Matrices are [fan-in, fan-out], as optax takes them; a first dim `stack` counts matrices.
"""

import importlib.metadata
import pathlib
import platform

import jax
import numpy as np
import optax

from draws import draw, write

jax.config.update("jax_enable_x64", True)

KEPT = [1, 2, 10, 30]
SHAPES = {"matrix": (4, 8), "square": (4, 4), "cube": (2, 8, 4)}
CASES = [
    ("default", dict(learning_rate=0.02)),
    ("heavy_ball", dict(learning_rate=0.02, nesterov=False, beta=0.9)),
    ("rms", dict(learning_rate=0.02, consistent_rms=0.2, weight_decay=0.1)),
    ("dion", dict(learning_rate=0.02, ns_coeffs="dion", eps=1e-3)),
]


def trajectory(name, options, shape, seed):
    start, grads = draw(shape, seed)
    of = lambda numbers: np.asarray(numbers, np.float64).reshape(SHAPES[shape])
    rank = len(SHAPES[shape])
    dims = optax.contrib.MuonDimensionNumbers(reduction_axis=rank - 2, output_axis=rank - 1)
    optimizer = optax.contrib.muon(**options, muon_weight_dimension_numbers={"w": dims})
    params = {"w": of(start)}
    state = optimizer.init(params)
    values = []
    for step, grad in enumerate(grads[: KEPT[-1]], 1):
        updates, state = optimizer.update({"w": of(grad)}, state, params)
        params = optax.apply_updates(params, updates)
        if step in KEPT:
            values.append(np.asarray(params["w"]).reshape(-1).tolist())
    return {"name": name, "shape": shape, "seed": seed, "values": values, "slots": {}}


header = {
    "program": "tests/golden/optimizers/make_muon_optax.py",
    "python": platform.python_version(),
    "jax": jax.__version__,
    "optax": importlib.metadata.version("optax"),
}
cases = [trajectory(*case, shape, 0) for case in CASES for shape in SHAPES]
path = pathlib.Path(__file__).with_name("muon_optax.json")
write(path, header, cases, digits=15, kept=KEPT)
