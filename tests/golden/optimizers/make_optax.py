"""Writes named_optax.json: trajectories of optax's optimizers by name, in f64.

    python3.12 -m venv venv && venv/bin/pip install optax==0.2.8 jax==0.11.2
    venv/bin/python make_optax.py
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import optax
from optax import contrib

from problem import (EXAMPLES, HIDDEN, INPUTS, KEPT, OUTPUTS, STEPS, falling, gradients, numbers,
                     starts, write)


def decayed(optimizer, rate, decay):
    """Decoupled decay where the alias has none."""
    return optax.chain(optimizer, optax.add_decayed_weights(decay), optax.scale_by_learning_rate(rate))


def squares():
    """An estimate of curvature for Sophia that is not drawn."""
    square = lambda updates, state, params=None: (jax.tree.map(jnp.square, updates), state)
    return optax.GradientTransformation(lambda params: optax.EmptyState(), square)


CASES = {
    "nesterov": optax.sgd(0.02, momentum=0.8, nesterov=True),
    "adam": optax.adam(0.02, eps_root=1e-4),
    "adamw_nesterov": optax.adamw(0.02, b1=0.8, b2=0.95, nesterov=True),
    "nadam": optax.nadam(0.02),
    "nadamw": optax.nadamw(0.02, b1=0.8, b2=0.95, eps=1e-4, eps_root=1e-5, weight_decay=0.1),
    "amsgrad": optax.amsgrad(0.02, b1=0.8, b2=0.9),
    "amsgrad_options": optax.amsgrad(
        0.02, eps=1e-3, eps_root=1e-4, bias_correction_mu=False, bias_correction_nu=False),
    "adadelta": optax.adadelta(0.5, rho=0.95, eps=1e-4, weight_decay=0.1),
    "adagrad": optax.adagrad(0.1),
    "adagrad_from_zero": optax.adagrad(0.1, initial_accumulator_value=0.0, eps=1e-3),
    "adamax": optax.adamax(0.02, b1=0.8, b2=0.95, eps=1e-3),
    "adamaxw": optax.adamaxw(0.02, weight_decay=0.1),
    "radam": optax.radam(0.02),
    "radam_options": optax.radam(
        0.02, b1=0.8, b2=0.95, eps=1e-2, eps_root=1e-4, threshold=4.5, nesterov=True),
    "radam_never": optax.radam(0.02, b2=0.6),
    "rmsprop": optax.rmsprop(0.01),
    "rmsprop_centered": optax.rmsprop(
        0.01, decay=0.95, eps=1e-3, initial_scale=0.5, centered=True, bias_correction=True),
    "rmsprop_outside": optax.rmsprop(0.01, eps=1e-3, eps_in_sqrt=False, momentum=0.8, nesterov=True),
    "rmsprop_falling": optax.rmsprop(falling(0.01), momentum=0.8),
    "adabelief": optax.adabelief(0.02),
    "adabelief_options": optax.adabelief(
        0.02, b1=0.8, b2=0.95, eps=1e-3, eps_root=1e-4, nesterov=True),
    "yogi": optax.yogi(0.05),
    "yogi_options": decayed(
        optax.scale_by_yogi(0.8, 0.95, 1e-2, 1e-4, initial_accumulator_value=0.1), 0.05, 0.1),
    "adan": optax.adan(0.02),
    "adan_options": optax.adan(
        0.02, b1=0.9, b2=0.8, b3=0.95, eps=1e-3, eps_root=1e-4, weight_decay=0.1),
    "ademamix": contrib.ademamix(0.02),
    "ademamix_options": contrib.ademamix(
        0.02, b1=0.8, b2=0.95, b3=lambda step: 1 - 1 / (jnp.float64(step) + 2),
        alpha=lambda step: 0.1 * jnp.float64(step),
        eps=1e-3, eps_root=1e-4, weight_decay=0.1),
    "adopt": contrib.adopt(0.02),
    "adopt_options": contrib.adopt(0.02, b1=0.8, b2=0.95, eps=0.5, nesterov=True, use_clipping=False),
    "lion": optax.lion(0.01),
    "lion_options": optax.lion(0.01, b1=0.8, b2=0.95, weight_decay=0.1),
    "sign_sgd": optax.sign_sgd(0.02),
    "signum": optax.signum(0.02, beta=0.8),
    "lamb": optax.lamb(0.02, weight_decay=0.1),
    "lamb_options": optax.lamb(0.02, b1=0.8, b2=0.95, eps=1e-3, eps_root=1e-4),
    "lars": optax.lars(0.5, trust_coefficient=0.1),
    "lars_options": optax.lars(
        falling(0.5), weight_decay=0.1, trust_coefficient=0.1, eps=0.01, momentum=0.8, nesterov=True),
    "novograd": optax.novograd(0.02),
    "novograd_options": optax.novograd(
        0.02, b1=0.8, b2=0.5, eps=1e-2, eps_root=1e-3, weight_decay=0.1),
    "sm3": optax.sm3(0.1),
    "sm3_options": optax.chain(optax.scale_by_sm3(0.8, 0.95, 1e-3), optax.scale(-0.1)),
    "sophia": contrib.sophia(0.002, hessian_diagonal_fn=squares()),
    "sophia_options": contrib.sophia(
        0.02, b1=0.9, b2=0.8, eps=1e-2, gamma=2.0, clip_threshold=None, weight_decay=0.1,
        hessian_diagonal_fn=squares()),
}


def each_step(optimizer, parameters, gradient):
    state = optimizer.init(parameters)
    update = jax.jit(optimizer.update)
    for step in range(STEPS):
        updates, state = update(gradient(step, parameters), state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        yield step + 1, parameters


def fixed(optimizer):
    kept = {"vector": [], "matrix": [], "cube": []}
    arrays = lambda lists: {key: jnp.array(value) for key, value in lists.items()}
    given = lambda step, parameters: arrays(gradients(step + 1))
    for step, values in each_step(optimizer, arrays(starts()), given):
        for key in kept:
            if step == STEPS or key == "matrix" and step in KEPT:
                kept[key].append(values[key].ravel().tolist())
    return kept


def model(optimizer):
    x, y = jnp.array(numbers(5, 1, [EXAMPLES, INPUTS])), jnp.array(numbers(6, 1, [EXAMPLES, OUTPUTS]))
    kernels = [jnp.array(numbers(7, 1, [INPUTS, HIDDEN])), jnp.array(numbers(8, 1, [HIDDEN, OUTPUTS]))]
    loss = lambda kernels: jnp.mean((jnp.tanh(x @ kernels[0]) @ kernels[1] - y) ** 2)
    both, losses = jax.jit(jax.value_and_grad(loss)), []

    def gradient(step, kernels):
        value, grads = both(kernels)
        losses.append(float(value))
        return grads

    list(each_step(optimizer, kernels, gradient))
    return losses[9::10]


cases = [{"name": name, **fixed(optimizer), "losses": model(optimizer)}
         for name, optimizer in CASES.items()]
write("named_optax.json", {"jax": jax.__version__, "optax": optax.__version__}, cases)
