"""Writes wrappers.json: trajectories of optax's wrappers of optimizers and of Prodigy, in f64.

    python3.12 -m venv venv
    venv/bin/pip install jax==0.11.2 optax==0.2.8
    venv/bin/python make_wrappers.py

Three variables are updated together by fixed gradients, which are multiples of 1/64 (the same numbers in
f32 and in f64), or, for SAM, by those of a small model. `values` are the variables after the kept steps,
`evaluated` the weights that the wrapper evaluates with.
"""

import json
import pathlib
import platform
import random

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax

STEPS = 30
KEPT = [1, 7, 30]
SHAPES = {
    "b": {"cols": 8},
    "w": {"rows": 4, "cols": 8},
    "k": {"stack": 2, "rows": 4, "cols": 8},
}
# Steps, counted from 1, in which an element of the gradient of w is not finite.
BAD = {4: "nan", 5: "inf", 6: "-inf", 12: "nan"}
BAD_ELEMENT = 3


def sizes(name):
    return list(SHAPES[name].values())


def draw():
    """Starts, and gradients for each step."""
    generator = random.Random("wrappers")
    count = lambda name: int(np.prod(sizes(name)))
    number = lambda: generator.choice([-1, 1]) * generator.randint(16, 128) / 64
    start = {name: [number() for _ in range(count(name))] for name in SHAPES}
    grads = []
    for step in range(STEPS):
        scale = 4 if step % 5 == 3 else 1
        one = lambda: 0.0 if generator.random() < 0.05 else generator.randint(-64, 64) / 64
        grads.append({name: [scale * one() for _ in range(count(name))] for name in SHAPES})
    return start, grads


START, GRADS = draw()


def tree(lists):
    return {name: jnp.array(lists[name], jnp.float64).reshape(sizes(name)) for name in SHAPES}


def flat(arrays):
    return {name: [float(x) for x in np.asarray(arrays[name]).ravel()] for name in arrays}


def gradients(bad):
    for step, grads in enumerate(GRADS, 1):
        grads = tree(grads)
        if bad and step in BAD:
            flat_w = grads["w"].ravel().at[BAD_ELEMENT].set(float(BAD[step]))
            grads["w"] = flat_w.reshape(sizes("w"))
        yield step, grads


def run(name, optimizer, evaluated=None, bad=False):
    """`evaluated` is given the state and the variables."""
    params = tree(START)
    state = optimizer.init(params)
    values, seen = [], []
    for step, grads in gradients(bad):
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        if step in KEPT:
            values.append(flat(params))
            if evaluated:
                seen.append(flat(evaluated(state, params)))
    return {"name": name, "bad": bad, "values": values, "evaluated": seen}


def lookahead(name, optimizer):
    params = optax.LookaheadParams.init_synced(tree(START))
    state = optimizer.init(params)
    values, seen = [], []
    for step, grads in gradients(False):
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        if step in KEPT:
            values.append(flat(params.fast))
            seen.append(flat(params.slow))
    return {"name": name, "bad": False, "values": values, "evaluated": seen}


def averaged(name, decay, debias):
    """The weights of Adam and their average."""
    optimizer = optax.adam(0.02)
    average = optax.ema(decay, debias=debias)
    params = tree(START)
    state, of_average, plain = optimizer.init(params), average.init(params), params
    values, seen = [], []
    for step, grads in gradients(False):
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        debiased, of_average = average.update(params, of_average)
        plain = optax.incremental_update(params, plain, 1 - decay)
        if step in KEPT:
            values.append(flat(params))
            seen.append(flat(debiased if debias else plain))
    return {"name": name, "bad": False, "values": values, "evaluated": seen}


def line(start, end, steps):
    """A linear schedule; of counts, which are i32, optax would make f32."""
    schedule = optax.linear_schedule(start, end, steps)
    return lambda count: schedule(jnp.asarray(count, jnp.float64))


MODEL = {"first": [4, 8], "bias": [8], "second": [8]}
BATCH = 8


