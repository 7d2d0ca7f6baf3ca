"""Convolutions, pools, and windows along a dim."""

import jax
import jax.numpy as jnp
from jax import lax

from draw import golden

SPACE = ("h", "w", "d")
# An infinite weight times zeros around an image is NaN for JAX; here there may be no such product.
OF_WEIGHTS = "elsewhere"
# Nor is one of the zeros between elements, or between groups, with an infinity or NaN.
OF_ZEROS = "infinities nan elsewhere"


def convolve(x, kernel, strides, padding, dilations, groups=1):
    """A convolution; channels last."""
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        padding,
        rhs_dilation=dilations,
        dimension_numbers=numbering(x.ndim - 2),
        feature_group_count=groups,
    )


def numbering(rank):
    """Batch, space, channels; taps, input and output channels."""
    space = "HWD"[:rank]
    return (f"N{space}C", f"{space}IO", f"N{space}C")


def sliding(draw, rank, taps=(1, 2, 3), sizes=(4, 6, 8), dilations=(1, 1, 2)):
    """Random attributes of a convolution, and sizes for its dims."""
    for dim in SPACE[:rank]:
        draw.size(dim, sizes if rank < 3 else (3, 4, 5))
        draw.size(f"f{dim}", taps)
    for channels in ("batch", "in", "out", "group"):
        draw.size(channels, (2,) if rank > 1 else (2, 4))
    dilations = dilations if rank < 3 else (1,)
    numbers = lambda among: [int(draw.rng.choice(among)) for _ in range(rank)]
    return (
        draw.attribute("strides", numbers((1, 1, 2, 3))),
        draw.among("padding", ["SAME", "VALID"]),
        draw.attribute("dilations", numbers(dilations)),
    )


def named(rank):
    """Names of an image's dims and of its filter's."""
    return " ".join(SPACE[:rank]), " ".join(f"f{dim}" for dim in SPACE[:rank])


def conv(rank, times):
    def define(draw):
        how, (space, taps) = sliding(draw, rank), named(rank)
        draw.normal("x", f"batch {space} in")
        draw.normal("kernel", f"{taps} in out")
        return lambda x, kernel: convolve(x, kernel, *how)

    globals()[f"conv_{rank}d"] = golden(times, f"conv_{rank}d", OF_WEIGHTS)(define)


def conv_transpose(rank, times):
    def define(draw):
        strides, padding, dilations = sliding(draw, rank, sizes=(2, 3, 4))
        space, taps = named(rank)
        draw.normal("y", f"batch {space} out")
        draw.normal("kernel", f"{taps} in out")
        return lambda y, kernel: lax.conv_transpose(
            y, kernel, strides, padding, dilations, numbering(rank), transpose_kernel=True
        )

    globals()[f"conv_transpose_{rank}d"] = golden(times, f"conv_transpose_{rank}d", OF_ZEROS)(define)


conv(1, 3)
conv(2, 4)
conv(3, 3)
conv_transpose(1, 3)
conv_transpose(2, 3)


@golden(without=OF_WEIGHTS)
def conv_grouped(draw):
    how = sliding(draw, 1)
    draw.normal("x", "batch h group in")
    draw.normal("kernel", "fh group in out")

    def function(x, kernel):
        batch, size, groups, channels = x.shape
        out = kernel.shape[-1]
        kernel = jnp.swapaxes(kernel, 1, 2).reshape(-1, channels, groups * out)
        y = convolve(x.reshape(batch, size, -1), kernel, *how, groups=groups)
        return y.reshape(batch, -1, groups, out)

    return function


@golden(without=OF_ZEROS)
def conv_depthwise(draw):
    how = sliding(draw, 2)
    draw.normal("x", "batch h w in")
    draw.normal("kernel", "fh fw in")
    return lambda x, kernel: convolve(x, kernel[:, :, None], *how, groups=x.shape[-1])


@golden(without=OF_WEIGHTS)
def conv_causal(draw):
    """Zeros before the image only."""
    draw.size("h", (6, 8))
    pads = [draw.attribute("low", draw.size("fh", (2, 3)) - 1), 0]
    draw.normal("x", "batch h in")
    draw.normal("kernel", "fh in out")
    return lambda x, kernel: convolve(x, kernel, [1], [pads], [1])


def pooling(draw, rank):
    """Random attributes of a pool as arguments of `reduce_window`."""
    for dim in SPACE[:rank]:
        draw.size(dim, (5, 6, 8))
    draw.sizes["batch"] = draw.sizes["in"] = 2
    numbers = lambda among: [int(draw.rng.choice(among)) for _ in range(rank)]
    window, strides = draw.attribute("windows", numbers((2, 3))), numbers((1, 2, 3))
    draw.attribute("strides", strides)
    return (1, *window, 1), (1, *strides, 1), draw.among("padding", ["SAME", "VALID"])


def pools(rank):
    space = named(rank)[0]

    def max_pool(draw):
        how = pooling(draw, rank)
        # Where elements tie, JAX chooses one of them for the gradient and Mesh shares it.
        draw.distinct("x", f"batch {space} in")
        return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *how)

    def avg_pool(draw):
        how = pooling(draw, rank)
        draw.normal("x", f"batch {space} in")
        sums = lambda x: lax.reduce_window(x, 0.0, lax.add, *how)
        return lambda x: sums(x) / sums(jnp.ones_like(x))

    for define in (max_pool, avg_pool):
        name = f"{define.__name__}_{rank}d"
        globals()[name] = golden(name=name, ties=True)(define)


pools(1)
pools(2)


@golden()
def pool_1d(draw):
    draw.size("h", (12,)), draw.size("p", (1, 2, 3))
    draw.normal("x", "p h")
    return lambda x: (x.reshape(-1, 6, 2).mean(2), x[:, ::3])


def framed(draw):
    """Random attributes of windows along `h`, and positions they take from the padded dim."""
    n, size = draw.size("h", (6, 8)), draw.attribute("tap", draw.size("tap", (2, 3)))
    stride = draw.among("stride", [1, 2, 3])
    pads = draw.attribute("pads", [int(draw.rng.integers(0, size)) for _ in range(2)])
    count = (n + sum(pads) - size) // stride + 1
    return n, pads, stride * jnp.arange(count)[:, None] + jnp.arange(size)


@golden()
def windows(draw):
    _, pads, at = framed(draw)
    draw.normal("x", "h in")
    return lambda x: jnp.pad(x, [pads, (0, 0)])[at]


@golden()
def overlap_add(draw):
    n, pads, at = framed(draw)
    draw.attribute("h", n)
    draw.sizes["h"] = at.shape[0]
    draw.normal("y", "h tap in")
    whole = lambda y: jnp.zeros((n + sum(pads), y.shape[2])).at[at].add(y)
    return lambda y: whole(y)[pads[0] : pads[0] + n]
