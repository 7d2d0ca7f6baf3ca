"""More functions of single elements, and activations that halve a dim."""

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np

from draw import Draw, golden
from elementwise import UNARY as MORE


def within(low, high):
    return lambda draw, name, dims: draw.between(name, dims, low, high)


UNARY = {
    "ceil": (jnp.ceil, Draw.away),
    "round": (jnp.round, Draw.coarse),
    "trunc": (jnp.trunc, Draw.away),
    "tan": (jnp.tan, within(-1.25, 1.25)),
    "asin": (jnp.arcsin, within(-0.875, 0.875)),
    "acos": (jnp.arccos, within(-0.875, 0.875)),
    "atan": (jnp.arctan, Draw.normal),
    "sinh": (jnp.sinh, Draw.normal),
    "cosh": (jnp.cosh, Draw.normal),
    "asinh": (jnp.arcsinh, Draw.normal),
    "log1mexp": (lambda x: jnp.log(-jnp.expm1(x)), within(-4, -0.125)),
    "acosh": (jnp.arccosh, within(1.125, 4)),
    "atanh": (jnp.arctanh, within(-0.875, 0.875)),
    "exp2": (jnp.exp2, Draw.normal),
    "log2": (jnp.log2, Draw.positive),
    "log10": (jnp.log10, Draw.positive),
    "cbrt": (jnp.cbrt, Draw.away),
    "lgamma": (special.gammaln, Draw.positive),
    "digamma": (special.digamma, Draw.positive),
    "erfinv": (special.erfinv, within(-0.875, 0.875)),
    "log_sigmoid": (jax.nn.log_sigmoid, Draw.normal),
    "softsign": (jax.nn.soft_sign, Draw.away),
    "mish": (jax.nn.mish, Draw.normal),
    # At corners JAX gives half of the gradient, or none, Mesh all of it.
    "relu6": (jax.nn.relu6, Draw.distinct),
    "hard_tanh": (jax.nn.hard_tanh, Draw.distinct),
    "hard_sigmoid": (jax.nn.hard_sigmoid, Draw.distinct),
    "hard_swish": (jax.nn.hard_swish, Draw.distinct),
    "is_nan": (jnp.isnan, Draw.edges),
    "is_inf": (jnp.isinf, Draw.edges),
    "is_finite": (jnp.isfinite, Draw.edges),
    "erfc": (special.erfc, Draw.normal),
    # Within what f32 has as well.
    "nan_to_num": (lambda x: jnp.clip(jnp.nan_to_num(x), -1e6, 1e6), Draw.edges),
}


def unary(name, function, elements):
    def define(draw):
        elements(draw, "x", "p q")
        return function

    globals()[f"unary_{name}"] = golden(name=name)(define)


for each, (function, elements) in UNARY.items():
    unary(each, function, elements)


# Functions whose ends are looked at together; of digamma at 0 JAX has NaN, Mesh minus infinity as PyTorch.
AT_THE_ENDS = """ceil trunc round floor abs sign square reciprocal sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos
tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma sigmoid log_sigmoid softplus relu
relu6 elu selu swish mish gelu gelu_exact softsign hard_tanh hard_sigmoid hard_swish""".split()


@golden()
def at_infinities(draw):
    """Where the functions end, and beyond where they are defined."""
    draw.size("p", (2,)), draw.size("q", (4, 5, 6))
    ends = [np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0, 2.0]
    draw._input("x", "p q", lambda sizes: draw.rng.permutation(np.resize(ends, sizes).flat).reshape(sizes))
    functions = [(MORE | UNARY)[name][0] for name in AT_THE_ENDS]
    return lambda x: tuple(f(jax.lax.stop_gradient(x)) for f in functions)


@golden()
def pairs_at_the_ends(draw):
    draw.edges("a", "p q")
    draw.edges("b", "q")
    functions = [jnp.maximum, jnp.minimum, jnp.logaddexp, jnp.equal, jnp.less, jnp.greater_equal]
    fixed = jax.lax.stop_gradient
    return lambda a, b: tuple(f(fixed(a), fixed(b)) for f in functions)


@golden()
def celu(draw):
    alpha = draw.among("alpha", [0.5, 1.5])
    draw.away("x", "p q")
    return lambda x: jax.nn.celu(x, alpha)


@golden()
def prelu(draw):
    draw.away("x", "p q")
    draw.normal("slope", "q")
    return lambda x, slope: jnp.where(x >= 0, x, slope * x)


@golden()
def glu(draw):
    # Halves that can be split where p cannot.
    draw.size("p", (2, 3, 5)), draw.size("q", (4,) if draw.sizes["p"] % 2 else (2, 6))
    draw.normal("x", "p q")
    return lambda x: jax.nn.glu(x, axis=1)


@golden()
def swiglu(draw):
    draw.size("q", (2, 4, 6))
    draw.normal("x", "p q")

    def function(x):
        a, b = jnp.split(x, 2, axis=1)
        return jax.nn.silu(a) * b

    return function


def of_two(name, function, first, second):
    def define(draw):
        first(draw, "a", "p q")
        second(draw, "b", "q")
        return function

    globals()[f"of_two_{name}"] = golden(name=name)(define)


of_two("atan2", jnp.arctan2, Draw.away, Draw.away)
of_two("logaddexp", jnp.logaddexp, Draw.normal, Draw.normal)
of_two("xlogy", special.xlogy, Draw.away, Draw.positive)
of_two("copysign", jnp.copysign, Draw.away, Draw.away)
of_two("hypot", jnp.hypot, Draw.away, Draw.away)


@golden()
def lerp(draw):
    draw.normal("a", "p q")
    draw.normal("b", "q")
    draw.normal("weight", "p")
    return lambda a, b, weight: a + weight[:, None] * (b - a)


@golden()
def bits(draw):
    draw.integers("a", "p q", -(2**31), 2**31 - 1)
    draw.integers("b", "q", -(2**31), 2**31 - 1)
    return lambda a, b: (a & b, a | b, a ^ b, ~a)


@golden()
def shifts(draw):
    draw.integers("a", "p q", -(2**31), 2**31 - 1)
    draw.integers("by", "q", 0, 31)
    return lambda a, by: (jnp.left_shift(a, by), jnp.right_shift(a, by))


@golden()
def logical_xor(draw):
    draw.bools("a", "p q")
    draw.bools("b", "q")
    return jnp.logical_xor
