"""Order, selection by index, and what moves along a dim."""

import jax
import jax.numpy as jnp
import numpy as np

from draw import golden

DIMS = "p q r"


@golden(ties=True)
def sort(draw):
    axis, descending = draw.one("dim", DIMS), draw.among("descending", [False, True])
    draw.distinct("x", DIMS)
    return lambda x: jnp.sort(x, axis, descending=descending)


@golden()
def sort_of_nan(draw):
    """A NaN counts as the greatest."""
    descending = draw.among("descending", [False, True])
    draw.edges("x", "p q", (np.nan, np.inf, -np.inf, 0.5, -1.0))
    return lambda x: jnp.sort(jax.lax.stop_gradient(x), 1, descending=descending)


@golden(ties=True)
def argsort(draw):
    axis, descending = draw.one("dim", DIMS), draw.among("descending", [False, True])
    draw.coarse("x", DIMS)  # Equal elements keep their order.
    return lambda x: jnp.argsort(x, axis, descending=descending, stable=True)


@golden(ties=True)
def top_k(draw):
    axis = draw.one("dim", DIMS)
    draw.size(DIMS.split()[axis], (4, 6))
    k = draw.among("k", [1, 2, 3, 4])
    draw.distinct("x", DIMS)
    return lambda x: jax.lax.top_k(jnp.moveaxis(x, axis, -1), k)


@golden()
def top_k_with_ties(draw):
    draw.size("q", (6,))
    draw.coarse("x", "p q")  # The first comes first.
    return lambda x: jax.lax.top_k(x, 3)


@golden(ties=True)
def top_1(draw):
    draw.distinct("x", "p q")
    return lambda x: (jnp.max(x, 1), jnp.argmax(x, 1))


@golden(ties=True)
def nth(draw):
    draw.size("q", (4, 6))
    n = draw.among("n", [0, 1, 2, 3])
    draw.distinct("x", "p q")
    return lambda x: (jnp.sort(x, 1, descending=True)[:, n], jnp.sort(x, 1)[:, n])


def rows(x, i):
    """Rows of `x`, zeros for a row out of range."""
    inside = (i >= 0) & (i < x.shape[0])
    found = x[jnp.clip(i, 0, x.shape[0] - 1)]
    return jnp.where(inside[(...,) + (None,) * (x.ndim - 1)], found, 0.0)


def added(updates, i, count):
    """Sums of the rows of `updates` by index; out of range they are dropped."""
    i = jnp.where((i >= 0) & (i < count), i, count)
    return jnp.zeros((count, *updates.shape[i.ndim :])).at[i].add(updates, mode="drop")


@golden()
def gather(draw):
    draw.normal("x", "words width")
    draw.integers("i", "batch length", -1, draw.size("words"))
    return rows


@golden()
def gather_beside(draw):
    draw.normal("x", "batch words width")
    draw.integers("i", "batch length", -1, draw.size("words"))
    return jax.vmap(rows)


@golden()
def embed(draw):
    draw.normal("table", "vocab model")
    draw.integers("ids", "batch length", 0, draw.size("vocab") - 1)
    return lambda table, ids: jnp.take(table, ids, axis=0)


@golden()
def scatter_add(draw):
    count = draw.attribute("words", draw.size("words"))
    draw.normal("updates", "length width")
    draw.integers("i", "length", -1, count)
    return lambda updates, i: added(updates, i, count)


@golden()
def scatter_add_beside(draw):
    count = draw.attribute("words", draw.size("words"))
    draw.normal("updates", "batch length width")
    draw.integers("i", "batch length", -1, count)
    return jax.vmap(lambda updates, i: added(updates, i, count))


@golden()
def one_hot(draw):
    classes = draw.attribute("classes", draw.size("classes"))
    draw.integers("i", "p q", -1, classes)
    return lambda i: jax.nn.one_hot(i, classes, dtype=jnp.float64)


@golden()
def one_hot_with(draw):
    classes = draw.attribute("classes", draw.size("classes"))
    on, off = draw.attribute("on", 0.875), draw.attribute("off", 0.125)
    draw.integers("i", "p", -1, classes)
    return lambda i: jnp.where(i[:, None] == jnp.arange(classes), on, off)


def shifted(x, offset, wrap):
    """`out[i] = x[i - offset]` along the first axis."""
    n = x.shape[0]
    source = jnp.arange(n) - offset
    if wrap:
        return x[source % n]
    return rows(x, source)


@golden()
def shift(draw):
    offset, wrap = draw.among("offset", [-3, -2, -1, 1, 2, 3]), draw.among("wrap", [False, True])
    draw.normal("x", "p q")
    return lambda x: shifted(x, offset, wrap)


@golden()
def dynamic_shift(draw):
    wrap = draw.among("wrap", [False, True])
    draw.size("q", (4, 6))
    draw.normal("x", "p q")
    draw.integers("by", "p", -3, 3)
    return jax.vmap(lambda x, by: shifted(x, by, wrap))


@golden()
def reverse(draw):
    axis = draw.one("dim", DIMS)
    draw.normal("x", DIMS)
    return lambda x: jnp.flip(x, axis)


@golden()
def update_at(draw):
    """A row for each of a batch; an index outside of the dim changes nothing."""
    draw.normal("x", "batch q")
    draw.normal("row", "batch")
    draw.integers("at", "batch", 0, draw.size("q"))
    return jax.vmap(lambda x, row, at: x.at[at].set(row, mode="drop"))
