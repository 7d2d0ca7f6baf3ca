"""Writes named_torch.json: trajectories of torch.optim's optimizers by name, in f64.

    python3.12 -m venv venv && venv/bin/pip install torch==2.15.0
    venv/bin/python make_named_torch.py
"""

import torch
from torch import optim

from problem import (EXAMPLES, HIDDEN, INPUTS, KEPT, OUTPUTS, STEPS, falling, gradients, numbers,
                     starts, write)

# NAdam keeps its product of momenta in the default dtype.
torch.set_default_dtype(torch.float64)

CASES = {
    "momentum_dampened": lambda p: optim.SGD(p, lr=0.02, momentum=0.9, dampening=0.3),
    "nesterov_coupled": lambda p: optim.SGD(p, lr=0.02, momentum=0.8, nesterov=True, weight_decay=0.1),
    "adam": lambda p: optim.Adam(p, lr=0.02),
    "adam_coupled": lambda p: optim.Adam(p, lr=0.02, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    "amsgrad": lambda p: optim.Adam(p, lr=0.02, betas=(0.8, 0.9), amsgrad=True),
    "amsgrad_coupled": lambda p: optim.Adam(p, lr=0.02, amsgrad=True, weight_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "adadelta_options": lambda p: optim.Adadelta(p, lr=0.5, rho=0.95, eps=1e-4, weight_decay=0.1),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "adagrad_options": lambda p: optim.Adagrad(
        p, lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.2, eps=1e-3),
    "adamax": lambda p: optim.Adamax(p, lr=0.02),
    "adamax_options": lambda p: optim.Adamax(
        p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.02),
    "nadam_options": lambda p: optim.NAdam(
        p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.02),
    "nadam_decoupled": lambda p: optim.NAdam(
        p, lr=0.02, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: optim.RAdam(p, lr=0.02),
    "radam_options": lambda p: optim.RAdam(
        p, lr=0.02, betas=(0.8, 0.9), eps=1e-2, weight_decay=0.1),
    "radam_decoupled": lambda p: optim.RAdam(
        p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1, decoupled_weight_decay=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "rmsprop_options": lambda p: optim.RMSprop(
        p, lr=0.01, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.8, centered=True),
    "rmsprop_falling": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.8),
    "rprop": lambda p: optim.Rprop(p),
    "rprop_options": lambda p: optim.Rprop(
        p, lr=0.05, etas=(0.4, 1.5), step_sizes=(0.01, 0.2)),
}


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def each_step(make, parameters, name, gradient):
    """Steps with the gradients that `gradient` puts into the parameters."""
    optimizer = make(parameters)
    for step in range(STEPS):
        for group in optimizer.param_groups if name.endswith("falling") else []:
            group["lr"] = falling(0.01)(step)
        optimizer.zero_grad()
        gradient(step)
        optimizer.step()
        yield step + 1


def fixed(name, make):
    values = {key: tensor(start).requires_grad_() for key, start in starts().items()}

    def gradient(step):
        for key, given in gradients(step + 1).items():
            values[key].grad = tensor(given)

    kept = {"vector": [], "matrix": [], "cube": []}
    for step in each_step(make, list(values.values()), name, gradient):
        for key in kept:
            if step == STEPS or key == "matrix" and step in KEPT:
                kept[key].append(values[key].detach().flatten().tolist())
    return kept


def model(name, make):
    x, y = tensor(numbers(5, 1, [EXAMPLES, INPUTS])), tensor(numbers(6, 1, [EXAMPLES, OUTPUTS]))
    first = tensor(numbers(7, 1, [INPUTS, HIDDEN])).requires_grad_()
    second = tensor(numbers(8, 1, [HIDDEN, OUTPUTS])).requires_grad_()
    losses = []

    def gradient(step):
        loss = torch.mean((torch.tanh(x @ first) @ second - y) ** 2)
        loss.backward()
        losses.append(loss.item())

    list(each_step(make, [first, second], name, gradient))
    return losses[9::10]


cases = [{"name": name, **fixed(name, make), "losses": model(name, make)}
         for name, make in CASES.items()]
write("named_torch.json", {"torch": torch.__version__}, cases)
