"""What the optimizers by name start from and are given: numbers by a formula, the same in f32 and f64.

tests/tests/optimizers/named.rs has the same formula, so the golden files hold results only.
"""

import json
import pathlib
import platform

STEPS = 30
# Of the matrix the values after these steps are kept, of the others those after the last.
KEPT = [1, 2, 30]
SHAPES = {"vector": [4], "matrix": [4, 4], "cube": [2, 4, 4]}
# A network of two layers: the inputs and targets of four examples, and the kernels.
EXAMPLES, INPUTS, HIDDEN, OUTPUTS = 4, 3, 4, 2


def number(salt, step, index):
    """A multiple of 1/64 between -1 and 1."""
    return ((37 * index + 101 * step + 13 * index * step + 29 * salt) % 127 - 63) / 64


def numbers(salt, step, shape, scale=1.0):
    """Numbers in declared order, nested as the shape says."""
    count = 1
    for size in shape:
        count *= size
    flat = [scale * number(salt, step, index) for index in range(count)]
    for size in reversed(shape[1:]):
        flat = [flat[i:i + size] for i in range(0, len(flat), size)]
    return flat


def starts():
    return {name: numbers(i, 0, shape, 2.0) for i, (name, shape) in enumerate(SHAPES.items())}


def gradients(step):
    """Of the step with this number, from 1."""
    return {name: numbers(i, step, shape) for i, (name, shape) in enumerate(SHAPES.items())}


def falling(rate):
    """A rate that falls with the step, from 0."""
    return lambda step: rate / (1.0 + 0.1 * step)


def write(name, versions, cases):
    """JSON with numbers that are read back as they were, and a line for each list of numbers."""

    def text(value):
        if isinstance(value, dict):
            return "{" + ",\n".join(f"{json.dumps(k)}: {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            return "[" + ",\n".join(text(v) for v in value) + "]"
        return json.dumps(value, separators=(",", ":"))

    path = pathlib.Path(__file__).with_name(name)
    whole = {"python": platform.python_version(), **versions, "cases": cases}
    path.write_text(text(whole) + "\n")
    print(path.name, path.stat().st_size, "bytes,", len(cases), "cases")