def sam(name, rho):
    generator = random.Random("sam")
    number = lambda: generator.randint(-128, 128) / 64
    count = lambda shape: int(np.prod(shape))
    draw_of = lambda shape: [number() for _ in range(count(shape))]
    start = {key: [x / 4 for x in draw_of(shape)] for key, shape in MODEL.items()}
    x, y = draw_of([BATCH, 4]), draw_of([BATCH])
    params = {key: jnp.array(start[key]).reshape(shape) for key, shape in MODEL.items()}
    inputs, wanted = jnp.array(x).reshape(BATCH, 4), jnp.array(y)

    def loss(p, _=None):
        hidden = jnp.tanh(inputs @ p["first"] + p["bias"])
        return jnp.mean((hidden @ p["second"] - wanted) ** 2)

    adversary = optax.chain(optax.contrib.normalize(), optax.sgd(rho))
    optimizer = optax.contrib.sam(optax.sgd(0.05, momentum=0.9), adversary, opaque_mode=True)
    state = optimizer.init(params)
    values, losses = [], []
    for step in range(1, STEPS + 1):
        losses.append(float(loss(params)))
        grads = jax.grad(loss)(params)
        updates, state = optimizer.update(grads, state, params, grad_fn=jax.grad(loss))
        params = optax.apply_updates(params, updates)
        if step in KEPT:
            values.append(flat(params))
    return {"name": name, "start": start, "x": x, "y": y, "values": values, "losses": losses}


contrib = optax.contrib
rms = lambda rate, decay: optax.chain(
    optax.scale_by_rms(decay=0.999, eps=1e-8, eps_in_sqrt=False, bias_correction=True),
    optax.add_decayed_weights(decay),
    optax.scale_by_learning_rate(rate),
)
free_eval = contrib.schedule_free_eval_params
warm = line(0.0, 0.02, 6)
CASES = [
    averaged("ema", 0.9, True),
    averaged("ema_from_the_start", 0.9, False),
    lookahead("lookahead", optax.lookahead(optax.adam(0.02), 4, 0.5)),
    lookahead("lookahead_reset",
              optax.lookahead(optax.sgd(0.02, momentum=0.9), 4, 0.8, reset_state=True)),
    run("schedule_free_sgd", contrib.schedule_free(optax.sgd(0.05), 0.05), free_eval),
    run("schedule_free_adamw", contrib.schedule_free(rms(warm, 0.1), warm), free_eval),
    run("schedule_free_options",
        contrib.schedule_free(optax.sgd(0.05), line(0.05, 0.01, 20), b1=0.8,
                              weight_lr_power=1.0), free_eval),
    run("prodigy", contrib.prodigy()),
    run("prodigy_options",
        contrib.prodigy(line(1.0, 0.2, 25), betas=(0.8, 0.98), beta3=0.9, eps=1e-6,
                        estim_lr0=1e-3, estim_lr_coef=0.7, weight_decay=0.01,
                        safeguard_warmup=True)),
    run("skip", optax.apply_if_finite(optax.adam(line(0.05, 0.0, 40)), 5), bad=True),
    run("accumulate", optax.MultiSteps(optax.adam(line(0.05, 0.0, 9)), 4,
                                       accumulator_dtype=jnp.float64)),
    run("accumulate_sum", optax.MultiSteps(optax.sgd(0.02, momentum=0.9), 3, use_grad_mean=False,
                                           accumulator_dtype=jnp.float64)),
    run("adaptive_clip", optax.chain(optax.adaptive_grad_clip(0.05), optax.sgd(0.1))),
]


def text(value):
    """JSON with numbers of fourteen digits."""
    if isinstance(value, dict):
        return "{" + ",\n".join(f"{json.dumps(k)}: {text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
        return "[" + ",\n".join(text(v) for v in value) + "]"
    if isinstance(value, list):
        return "[" + ",".join(text(v) for v in value) + "]"
    return f"{value:.14g}" if isinstance(value, float) else json.dumps(value)


whole = {
    "program": "tests/golden/optimizers/make_wrappers.py",
    "python": platform.python_version(),
    "jax": jax.__version__,
    "optax": optax.__version__,
    "kept": KEPT,
    "shapes": SHAPES,
    "bad": {str(step): bad for step, bad in BAD.items()},
    "bad_element": BAD_ELEMENT,
    "start": START,
    "grads": GRADS,
    "cases": CASES,
    "sam": [sam("sam", 0.1)],
}
path = pathlib.Path(__file__).with_name("wrappers.json")
path.write_text(text(whole) + "\n")
print(path.name, path.stat().st_size, "bytes,", len(CASES) + 1, "cases")
