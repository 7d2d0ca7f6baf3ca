"""Writes schedules_torch.json: learning rates of PyTorch at 200 steps, and its reductions on plateaus.

    python3.11 -m venv venv
    venv/bin/pip install torch==2.15.0
    venv/bin/python make_torch_schedules.py
"""

import pathlib
import platform

import torch
from torch.optim import lr_scheduler

from metrics import METRICS, write

STEPS = 200

SCHEDULES = {
    "one_cycle": (0.1, lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.5, total_steps=200)),
    "one_cycle_linear": (0.1, lambda o: lr_scheduler.OneCycleLR(
        o, max_lr=0.5, total_steps=200, pct_start=0.22, anneal_strategy="linear", div_factor=10.0,
        final_div_factor=100.0)),
    "one_cycle_three": (0.1, lambda o: lr_scheduler.OneCycleLR(
        o, max_lr=0.5, total_steps=200, three_phase=True)),
    "restarts": (0.5, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=30)),
    "restarts_growing": (0.5, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(
        o, T_0=9, T_mult=3, eta_min=0.02)),
    "exponential": (0.5, lambda o: lr_scheduler.ExponentialLR(o, gamma=0.97)),
    "step": (0.5, lambda o: lr_scheduler.StepLR(o, step_size=30, gamma=0.4)),
}

PLATEAUS = {
    "plateau": dict(factor=0.5, patience=3, threshold=1e-2),
    "plateau_higher": dict(mode="max", factor=0.5, patience=2, threshold=0.05,
                           threshold_mode="abs", cooldown=3, min_lr=0.1),
}


def optimizer(rate):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate, momentum=0.9)


def rates(rate, make):
    own = optimizer(rate)
    schedule, found = make(own), []
    for _ in range(STEPS):
        found.append(float(own.param_groups[0]["lr"]))
        own.step()
        if len(found) < STEPS:
            schedule.step()
    return found


def plateau(options):
    own = optimizer(1.0)
    schedule, found = lr_scheduler.ReduceLROnPlateau(own, **options), []
    for metric in METRICS:
        schedule.step(metric)
        found.append(float(own.param_groups[0]["lr"]))
    return found


header = {
    "program": "tests/golden/optimizers/make_torch_schedules.py",
    "python": platform.python_version(),
    "torch": torch.__version__,
}
all_rates = {name: rates(rate, make) for name, (rate, make) in SCHEDULES.items()}
scales = {name: plateau(options) for name, options in PLATEAUS.items()}
write(pathlib.Path(__file__).with_name("schedules_torch.json"), header, all_rates, scales)
