"""Resizing, pooling and norms of images; PyTorch has channels before space."""

import torch
from torch.nn import functional as F

from draw import golden

X = "batch c h w"
MODES = {"nearest": "nearest-exact", "nearest_below": "nearest", "linear": "bilinear", "cubic_repeated": "bicubic"}


def image(draw, sizes=(2, 3, 4), channels=(2,)):
    for dim, among in [("batch", (1,)), ("c", channels), ("h", sizes), ("w", sizes)]:
        draw.size(dim, among)
    draw.normal("x", X)


def resizing(method, times, corners=(False,), antialias=(False,)):
    def define(draw):
        image(draw)
        size = draw.attribute("size", [int(draw.rng.choice((1, 2, 4, 5))) for _ in range(2)])
        options = {"mode": MODES.get(method, "bicubic")}
        chosen = draw.among("corners", corners), draw.among("antialias", antialias)
        if method not in ("nearest", "nearest_below"):
            options |= {"align_corners": chosen[0], "antialias": chosen[1]}
        return lambda x: F.interpolate(x, size, **options)

    # Interpolation is a product with weights, zeros among them: an infinity or NaN reaches all of its row.
    without = {"linear": "infinities nan", "cubic_repeated": "infinities"}.get(method, "")
    globals()[f"resize_{method}"] = golden(times, f"resize_{method}", without)(define)


resizing("nearest", 3)
resizing("nearest_below", 3)
resizing("linear", 4, corners=(False, True))
resizing("cubic_repeated", 4, corners=(False, True))
# With antialiasing PyTorch's coefficient is -1/2, too.
resizing("cubic", 3, antialias=(True,))
resizing("linear_antialias", 3, antialias=(True,))
MODES["linear_antialias"] = "bilinear"


def adaptive(name, pool):
    def define(draw):
        draw.size("batch", (1,)), draw.size("c", (2,))
        draw.size("h", (4, 5, 7)), draw.size("w", (4, 5, 7))
        draw.distinct("x", X)
        size = draw.attribute("size", [int(draw.rng.choice((1, 2, 3, 4))) for _ in range(2)])
        return lambda x: pool(x, size)

    # Averages are products with weights, as in `resize_linear`.
    without = "" if "max" in name else "infinities nan"
    globals()[name] = golden(name=name, without=without, ties="max" in name)(define)


adaptive("adaptive_avg_pool", F.adaptive_avg_pool2d)
adaptive("adaptive_max_pool", F.adaptive_max_pool2d)


@golden(zeros="x", without="infinities nan")  # Sums of groups are products with zeros and ones: NaN reaches all groups.
def group_norm(draw):
    groups = draw.among("groups", [1, 2])
    image(draw, (2, 3), (4, 6))
    draw.normal("scale", "c")
    draw.normal("bias", "c")
    return lambda x, scale, bias: F.group_norm(x, groups, scale, bias, 1e-5)


@golden(zeros="x", without="elsewhere")  # Scale and bias are combined otherwise.
def instance_norm(draw):
    image(draw, (2, 3), (2, 4))
    draw.normal("scale", "c")
    draw.normal("bias", "c")
    return lambda x, scale, bias: F.instance_norm(x, None, None, scale, bias, True, 0.1, 1e-5)


@golden(zeros="x")
def local_response_norm(draw):
    size, alpha = draw.among("size", [2, 3, 4]), draw.among("alpha", [0.1, 1.0])
    image(draw, (2, 4), (4, 5))
    return lambda x: F.local_response_norm(x, size, alpha, 0.75, 2.0)
