"""How instances are written: a file of JSON for each family, a line for each instance; and one in `edges/` for those
with infinities, NaN or ties, of which there are values alone."""

import importlib
import json
import pathlib
import sys

import numpy as np

from draw import at_edges, instances_of

FOLDER = pathlib.Path(__file__).parent
# Of all golden files together.
BYTES_MOST = 1_500_000


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


def instance(name, draw, function, evaluate, edge=None):
    """One instance as a line of JSON."""
    outputs, cotangents, gradients = evaluate(function, [array for _, _, array in draw.inputs], draw, edge)

    def tensor(array, **about):
        about = json.dumps(about | {"kind": kind(array)})[:-1]
        return f'{about}, "data": {numbers(array)}}}'

    given = [tensor(array, name=name, shape=shape) for name, shape, array in draw.inputs]
    made = [tensor(y, sizes=list(np.shape(y))) for y in outputs]
    fields = {
        "name": json.dumps(name),
        **({"edge": json.dumps(edge)} if edge else {}),
        "attributes": json.dumps(draw.attributes),
        "inputs": "[" + ", ".join(given) + "]",
        "outputs": "[" + ", ".join(made) + "]",
        "cotangents": "[" + ", ".join(map(numbers, cotangents)) + "]",
        "gradients": "[" + ", ".join(map(numbers, gradients)) + "]",
    }
    return "{" + ", ".join(f'"{field}": {value}' for field, value in fields.items()) + "}"


def write(families, header, evaluate):
    """Writes the file of each family, or only those that the command line names, and its edges, or these alone if it
    says `edges`. `evaluate(function, inputs, draw, edge)` gives outputs, cotangents of those that are floats, and gradients of
    the inputs that are."""
    named = [argument for argument in sys.argv[1:] if argument != "edges"]
    for family in [family for family in families if not named or family in named]:
        module = importlib.import_module(family)
        if "edges" not in sys.argv:
            save(f"{family}.json", header, [instance(*each, evaluate) for each in instances_of(module)])
        edges = [instance(name, draw, f, evaluate, kind) for name, draw, f, kind in at_edges(module)]
        save(f"edges/{family}.json", header, edges)
    total = sum(path.stat().st_size for path in FOLDER.glob("**/*.json") if path.parent.name != "optimizers")
    assert total < BYTES_MOST, f"{total} bytes: make instances smaller"


def save(name, header, lines):
    """Writes a file."""
    about = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in header.items())
    text = "{\n" + about + ',\n"instances": [\n' + ",\n".join(lines) + "\n]\n}\n"
    (FOLDER / name).write_text(text)
    print(f"{name}: {len(lines)} instances, {len(text)} bytes", flush=True)
