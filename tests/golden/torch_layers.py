"""A layer of a transformer as PyTorch computes it, with norms before its parts, and weights with dims of their own."""

import torch
from torch.nn import functional as F

from draw import golden

EPSILON = 1e-6


@golden()
def transformer_layer(draw):
    sizes = [("length", (1, 2, 3)), ("model", (2, 3, 4)), ("kv", (2, 3)), ("hidden", (2, 3))]
    draw.sizes |= {"batch": 2, "heads": 2}
    for dim, among in sizes:
        draw.size(dim, among)
    draw.normal("x", "batch length model")
    for part in ("attention", "feed_forward"):
        draw.normal(f"{part}_scale", "model"), draw.normal(f"{part}_bias", "model")
    for name in ("query", "key", "value"):
        draw.normal(name, "model heads kv")
    draw.normal("output", "heads kv model")
    draw.normal("up", "model hidden"), draw.normal("down", "hidden model")

    def function(x, scale, bias, other_scale, other_bias, query, key, value, output, up, down):
        norm = lambda x, scale, bias: F.layer_norm(x, x.shape[-1:], scale, bias, EPSILON)
        h = norm(x, scale, bias)
        q, k, v = (torch.einsum("blm,mhk->bhlk", h, w) for w in (query, key, value))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + torch.einsum("bhlk,hkm->blm", found, output)
        h = norm(x, other_scale, other_bias)
        return x + F.silu(h @ up) @ down

    return function
