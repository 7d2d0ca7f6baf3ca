"""Statistics, folds so far along a dim, counts."""

import jax
import jax.numpy as jnp
import numpy as np

from draw import Draw, golden

DIMS = "p q r"


def over(name, function, elements):
    """A function over some dims, with degrees of freedom or an order."""

    def define(draw):
        draw.size("q", (3, 4, 6))
        draw.sizes["p"] = 4
        axes = draw.some("dims", "p q")
        number = draw.among("number", [0, 1] if name in ("var", "std") else [1, 2, 3])
        elements(draw, "x", "p q")
        return lambda x: function(x, axes, number)

    globals()[f"over_{name}"] = golden(name=name)(define)


over("var", lambda x, axes, ddof: jnp.var(x, axes, ddof=ddof), Draw.normal)
over("std", lambda x, axes, ddof: jnp.std(x, axes, ddof=ddof), Draw.distinct)
over("vector_norm", lambda x, axes, p: jnp.linalg.vector_norm(x, axis=axes, ord=p), Draw.away)
over("count_nonzero", lambda x, axes, _: jnp.count_nonzero(x, axes).astype(jnp.int32), Draw.coarse)


@golden(ties=True)
def norms_at_the_ends(draw):
    draw.distinct("x", "p q")
    norm = jnp.linalg.vector_norm
    return lambda x: (norm(x, axis=1, ord=np.inf), norm(x, axis=1, ord=-np.inf))


def along(name, function, elements):
    """A function along one dim."""

    def define(draw):
        axis = draw.one("dim", "p q")
        elements(draw, "x", "p q")
        return lambda x: function(x, axis)

    globals()[f"along_{name}"] = golden(name=name, ties=True)(define)


along("median", lambda x, axis: jnp.median(x, axis), Draw.distinct)
along("cumprod", lambda x, axis: jnp.cumprod(x, axis), Draw.coarse)
along("cummax", lambda x, axis: jax.lax.cummax(x, axis), Draw.distinct)
along("cummin", lambda x, axis: jax.lax.cummin(x, axis), Draw.distinct)
along("logcumsumexp", lambda x, axis: jax.lax.cumlogsumexp(x, axis), Draw.normal)


@golden(ties=True, without="infinities")  # JAX interpolates between infinities: NaN.
def quantile(draw):
    q = draw.among("q_part", [0.0, 0.25, 0.9, 1.0])
    axis = draw.one("dim", "p q")
    draw.distinct("x", "p q")
    return lambda x: jnp.quantile(x, q, axis=axis)


@golden()
def median_of_nan(draw):
    draw.edges("x", "p q", (np.nan, np.inf, 0.5, 1.5, -1.0))
    return lambda x: jax.lax.stop_gradient(jnp.median(x, 1))


@golden(without="infinities")  # JAX multiplies factors first: 0 times infinity.
def linear_recurrence(draw):
    reverse = draw.among("reverse", [False, True])
    draw.between("a", "p", -1, 1)
    draw.normal("b", "p q")

    def function(a, b):
        combine = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
        return jax.lax.associative_scan(combine, (a[:, None], b), reverse=reverse)[1]

    return function


@golden()
def associative_scan(draw):
    """Products of matrices, whose order matters."""
    draw.size("p", (2, 3, 5))
    draw.sizes |= {"i": 2, "j": 2}
    draw.normal("x", "p i j")
    return lambda x: jax.lax.associative_scan(jnp.matmul, x)


@golden()
def associative_scan_with(draw):
    """Pairs, from the last position to the first or the other way."""
    reverse = draw.among("reverse", [False, True])
    draw.between("a", "p q", -1, 1)
    draw.normal("b", "p q")
    combine = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
    return lambda a, b: jax.lax.associative_scan(combine, (a, b), reverse=reverse)


@golden()
def extremes_of_nan(draw):
    draw.size("q", (6,))
    draw.edges("x", "p q")
    ends = lambda x: (jax.lax.cummax(x, 1), jax.lax.cummin(x, 1))
    return lambda x: ends(jax.lax.stop_gradient(x))


@golden()
def bincount(draw):
    bins = draw.among("bins", [4, 6])
    draw.integers("x", "p q", 0, 7)  # JAX counts what is below 0 at 0.
    return lambda x: jnp.bincount(x.ravel(), length=bins).astype(jnp.int32)


@golden()
def histogram(draw):
    bins = draw.among("bins", [4, 8])  # Parts whose ends are exact.
    draw.normal("x", "p q")
    count = lambda x: jnp.histogram(x.ravel(), bins=bins, range=(-1.0, 1.0))[0].astype(jnp.int32)
    return lambda x: count(jax.lax.stop_gradient(x))


@golden()
def searchsorted(draw):
    side = draw.among("side", ["left", "right"])
    draw._input("sorted", "p", lambda sizes: np.sort(draw.rng.integers(-2, 3, sizes) / 2))
    draw.coarse("x", "q r")
    return lambda s, x: jnp.searchsorted(s, x, side=side).astype(jnp.int32)


@golden()
def searchsorted_of_nan(draw):
    side = draw.attribute("side", "left" if draw.rng.integers(2) else "right")
    draw.size("p", (4, 6))
    among = np.array([np.inf, -np.inf, np.nan, 0.5, -1.0])
    draw._input("sorted", "p", lambda sizes: np.sort(draw.rng.choice(among, sizes)))
    draw.edges("x", "q", tuple(among))
    return lambda s, x: jnp.searchsorted(s, x, side=side).astype(jnp.int32)
