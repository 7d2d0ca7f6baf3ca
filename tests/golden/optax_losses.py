"""Losses of optax, and those that PyTorch lacks from their papers' formulas."""

import jax.numpy as jnp
import optax

from draw import golden


@golden()
def log_cosh(draw):
    draw.normal("x", "p q")
    draw.normal("target", "p q")
    return optax.log_cosh


@golden()
def hinge_loss(draw):
    draw.distinct("x", "p q")
    draw._input("side", "p q", lambda sizes: draw.rng.choice([-1.0, 1.0], sizes))
    return optax.hinge_loss


@golden()
def sigmoid_focal_loss(draw):
    alpha, gamma = draw.among("alpha", [0.25, 0.5, 0.9]), draw.among("gamma", [1.0, 2.0, 3.5])
    draw.normal("x", "p q")
    # Optax differs in the slope of targets, which are classes to it.
    draw.integers("target", "p q", 0, 1)
    return lambda x, target: optax.sigmoid_focal_loss(x, target * 1.0, alpha=alpha, gamma=gamma)


@golden()
def nt_xent(draw):
    """Equation 1 of SimCLR for all views; a view's loss is the mean of both of its example's."""
    temperature = draw.among("temperature", [0.1, 0.5, 1.0])
    draw.normal("one", "batch model")
    draw.normal("other", "batch model")

    def function(one, other):
        views = jnp.concatenate([one, other])
        views = views / jnp.linalg.norm(views, axis=-1, keepdims=True)
        alike = jnp.exp(views @ views.T / temperature)
        n, right = len(one), jnp.roll(alike, len(one), axis=1).diagonal()
        losses = -jnp.log(right / (alike.sum(1) - alike.diagonal()))
        return (losses[:n] + losses[n:]) / 2

    return function
