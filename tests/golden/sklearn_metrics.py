"""Metrics of scikit-learn. Numbers are whole, in 64ths, and weights are counts: nothing has a gradient."""

import numpy as np
from sklearn import metrics

from draw import golden


def examples(draw, *names, dims="p"):
    """Examples with weights, and of each other input a draw."""
    for name, low, high in names:
        draw.integers(name, dims, low, high)
    draw.integers("weight", dims, 0, 2)


@golden()
def accuracy(draw):
    """Of logits without ties; top-k of scikit-learn breaks them by its own order."""
    k = draw.among("k", [2, 3])
    draw.size("p", (6, 8)), draw.size("classes", (4, 5, 6))
    draw._input("logits", "p classes", lambda sizes: np.array(
        [draw.rng.permutation(sizes[1]) for _ in range(sizes[0])], "int32"))
    draw.integers("label", "p", 0, draw.sizes["classes"] - 1)
    draw.integers("weight", "p", 0, 2)

    def function(logits, label, weight):
        classes = np.arange(logits.shape[1])
        top = lambda k: metrics.top_k_accuracy_score(
            label, logits, k=k, labels=classes, sample_weight=weight)
        return metrics.accuracy_score(label, logits.argmax(1), sample_weight=weight), top(k)

    return function


def classes_in(draw):
    classes = draw.attribute("classes", draw.size("classes", (3, 4)))
    draw.size("p", (6, 8) if classes == 3 else (5, 7))
    examples(draw, ("found", 0, classes - 1), ("label", 0, classes - 1))

    def function(found, label, weight):
        options = {"labels": list(range(classes)), "sample_weight": weight}
        matrix = metrics.confusion_matrix(label, found, **options) * 1.0
        each = {"average": None, "zero_division": 0, **options}
        scores = [metrics.precision_score, metrics.recall_score, metrics.f1_score, metrics.jaccard_score]
        micro = metrics.f1_score(label, found, average="micro", zero_division=0, **options)
        return [matrix] + [score(label, found, **each) for score in scores] + [micro]

    return function


@golden()
def of_classes(draw):
    return classes_in(draw)


@golden()
def of_no_classes(draw):
    """Nothing counts."""
    function = classes_in(draw)
    draw.inputs[2][2][:] = 0
    return function


@golden()
def auc(draw):
    """Scores of few different values, so that some are equal."""
    draw.size("p", (6, 7, 8))
    examples(draw, ("score", 0, 7), ("label", 0, 1))
    draw.inputs[1][2][:2] = 0, 1  # Both occur,
    draw.inputs[2][2][:2] = 1  # and count.
    return lambda score, label, weight: [metrics.roc_auc_score(label, score, sample_weight=weight)]


@golden()
def of_numbers(draw):
    draw.size("p", (2, 4)), draw.size("q", (2, 3, 5))
    examples(draw, ("x", -64, 64), ("target", -64, 64), dims="p q")
    draw.inputs[2][2][:2] = 1

    def function(x, target, weight):
        x, target, by = x.ravel() / 64, target.ravel() / 64, {"sample_weight": weight.ravel()}
        return [
            metrics.mean_squared_error(target, x, **by),
            metrics.mean_absolute_error(target, x, **by),
            metrics.root_mean_squared_error(target, x, **by),
            metrics.r2_score(target, x, **by),
        ]

    return function
