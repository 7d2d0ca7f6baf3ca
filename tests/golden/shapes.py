"""Repeated, flipped and padded tensors, matrices, scatters."""

import jax
import jax.numpy as jnp

from draw import golden

TIMES = 3


@golden(TIMES)
def tile(draw):
    axis, times = draw.one("dim", "p q"), draw.among("times", [1, 2, 3])
    draw.normal("x", "p q")
    return lambda x: jnp.tile(x, [times if a == axis else 1 for a in range(2)])


@golden(TIMES)
def repeat(draw):
    axis, times = draw.one("dim", "p q"), draw.among("times", [1, 2, 3])
    draw.normal("x", "p q")
    return lambda x: jnp.repeat(x, times, axis)


@golden(TIMES)
def flip(draw):
    axes = draw.some("dims", "p q")
    draw.normal("x", "p q")
    return lambda x: jnp.flip(x, axes)


@golden(TIMES)
def roll(draw):
    axis, by = draw.one("dim", "p q"), draw.among("by", [-2, 1, 5])
    draw.normal("x", "p q")
    return lambda x: jnp.roll(x, by, axis)


@golden(TIMES)
def eye(draw):
    k, columns = draw.among("k", [-1, 0, 2]), draw.among("columns", [3, 4])
    draw.normal("x", "p")
    return lambda x: jnp.eye(x.shape[0], columns, k) * x[:, None]


@golden(TIMES)
def diag(draw):
    draw.normal("x", "p")
    return jnp.diag


@golden(TIMES)
def diagonal(draw):
    k = draw.among("k", [-1, 0, 1])
    draw.normal("x", "p q")
    return lambda x: jnp.diagonal(x, k)


@golden(TIMES)
def triangles(draw):
    k = draw.among("k", [-1, 0, 2])
    draw.normal("x", "p q")
    return lambda x: (jnp.tril(x, k), jnp.triu(x, k))


@golden(TIMES)
def linspace(draw):
    start, stop = draw.among("start", [-1.5, 0.1]), draw.among("stop", [2.0, -0.3])
    count = draw.among("count", [1, 4, 6])
    draw.normal("x", "p")
    return lambda x: jnp.linspace(start, stop, count) * x[:, None]


@golden(TIMES)
def meshgrid(draw):
    draw.normal("x", "p")
    draw.normal("y", "q")
    return lambda x, y: tuple(jnp.meshgrid(x, y, indexing="ij"))


@golden(TIMES)
def pad_with(draw):
    modes = ["reflect", "symmetric", "edge", "wrap"]
    mode, low, high = draw.among("mode", modes), draw.among("low", [0, 1, 3]), draw.among("high", [2, 5])
    draw.normal("x", "p q")
    return lambda x: jnp.pad(x, ((low, high), (0, 0)), mode)


@golden(TIMES)
def take_along(draw):
    size = draw.among("size", [2, 4])
    draw.normal("x", "p q")
    draw.sizes["r"] = size
    q = draw.size("q")
    draw.integers("at", "p r", 0, q - 1)
    return lambda x, at: jnp.take_along_axis(x, at, 1)


def scatter(name):
    def define(draw):
        draw.distinct("x", "p q")
        rows = draw.size("p")
        draw.between("updates", "n q", 0.5, 2)
        n = draw.size("n")
        # Of several JAX sets one of its choice, and differentiates no product.
        once = lambda sizes: draw.rng.permutation(max(rows, n))[:n].astype("int32")
        if name in ("set", "mul"):
            draw._input("at", "n", once)
        else:
            draw.integers("at", "n", 0, rows)
        how = {"mode": "drop", "unique_indices": name in ("set", "mul")}
        return lambda x, updates, at: getattr(x.at[at], name)(updates, **how)

    globals()[f"scatter_{name}"] = golden(TIMES, f"scatter_{name}")(define)


for each in ("set", "add", "max", "min", "mul"):
    scatter(each)


def segments(name, function):
    def define(draw):
        count = draw.among("segments", [2, 4])
        draw.distinct("x", "p q")
        draw.integers("ids", "p", 0, count)
        return lambda x, ids: function(x, ids, count)

    globals()[f"segment_{name}"] = golden(TIMES, f"segment_{name}")(define)


segments("sum", lambda x, ids, count: jax.ops.segment_sum(x, ids, count))
# A segment without elements has minus infinity.
segments("max", lambda x, ids, count: jax.ops.segment_max(x, ids, count))


@golden(2)
def segment_max_of_ties(draw):
    """Of equal elements each has a part of the gradient."""
    draw.coarse("x", "p q")
    draw.integers("ids", "p", 0, 1)
    return lambda x, ids: jax.ops.segment_max(x, ids, 2)


@golden(TIMES)
def space_to_depth(draw):
    draw.size("h", (2, 4))
    draw.size("w", (2, 6))
    draw.normal("x", "h w c")

    def function(x):
        h, w, c = x.shape
        blocks = x.reshape(h // 2, 2, w // 2, 2, c)
        return blocks.transpose(0, 2, 1, 3, 4).reshape(h // 2, w // 2, 4 * c)

    return function


@golden(TIMES)
def depth_to_space(draw):
    h, w, c = draw.size("h", (2, 3)), draw.size("w", (1, 2)), draw.size("c", (4, 8))
    draw.normal("x", "h w c")

    def function(x):
        blocks = x.reshape(h, w, 2, 2, c // 4).transpose(0, 2, 1, 3, 4)
        return blocks.reshape(2 * h, 2 * w, c // 4)

    return function
