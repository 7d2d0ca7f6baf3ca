"""Losses of PyTorch, without reduction."""

import torch
from torch.nn import functional as F

from draw import golden

NONE = {"reduction": "none"}


def compared(name, loss, **options):
    """A loss of a prediction and a target; both may lie on its corners, where torch's slopes are ours."""

    def define(draw):
        for option, values in options.items():
            draw.among(option, values)
        draw.normal("x", "p q")
        draw.normal("target", "p q")
        chosen = {option: draw.attributes[option] for option in options}
        return lambda x, target: loss(x, target, **chosen, **NONE)

    globals()[name] = golden(name=name, ties=True)(define)


compared("squared_error", F.mse_loss)
compared("huber_loss", F.huber_loss, delta=[0.5, 1.0, 1.7])
compared("smooth_l1_loss", F.smooth_l1_loss, beta=[0.5, 1.0, 1.7])


@golden()
def absolute_error(draw):
    draw.distinct("x", "p q")
    draw.integers("target", "p q", -1, 1)
    return lambda x, target: F.l1_loss(x, target, **NONE)


@golden(zeros="variance")
def gaussian_nll(draw):
    draw.normal("mean", "p q")
    draw.positive("variance", "p q")
    draw.normal("target", "p q")
    return lambda x, variance, target: F.gaussian_nll_loss(x, target, variance, **NONE)


@golden(zeros="target")
def poisson_nll(draw):
    draw.normal("x", "p q")
    draw.positive("target", "p q")
    return lambda x, target: F.poisson_nll_loss(x, target, **NONE)


@golden()
def binary_cross_entropy(draw):
    draw.ends["p"] = (0.0, 1.0)  # Beyond, and of NaN, PyTorch refuses.
    draw._input("p", "p q", lambda sizes: draw.rng.integers(1, 64, sizes) / 64)
    draw.ends["target"] = (1.0, 0.0)
    draw._input("target", "p q", lambda sizes: draw.rng.integers(0, 65, sizes) / 64)
    return lambda p, target: F.binary_cross_entropy(p, target, **NONE)


@golden(zeros="target")
def kl_divergence(draw):
    draw.normal("x", "p classes")
    draw.positive("target", "p classes")
    return lambda x, target: F.kl_div(x, target, **NONE).sum(-1)


def sides(draw, name, dims):
    draw.ends[name] = ()  # A side is one of two.
    draw._input(name, dims, lambda sizes: draw.rng.choice([-1.0, 1.0], sizes))


@golden()
def hinge_embedding_loss(draw):
    margin = draw.among("margin", [0.5, 1.0, 2.0])
    draw.distinct("x", "p q")
    sides(draw, "alike", "p q")
    return lambda x, alike: F.hinge_embedding_loss(x, alike.detach(), margin, **NONE)


@golden()
def margin_ranking_loss(draw):
    margin = draw.among("margin", [0.0, 0.7])
    draw.distinct("x", "p q")
    draw.away("y", "p q")
    sides(draw, "first", "p q")
    return lambda x, y, first: F.margin_ranking_loss(x, y, first, margin, **NONE)


@golden(zeros="x")
def cosine_similarity(draw):
    draw.normal("x", "p model")
    draw.normal("y", "p model")
    return lambda x, y: F.cosine_similarity(x, y, -1)


@golden(zeros="y")
def cosine_embedding_loss(draw):
    margin = draw.among("margin", [0.0, 0.3])
    draw.normal("x", "p model")
    draw.normal("y", "p model")
    sides(draw, "alike", "p")
    return lambda x, y, alike: F.cosine_embedding_loss(x, y, alike.detach(), margin, **NONE)


@golden()
def triplet_margin_loss(draw):
    margin = draw.among("margin", [0.5, 1.0])
    for name in ("anchor", "positive", "negative"):
        draw.normal(name, "p model")
    return lambda a, p, n: F.triplet_margin_loss(a, p, n, margin, **NONE)


@golden(4)
def ctc(draw):
    """Of logits; some labels repeat, and all fit into the positions."""
    batch, time, labels = draw.size("batch", (2, 4)), draw.size("time", (5, 7)), draw.size("labels", (2, 3))
    classes = draw.size("classes", (3, 4))
    blank = draw.attribute("blank", int(draw.rng.integers(classes)))
    draw.normal("x", "batch time classes")
    spelt = [c for c in range(classes) if c != blank]
    draw._input("labels", "batch labels", lambda sizes: draw.rng.choice(spelt, sizes).astype("int32"))
    draw.integers("times", "batch", 2 * labels - 1, time)
    draw.integers("lengths", "batch", 0, labels)

    def function(x, labels, times, lengths):
        log_p = x.log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(log_p, labels, times, lengths, blank, reduction="none")

    return function


@golden(without="infinities nan elsewhere")
def ctc_impossible(draw):
    """More labels than positions: the loss is infinite. Values alone."""
    draw.size("batch", (2, 4)), draw.sizes.update(time=3, labels=3, classes=4)
    draw.sizes["time"] = (2, 3, 5)[draw.number]
    draw.normal("x", "batch time classes")
    draw.integers("labels", "batch labels", 1, 3)
    draw.integers("times", "batch", 1, 2)
    draw._input("lengths", "batch", lambda sizes: torch.full(sizes, 3, dtype=torch.int32).numpy())

    def function(x, labels, times, lengths):
        log_p = x.detach().log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(log_p, labels, times, lengths, 0, reduction="none") + 0 * x.sum()

    return function
