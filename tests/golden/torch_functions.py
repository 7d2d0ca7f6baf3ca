"""Functions of single elements at points where PyTorch and JAX differ, and Mesh has what PyTorch has."""

import numpy as np
import torch

from draw import golden


@golden()
def digamma_at_the_ends(draw):
    """At poles, infinities and NaN."""
    draw.size("p", (2,)), draw.size("q", (4, 5, 6))
    ends = [0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1.0, -0.5]
    draw._input("x", "p q", lambda sizes: draw.rng.permutation(np.resize(ends, sizes).flat).reshape(sizes))
    # Values alone: x has no part in them.
    return lambda x: torch.where(torch.ones_like(x) > 0, torch.digamma(x.detach()), x)
