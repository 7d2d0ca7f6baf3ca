"""Other dims for the same elements."""

import jax.numpy as jnp

from draw import golden

DIMS = "p q r"


@golden()
def pad(draw):
    axis, low, high = draw.one("dim", DIMS), draw.among("low", [0, 1, 2]), draw.among("high", [1, 3])
    draw.normal("x", DIMS)
    widths = [(low, high) if a == axis else (0, 0) for a in range(3)]
    return lambda x: jnp.pad(x, widths)


@golden()
def slice(draw):
    axis = draw.one("dim", DIMS)
    n = draw.size(DIMS.split()[axis], (4, 6))
    size = draw.among("size", [2, 3])
    begin = draw.attribute("begin", int(draw.rng.integers(0, n - size + 1)))
    draw.normal("x", DIMS)
    return lambda x: jnp.take(x, jnp.arange(begin, begin + size), axis=axis)


@golden()
def concat(draw):
    draw.normal("x", "p q")
    draw.sizes["p"] = draw.attribute("more", 2)
    draw.normal("y", "p q")
    return lambda x, y: jnp.concatenate([x, y], 0)


@golden()
def stack(draw):
    draw.normal("x", "p q")
    draw.normal("y", "q p")
    return lambda x, y: jnp.stack([x, y.T])


@golden()
def split(draw):
    draw.size("p", (6,))
    draw.normal("x", "p q")
    return lambda x: (x[:2], x[2:])


@golden()
def unstack(draw):
    draw.size("q", (3,))
    draw.normal("x", "p q r")
    return lambda x: tuple(x[:, i] for i in range(3))


@golden()
def transpose(draw):
    draw.normal("x", DIMS)
    order = [int(i) for i in draw.rng.permutation(3)]
    draw.attribute("dims", [DIMS.split()[i] for i in order])
    return lambda x: jnp.transpose(x, order)


@golden()
def reshape(draw):
    draw.size("p", (4, 6))
    draw.normal("x", "p q")
    return lambda x: x.reshape(2, x.shape[0] // 2, x.shape[1])


@golden()
def merge_dims(draw):
    draw.normal("x", DIMS)
    # r and p merged stand where r, the first of them, stood: after q.
    return lambda x: jnp.transpose(x, (1, 2, 0)).reshape(x.shape[1], -1)


@golden()
def broadcast(draw):
    n = draw.attribute("r", draw.size("r"))
    draw.normal("x", "p q")
    return lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], n, x.shape[1]))


@golden()
def pick(draw):
    axis = draw.one("dim", DIMS)
    at = draw.attribute("at", int(draw.rng.integers(draw.size(DIMS.split()[axis]))))
    draw.normal("x", DIMS)
    return lambda x: jnp.take(x, at, axis)


@golden()
def split_evenly(draw):
    draw.size("p", (6,)), draw.size("q", (1, 2, 3))
    draw.normal("x", "p q")
    return lambda x: tuple(jnp.split(x, 3))


@golden()
def likes(draw):
    draw.normal("x", "p q")
    return lambda x: (jnp.zeros_like(x), jnp.ones_like(x))


@golden()
def replace_dims(draw):
    draw.size("q", (4, 6))
    draw.normal("x", "p q r")
    return lambda x: x.reshape(x.shape[0], 2, -1, x.shape[2])
