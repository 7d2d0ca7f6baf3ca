"""Writes golden files as make.py does, of what PyTorch computes.

    python3.12 -m venv venv && venv/bin/pip install torch==2.15.0 numpy==2.4.6
    venv/bin/python make_torch.py
"""

import platform

import numpy as np
import torch

from draw import SEED
from lines import kind, write

FAMILIES = [
    "torch_losses", "torch_images", "torch_recurrent", "torch_state_space", "torch_layers", "torch_functions",
]
HEADER = {
    "program": "tests/golden/make_torch.py",
    "python": platform.python_version(),
    "torch": torch.__version__.split("+")[0],
    "numpy": np.__version__,
    "seed": SEED,
}

torch.set_default_dtype(torch.float64)


def evaluate(function, inputs, draw, edge=None):
    """Outputs, cotangents of the float ones, gradients of the float inputs; at edges outputs alone."""
    inputs = [torch.tensor(x, requires_grad=kind(x) == "float") for x in inputs]
    outputs = function(*inputs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if edge:
        return [y.detach().numpy() for y in outputs], [], []
    floats = [y for y in outputs if y.is_floating_point()]
    seeds = [draw.normal_of(tuple(y.shape)) for y in floats]
    into = [x for x in inputs if x.requires_grad]
    gradients = []
    if floats and into:
        seeded = [torch.tensor(seed) for seed in seeds]
        found = torch.autograd.grad(floats, into, seeded, allow_unused=True)
        gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(into, found)]
    numbers = lambda tensors: [tensor.detach().numpy() for tensor in tensors]
    return numbers(outputs), seeds if into else [], numbers(gradients)


if __name__ == "__main__":
    write(FAMILIES, HEADER, evaluate)
