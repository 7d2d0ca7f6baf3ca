"""Selective state-space models, restated in PyTorch position by position from Gu and Dao 2023 ("Mamba", algorithm 2 and
section 3.4) and not from the layer: there is no scan here but a loop."""

import numpy as np
import torch
from torch.nn.functional import conv1d, linear, silu, softplus

from draw import golden


def scanned(x, delta, a, b, c):
    """`x` and `delta`: batch, time, inner; `a`: inner, state; `b` and `c`: batch, time, state."""
    state, written = torch.zeros(x.shape[0], *a.shape), []
    for t in range(x.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * a)
        state = decay * state + delta[:, t, :, None] * b[:, t, None, :] * x[:, t, :, None]
        written.append((state * c[:, t, None, :]).sum(-1))
    return torch.stack(written, 1)


@golden()
def selective_scan(draw):
    for dim, among in [("batch", (2,)), ("time", (3, 4, 5)), ("inner", (2, 3)), ("state", (1, 2, 3))]:
        draw.size(dim, among)
    draw.attribute("blocks", draw.sizes["time"] if draw.sizes["time"] % 2 else 2)
    draw.normal("x", "batch time inner")
    # No decays that are infinite or NaN: those of the zeros before the first position are NaN here, and nothing for
    # Mesh, which has no such state.
    draw.ends |= {"delta": (np.nan,), "a": (-np.inf,)}
    draw.between("delta", "batch time inner", 0, 2)
    draw.normal("a", "inner state")
    draw.normal("b", "batch time state")
    draw.normal("c", "batch time state")
    return scanned


@golden()
def mamba(draw):
    sizes = [("batch", (2,)), ("time", (2, 3, 5)), ("model", (2, 3)), ("inner", (2, 4)), ("state", (2,)),
             ("taps", (2, 3)), ("delta_rank", (1, 2)), ("branches", (2,))]
    for dim, among in sizes:
        draw.size(dim, among)
    draw.normal("x", "batch time model")
    weights = {"input": "branches inner model", "filter": "inner taps", "filter_bias": "inner",
               "delta_down": "delta_rank inner", "b": "state inner", "c": "state inner",
               "delta_up": "inner delta_rank", "delta_bias": "inner", "log_a": "inner state", "skip": "inner",
               "output": "model inner"}
    for name, dims in weights.items():
        draw.normal(name, dims)
    taps = draw.sizes["taps"]

    def function(x, into, taken, bias, down, b, c, up, delta_bias, log_a, skip, out):
        u, z = linear(x, into.flatten(0, 1)).chunk(2, -1)
        padded = torch.nn.functional.pad(u.transpose(1, 2), (taps - 1, 0))
        u = silu(conv1d(padded, taken[:, None], bias, groups=len(taken))).transpose(1, 2)
        delta = softplus(linear(linear(u, down), up, delta_bias))
        y = scanned(u, delta, -torch.exp(log_a), linear(u, b), linear(u, c)) + skip * u
        return linear(y * silu(z), out)

    return function
