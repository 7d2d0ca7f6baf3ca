"""Functions of single elements."""

import jax
import jax.numpy as jnp

from draw import Draw, golden

UNARY = {
    "exp": (jnp.exp, Draw.normal),
    "log": (jnp.log, Draw.positive),
    "sqrt": (jnp.sqrt, Draw.positive),
    "rsqrt": (jax.lax.rsqrt, Draw.positive),
    "reciprocal": (jnp.reciprocal, Draw.away),
    "square": (jnp.square, Draw.normal),
    "sin": (jnp.sin, Draw.normal),
    "cos": (jnp.cos, Draw.normal),
    "tanh": (jnp.tanh, Draw.normal),
    "sigmoid": (jax.nn.sigmoid, Draw.normal),
    "softplus": (jax.nn.softplus, Draw.normal),
    "swish": (jax.nn.swish, Draw.normal),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=True), Draw.normal),
    "gelu_exact": (lambda x: jax.nn.gelu(x, approximate=False), Draw.normal),
    "erf": (jax.lax.erf, Draw.normal),
    "expm1": (jnp.expm1, Draw.normal),
    "log1p": (jnp.log1p, Draw.positive),
    "elu": (jax.nn.elu, Draw.away),
    "selu": (jax.nn.selu, Draw.away),
    "relu": (jax.nn.relu, Draw.coarse),
    "abs": (jnp.abs, Draw.away),  # At 0 JAX's gradient is that of x, Mesh's is 0.
    "neg": (jnp.negative, Draw.normal),
    "sign": (jnp.sign, Draw.coarse),
    "floor": (jnp.floor, Draw.away),
}


def unary(name, function, elements):
    def define(draw):
        elements(draw, "x", "p q")
        return function

    globals()[f"unary_{name}"] = golden(name=name)(define)


for each, (function, elements) in UNARY.items():
    unary(each, function, elements)


@golden()
def powf(draw):
    power = draw.among("power", [-1.5, 0.75, 2.5])
    draw.positive("x", "p q")
    return lambda x: x**power


@golden()
def leaky_relu(draw):
    alpha = draw.among("alpha", [0.125, 0.25])
    draw.away("x", "p q")
    return lambda x: jax.nn.leaky_relu(x, alpha)


@golden()
def clip(draw):
    low, high = draw.attribute("low", -0.75), draw.attribute("high", 0.5)
    draw.distinct("x", "p q")  # At a bound JAX gives half of the gradient, Mesh all of it.
    return lambda x: jnp.clip(x, low, high)


@golden()
def add(draw):
    draw.normal("x", "p q")
    draw.normal("y", "q")
    return jnp.add


@golden()
def sub(draw):
    draw.normal("x", "p")
    draw.normal("y", "q")
    return lambda x, y: x[:, None] - y[None]


@golden()
def mul(draw):
    draw.normal("x", "p q r")
    draw.normal("y", "q r")
    return jnp.multiply


@golden()
def div(draw):
    draw.normal("x", "p q")
    draw.away("y", "p")
    return lambda x, y: x / y[:, None]


@golden(name="pow")
def power(draw):
    draw.positive("x", "p q")
    draw.normal("y", "q")
    return jnp.power


@golden()
def maximum(draw):
    draw.coarse("x", "p q")  # At a tie both share the gradient evenly.
    draw.coarse("y", "q")
    return jnp.maximum


@golden()
def minimum(draw):
    draw.coarse("x", "p q")
    draw.coarse("y", "q")
    return jnp.minimum


@golden()
def modulo(draw):
    draw.normal("x", "p q")
    draw.away("y", "q")
    return jnp.mod


@golden()
def floordiv(draw):
    draw.normal("x", "p q")
    draw.away("y", "q")
    return jnp.floor_divide


@golden()
def whole_division(draw):
    draw.integers("x", "p q", -20, 20)
    draw.integers("y", "q", 1, 5)
    return lambda x, y: (jax.lax.div(*jnp.broadcast_arrays(x, y)), x // y, x % y, x // -y, x % -y)


@golden()
def comparisons(draw):
    draw.coarse("x", "p q")
    draw.coarse("y", "q")
    return lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y)


@golden()
def logic(draw):
    draw.bools("x", "p q")
    draw.bools("y", "q")
    return lambda x, y: (x & y, x | y, ~x)


@golden()
def cast(draw):
    draw.away("x", "p q")
    draw.bools("y", "q")
    return lambda x, y: (x.astype(jnp.int32), y.astype(jnp.int32), y.astype(x.dtype))


@golden()
def select(draw):
    draw.bools("c", "p q")
    draw.normal("x", "p q")
    draw.normal("y", "q")
    return jnp.where
