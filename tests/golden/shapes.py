"""Repeated, flipped and padded tensors, matrices, scatters."""

import jax
import jax.numpy as jnp

from draw import golden


@golden()
def tile(draw):
    axis, times = draw.one("dim", "p q"), draw.among("times", [1, 2, 3])
    draw.normal("x", "p q")
    return lambda x: jnp.tile(x, [times if a == axis else 1 for a in range(2)])


@golden()
def repeat(draw):
    axis, times = draw.one("dim", "p q"), draw.among("times", [1, 2, 3])
    draw.normal("x", "p q")
    return lambda x: jnp.repeat(x, times, axis)


@golden()
def flip(draw):
    axes = draw.some("dims", "p q")
    draw.normal("x", "p q")
    return lambda x: jnp.flip(x, axes)


@golden()
def roll(draw):
    axis, by = draw.one("dim", "p q"), draw.among("by", [-2, 1, 5])
    draw.normal("x", "p q")
    return lambda x: jnp.roll(x, by, axis)


@golden()
def eye(draw):
    draw.size("p", (2, 3, 4, 5))
    k, columns = draw.among("k", [-1, 0, 2]), draw.among("columns", [2, 4] if draw.sizes["p"] % 2 else [3, 4])
    draw.normal("x", "p")
    return lambda x: jnp.eye(x.shape[0], columns, k) * x[:, None]


@golden()
def diag(draw):
    draw.normal("x", "q p")
    return jax.vmap(jnp.diag)


@golden()
def diagonal(draw):
    # Diagonals of two or four elements, which can be split.
    k, columns = [(-1, 2), (0, 5), (1, 5), (0, 2), (1, 3)][int(draw.rng.integers(5))]
    draw.attribute("k", k)
    draw.sizes |= {"p": 4, "q": columns}
    draw.normal("x", "p q")
    return lambda x: jnp.diagonal(x, k)


@golden()
def triangles(draw):
    k = draw.among("k", [-1, 0, 2])
    draw.normal("x", "p q")
    return lambda x: (jnp.tril(x, k), jnp.triu(x, k))


@golden()
def linspace(draw):
    start, stop = draw.among("start", [-1.5, 0.1]), draw.among("stop", [2.0, -0.3])
    draw.size("p", (2, 3, 4, 5))
    count = draw.among("count", [4, 6] if draw.sizes["p"] % 2 else [1, 4, 5])
    draw.normal("x", "p")
    return lambda x: jnp.linspace(start, stop, count) * x[:, None]


@golden()
def meshgrid(draw):
    draw.normal("x", "p")
    draw.normal("y", "q")
    return lambda x, y: tuple(jnp.meshgrid(x, y, indexing="ij"))


@golden()
def pad_with(draw):
    modes = ["reflect", "symmetric", "edge", "wrap"]
    mode, low, high = draw.among("mode", modes), draw.among("low", [0, 1, 3]), draw.among("high", [2, 5])
    draw.size("p", (1, 2, 3, 5) if mode != "reflect" else (2, 3, 5)), draw.size("q", (2, 4))
    draw.normal("x", "p q")
    return lambda x: jnp.pad(x, ((low, high), (0, 0)), mode)


@golden()
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

    globals()[f"scatter_{name}"] = golden(name=f"scatter_{name}", ties=name in ("max", "min"))(define)


for each in ("set", "add", "max", "min", "mul"):
    scatter(each)


def segments(name, function):
    def define(draw):
        count = draw.among("segments", [2, 4])
        draw.distinct("x", "p q")
        draw.integers("ids", "p", 0, count)
        return lambda x, ids: function(x, ids, count)

    globals()[f"segment_{name}"] = golden(name=f"segment_{name}", ties=name == "max")(define)


segments("sum", lambda x, ids, count: jax.ops.segment_sum(x, ids, count))
# A segment without elements has minus infinity.
segments("max", lambda x, ids, count: jax.ops.segment_max(x, ids, count))


@golden()
def segment_max_of_ties(draw):
    """Of equal elements each has a part of the gradient."""
    draw.coarse("x", "p q")
    draw.integers("ids", "p", 0, 1)
    return lambda x, ids: jax.ops.segment_max(x, ids, 2)


@golden()
def space_to_depth(draw):
    draw.size("h", (2, 4))
    draw.size("w", (2, 6))
    draw.normal("x", "h w c")

    def function(x):
        h, w, c = x.shape
        blocks = x.reshape(h // 2, 2, w // 2, 2, c)
        return blocks.transpose(0, 2, 1, 3, 4).reshape(h // 2, w // 2, 4 * c)

    return function


@golden()
def depth_to_space(draw):
    h, w, c = draw.size("h", (2, 3)), draw.size("w", (1, 2)), draw.size("c", (4, 8))
    draw.normal("x", "h w c")

    def function(x):
        blocks = x.reshape(h, w, 2, 2, c // 4).transpose(0, 2, 1, 3, 4)
        return blocks.reshape(2 * h, 2 * w, c // 4)

    return function
