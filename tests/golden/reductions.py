"""Reductions, products with contraction, cumulative sums, softmax."""

import jax
import jax.numpy as jnp
import numpy as np

from draw import Draw, golden

DIMS = "p q r"
REDUCTIONS = {
    "sum": (jnp.sum, Draw.normal),
    "mean": (jnp.mean, Draw.normal),
    "variance": (jnp.var, Draw.normal),
    "prod": (jnp.prod, Draw.away),
    "prod_with_zeros": (jnp.prod, Draw.coarse),
    "max": (jnp.max, Draw.distinct),
    "max_with_ties": (jnp.max, Draw.coarse),  # All that are greatest share the gradient evenly.
    "min": (jnp.min, Draw.distinct),
    "all": (jnp.all, Draw.bools),
    "any": (jnp.any, Draw.bools),
}


def reduction(name, function, elements):
    def define(draw):
        axes = draw.some("dims", DIMS)
        elements(draw, "x", DIMS)
        return lambda x: function(x, axis=axes)

    globals()[f"reduce_{name}"] = golden(name=name, ties=name in ("max", "min"))(define)


for each, (function, elements) in REDUCTIONS.items():
    reduction(each, function, elements)


def along(name, function, elements=Draw.normal):
    """A function along one dim."""

    def define(draw):
        axis = draw.one("dim", DIMS)
        elements(draw, "x", DIMS)
        return lambda x: function(x, axis=axis)

    globals()[f"along_{name}"] = golden(name=name)(define)


along("argmax", jnp.argmax, Draw.coarse)
along("argmin", jnp.argmin, Draw.coarse)
along("softmax", jax.nn.softmax)
along("log_softmax", jax.nn.log_softmax)
along("logsumexp", jax.nn.logsumexp)


@golden(4)
def cumsum(draw):
    axis = draw.one("dim", DIMS)
    exclusive, reverse = (draw.among(name, [False, True]) for name in ("exclusive", "reverse"))
    draw.normal("x", DIMS)

    def function(x):
        sums = jax.lax.cumsum(x, axis, reverse)
        if not exclusive:
            return sums
        first, none = (slice(1, None), (0, 1)) if reverse else (slice(-1), (1, 0))
        moved = jnp.moveaxis(sums, axis, 0)[first]
        return jnp.moveaxis(jnp.pad(moved, (none, (0, 0), (0, 0))), 0, axis)

    return function


def with_sink(x, sink, axes):
    """`x`, one logit more along one flat last axis, and how many positions that has."""
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    flat = jnp.transpose(x, kept + axes).reshape(*(x.shape[a] for a in kept), -1)
    sink = jnp.broadcast_to(sink, flat.shape[:-1])[..., None]
    return jnp.concatenate([flat, sink], -1), flat.shape[-1]


@golden()
def logsumexp_with(draw):
    draw.normal("x", DIMS)
    draw.normal("sink", "")
    axes = draw.some("dims", DIMS)
    return lambda x, sink: jax.nn.logsumexp(with_sink(x, sink, axes)[0], axis=-1)


@golden()
def softmax_with(draw):
    draw.normal("x", "p q")
    draw.normal("sink", "p")
    return lambda x, sink: jax.nn.softmax(with_sink(x, sink, (1,))[0])[:, :-1]


@golden()
def log_softmax_with(draw):
    draw.normal("x", "p q")
    draw.normal("sink", "p")
    return lambda x, sink: jax.nn.log_softmax(with_sink(x, sink, (1,))[0])[:, :-1]


@golden(8)
def einsum(draw):
    """Two or three factors of random dims; random dims of theirs are kept, in random order."""
    factors = []
    for i in range(draw.rng.integers(2, 4)):
        count = draw.rng.integers(1, 4)
        factors.append([str(d) for d in draw.rng.choice(list("abcde"), count, replace=False)])
        draw.normal(f"x{i}", " ".join(factors[-1]))
    dims = sorted(set(sum(factors, [])))
    kept = draw.rng.choice(dims, draw.rng.integers(0, min(len(dims), 3) + 1), replace=False)
    draw.attribute("output", [str(d) for d in kept])
    spec = ",".join("".join(f) for f in factors) + "->" + "".join(kept)
    return lambda *x: jnp.einsum(spec, *x)


@golden()
def at_the_ends(draw):
    """Reductions of infinities and NaN."""
    draw.edges("x", "p q")
    fixed = jax.lax.stop_gradient
    functions = [jnp.max, jnp.min, jnp.sum, jnp.prod]
    return lambda x: tuple(f(fixed(x), axis=1) for f in functions)


@golden()
def softmax_of_infinities(draw):
    """What is masked by minus infinity has no weight."""
    draw.size("q", (2, 3, 4)), draw.size("p", (2, 4))
    draw.edges("x", "p q", (-np.inf, 1.5, -2.0))
    draw.inputs[0][2][:, 0] = 0.5
    fixed = jax.lax.stop_gradient
    return lambda x: (jax.nn.softmax(fixed(x), 1), jax.nn.logsumexp(fixed(x), 1))


@golden()
def add_n(draw):
    """Of different orders of dims."""
    draw.normal("x", "p q")
    draw.normal("y", "q p")
    draw.normal("z", "p q")
    return lambda x, y, z: x + y.T + z


@golden()
def sum_onto(draw):
    draw.normal("x", DIMS)
    return lambda x: jnp.sum(x, 1).T


@golden()
def matmul(draw):
    draw.normal("x", "batch i k")
    draw.normal("y", "k j")
    return lambda x, y: x @ y


@golden(without="infinities nan")
def of_nothing(draw):
    """Rows of minus infinity alone, as where all is masked. Values alone."""
    draw._input("x", "p q", lambda sizes: np.full(sizes, -np.inf))
    fixed = jax.lax.stop_gradient
    functions = [jnp.max, jax.nn.softmax, jax.nn.log_softmax, jax.nn.logsumexp]
    return lambda x: tuple(f(fixed(x), axis=1) for f in functions)
