"""Writes schedules_optax.json: learning rates of optax at 200 steps, in f64, and its reductions on plateaus.

    python3.12 -m venv venv
    venv/bin/pip install jax==0.11.2 optax==0.2.8
    venv/bin/python make_schedules.py

What optax lacks (warm-up, stable, decay) is restated from the papers.
"""

import math
import pathlib
import platform

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import optax

from metrics import METRICS, write

STEPS = 200


def sgdr(periods, peak, shrink, end):
    peaks = [end + (peak - end) * shrink**n for n in range(len(periods))]
    return optax.schedules.sgdr_schedule([
        dict(init_value=p, peak_value=p, warmup_steps=0, decay_steps=steps, end_value=end)
        for p, steps in zip(peaks, periods)])


def trapezoid(rate, warmup, steps, decay, end, fall):
    """Hu et al. 2024, section 4.2; Hägele et al. 2024, equation 1."""

    def at(t):
        if t < warmup:
            return rate * t / warmup
        part = min(max((t - (steps - decay)) / decay, 0.0), 1.0)
        return fall(rate, end, part)

    return at


root = lambda rate, end, part: end + (rate - end) * (1 - math.sqrt(part))
linear = lambda rate, end, part: rate + (end - rate) * part
cosine = lambda rate, end, part: end + (rate - end) * (1 + math.cos(math.pi * part)) / 2
exponential = lambda rate, end, part: rate * (end / rate) ** part

SCHEDULES = {
    "exponential": optax.exponential_decay(0.3, 20, 0.7),
    "exponential_staircase": optax.exponential_decay(0.3, 20, 0.7, staircase=True, end_value=0.05),
    "exponential_begin": optax.exponential_decay(0.3, 20, 0.7, transition_begin=15),
    "exponential_rising": optax.exponential_decay(0.01, 20, 1.5, end_value=0.2),
    "cosine_onecycle": optax.cosine_onecycle_schedule(180, 0.5),
    "linear_onecycle": optax.linear_onecycle_schedule(180, 0.5, pct_start=0.25, pct_final=0.7,
                                                      div_factor=10.0, final_div_factor=100.0),
    "sgdr": sgdr([20, 40, 80, 160], 0.5, 1.0, 0.05),
    "sgdr_shrinking": sgdr([25] * 9, 0.5, 0.8, 0.05),
    "wsd_root": trapezoid(0.4, 20, 150, 50, 0.0, root),
    "wsd_linear": trapezoid(0.4, 0, 150, 40, 0.1, linear),
    "wsd_cosine": trapezoid(0.4, 20, 180, 160, 0.1, cosine),
    "wsd_exponential": trapezoid(0.4, 10, 150, 50, 0.004, exponential),
}

PLATEAUS = {
    "plateau": dict(factor=0.5, patience=4, rtol=1e-2),
    "plateau_options": dict(factor=0.3, patience=3, rtol=0.0, atol=0.02, cooldown=4,
                            accumulation_size=2, min_scale=0.01),
}


def plateau(options):
    optimizer = optax.contrib.reduce_on_plateau(**options)
    params = jnp.zeros(1)
    state, scales = optimizer.init(params), []
    for metric in METRICS:
        _, state = optimizer.update(params, state, value=jnp.asarray(metric))
        scales.append(float(state.scale))
    return scales


header = {
    "program": "tests/golden/optimizers/make_schedules.py",
    "python": platform.python_version(),
    "jax": jax.__version__,
    "optax": optax.__version__,
}
rates = {name: [float(rate(t)) for t in range(STEPS)] for name, rate in SCHEDULES.items()}
scales = {name: plateau(options) for name, options in PLATEAUS.items()}
write(pathlib.Path(__file__).with_name("schedules_optax.json"), header, rates, scales)
