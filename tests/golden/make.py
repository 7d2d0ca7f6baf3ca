"""Writes the golden files beside this program: what JAX computes for random instances of ops.

    python3.11 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python make.py

`make.py reductions` writes one family, `make.py edges` the instances at edges alone. One file per module listed in FAMILIES. An instance holds the inputs, the outputs, a cotangent for
each float output, and the gradient of each float input (`jax.vjp`), all computed in f64. Float
inputs and cotangents are multiples of 1/64, so they are the same numbers in f32 and in f64; results
are rounded to ten digits. The same versions give the same files: every instance is drawn with a
generator of its own, seeded by SEED and its name.
"""

import platform

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp
import jaxlib
import numpy as np
import optax

from draw import SEED
from lines import kind, write

FAMILIES = [
    "elementwise", "functions", "reductions", "statistics", "indices", "structure", "shapes", "windows", "layers", "images",
]
OF_OPTAX = ["optax_losses"]
HEADER = {
    "program": "tests/golden/make.py",
    "python": platform.python_version(),
    "jax": jax.__version__,
    "jaxlib": jaxlib.__version__,
    "numpy": np.__version__,
    "seed": SEED,
}


def evaluate(function, inputs, draw, edge=None):
    """Outputs, cotangents of the float ones, gradients of the float inputs; at edges outputs alone."""
    inputs = [jnp.asarray(array) for array in inputs]
    if edge:
        outputs = function(*inputs)
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,), [], []
    floats = [i for i, x in enumerate(inputs) if kind(x) == "float"]

    def of_floats(*values):
        arguments = list(inputs)
        for i, value in zip(floats, values):
            arguments[i] = value
        outputs = function(*arguments)
        return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)

    outputs, pull = jax.vjp(of_floats, *(inputs[i] for i in floats))
    seeds = [
        draw.normal_of(y.shape) if kind(y) == "float" else np.zeros(y.shape, jax.dtypes.float0)
        for y in outputs
    ]
    cotangents = [seed for seed, y in zip(seeds, outputs) if kind(y) == "float"]
    return outputs, cotangents, pull(tuple(seeds)) if cotangents else []


if __name__ == "__main__":
    write(FAMILIES, HEADER, evaluate)
    write(OF_OPTAX, HEADER | {"optax": optax.__version__}, evaluate)
