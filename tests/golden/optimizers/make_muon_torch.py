"""Writes muon_torch.json: trajectories of PyTorch's Muon, in f64.

    python3.11 -m venv venv
    venv/bin/pip install torch==2.15.0
    venv/bin/python make_muon_torch.py

PyTorch iterates in bf16 whatever the dtype of a matrix. That function, and no other, is restated here in
the dtype of the matrix. PyTorch holds a layer's weight as [fan-out, fan-in]; the draws, and what is
written, are [fan-in, fan-out], so matrices are transposed on the way in and out.
"""

import pathlib
import platform

import torch

from draws import draw, write

KEPT = [1, 2, 10, 30]
CASES = [
    ("default", dict(lr=0.02)),
    ("rms", dict(lr=0.02, adjust_lr_fn="match_rms_adamw")),
    ("spectral", dict(lr=0.02, adjust_lr_fn="spectral_unclamped", weight_decay=0.0)),
    ("heavy_ball", dict(lr=0.01, nesterov=False, momentum=0.9)),
    ("three_rounds", dict(lr=0.02, ns_steps=3, ns_coefficients=(2.0, -1.5, 0.5), eps=1e-9)),
]


def orthogonal(x, coefficients, rounds, eps):
    a, b, c = coefficients
    if x.size(0) > x.size(1):
        return orthogonal(x.T, coefficients, rounds, eps).T
    x = x / x.norm().clamp(min=eps)
    for _ in range(rounds):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


torch.optim._muon._zeropower_via_newtonschulz = orthogonal


def trajectory(name, options, shape, seed):
    start, grads = draw(shape, seed)
    sizes = SHAPES[shape]
    of = lambda numbers: torch.tensor(numbers, dtype=torch.float64).reshape(sizes).T.contiguous()
    w = of(start).requires_grad_()
    optimizer = torch.optim.Muon([w], **options)
    values = []
    for step, grad in enumerate(grads[: KEPT[-1]], 1):
        w.grad = of(grad)
        optimizer.step()
        if step in KEPT:
            values.append(w.detach().T.reshape(-1).tolist())
    return {"name": name, "shape": shape, "seed": seed, "values": values, "slots": {}}


SHAPES = {"matrix": (4, 8), "square": (4, 4)}
header = {
    "program": "tests/golden/optimizers/make_muon_torch.py",
    "python": platform.python_version(),
    "torch": torch.__version__,
}
cases = [trajectory(*case, shape, 0) for case in CASES for shape in SHAPES]
path = pathlib.Path(__file__).with_name("muon_torch.json")
write(path, header, cases, digits=15, kept=KEPT)
