"""Writes the golden files beside this program: what JAX computes for random instances of ops.

    python3.11 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python make.py

One file per module listed in FAMILIES. An instance holds the inputs, the outputs, a cotangent for
each float output, and the gradient of each float input (`jax.vjp`), all computed in f64. Float
inputs and cotangents are multiples of 1/64, so they are the same numbers in f32 and in f64; results
are rounded to ten digits. The same versions give the same files: every instance is drawn with a
generator of its own, seeded by SEED and its name.
"""

import importlib
import json
import pathlib
import platform

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp
import jaxlib
import numpy as np

from draw import SEED, Draw, instances_of

FAMILIES = ["elementwise", "functions", "reductions", "statistics", "indices", "structure", "shapes", "windows", "layers"]
BYTES_MOST = 450_000
HEADER = {
    "program": "tests/golden/make.py",
    "python": platform.python_version(),
    "jax": jax.__version__,
    "jaxlib": jaxlib.__version__,
    "numpy": np.__version__,
    "seed": SEED,
}


def numbers(array):
    """The elements of an array as JSON: whole numbers, or floats of ten digits."""
    array = np.asarray(array)
    # JSON has no infinities and no NaN: they are texts.
    text = lambda x: f"{x:.10g}" if np.isfinite(x) else json.dumps(f"{x}")
    digits = text if kind(array) == "float" else (lambda x: str(int(x)))
    return "[" + ",".join(digits(x) for x in array.ravel()) + "]"


def kind(array):
    """What the elements are: float, int or bool."""
    return {"f": "float", "i": "int", "b": "bool"}[np.asarray(array).dtype.kind]


def evaluate(function, inputs, draw):
    """Outputs, cotangents of the float ones, gradients of the float inputs."""
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


def instance(name, define):
    """One instance as a line of JSON."""
    draw = Draw(name)
    function = define(draw)
    inputs = [jnp.asarray(array) for _, _, array in draw.inputs]
    outputs, cotangents, gradients = evaluate(function, inputs, draw)

    def tensor(array, **about):
        about = json.dumps(about | {"kind": kind(array)})[:-1]
        return f'{about}, "data": {numbers(array)}}}'

    given = [tensor(array, name=name, shape=shape) for name, shape, array in draw.inputs]
    made = [tensor(y, sizes=y.shape) for y in outputs]
    fields = {
        "name": json.dumps(name),
        "attributes": json.dumps(draw.attributes),
        "inputs": "[" + ", ".join(given) + "]",
        "outputs": "[" + ", ".join(made) + "]",
        "cotangents": "[" + ", ".join(map(numbers, cotangents)) + "]",
        "gradients": "[" + ", ".join(map(numbers, gradients)) + "]",
    }
    return "{" + ", ".join(f'"{field}": {value}' for field, value in fields.items()) + "}"


def main():
    folder, total = pathlib.Path(__file__).parent, 0
    for family in FAMILIES:
        lines = [instance(*each) for each in instances_of(importlib.import_module(family))]
        header = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in HEADER.items())
        text = "{\n" + header + ',\n"instances": [\n' + ",\n".join(lines) + "\n]\n}\n"
        (folder / f"{family}.json").write_text(text)
        print(f"{family}: {len(lines)} instances, {len(text)} bytes")
        total += len(text)
    assert total < BYTES_MOST, f"{total} bytes: make instances smaller"


if __name__ == "__main__":
    main()
