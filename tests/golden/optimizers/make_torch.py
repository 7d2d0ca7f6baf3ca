"""Writes torch.json: trajectories of PyTorch's optimizers, in f64.

    python3.11 -m venv venv
    venv/bin/pip install torch==2.15.0
    venv/bin/python make_torch.py
"""

import pathlib
import platform

import torch

from draws import KEPT, draw, write

CASES = [
    ("sgd", lambda p: torch.optim.SGD(p, lr=0.05)),
    ("momentum", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9)),
    ("nesterov", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True)),
    ("adamw", lambda p: torch.optim.AdamW(p, lr=0.02)),
    ("adamw_options",
     lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    ("adam", lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.0)),
]


def trajectory(make, shape, seed):
    start, grads = draw(shape, seed)
    w = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    values = []
    for step, grad in enumerate(grads, 1):
        w.grad = torch.tensor(grad, dtype=torch.float64)
        optimizer.step()
        if step in KEPT:
            values.append(w.detach().tolist())
    return {"name": name, "shape": shape, "seed": seed, "values": values, "slots": {}}


header = {
    "program": "tests/golden/optimizers/make_torch.py",
    "python": platform.python_version(),
    "torch": torch.__version__,
}
cases = []
for name, make in CASES:
    for shape in ["vector", "matrix"]:
        cases.append(trajectory(make, shape, 0))
write(pathlib.Path(__file__).with_name("torch.json"), header, cases)
