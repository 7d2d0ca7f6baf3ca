"""What the optimizers of both programs start from and are given, and how results are written.

Starts and gradients are multiples of 1/64, so they are the same numbers in f32 and in f64; some
gradients are 0, and every third step's are four times as large, so that clipping acts.
"""

import json
import random

STEPS = 50
KEPT = [1, 2, 3, 10, 25, 50]
SHAPES = {
    "vector": {"cols": 8},
    "matrix": {"rows": 4, "cols": 8},
    "square": {"rows": 4, "cols": 4},
    "cube": {"stack": 2, "rows": 8, "cols": 4},
}


def draw(shape, seed):
    """A start, and a gradient for each step, in declared order."""
    generator = random.Random(f"{shape} {seed}")
    count = 1
    for size in SHAPES[shape].values():
        count *= size
    start = [generator.choice([-1, 1]) * generator.randint(16, 128) / 64 for _ in range(count)]
    grads = []
    for step in range(STEPS):
        scale = 4 if step % 3 == 2 else 1
        one = lambda: 0.0 if generator.random() < 0.05 else generator.randint(-64, 64) / 64
        grads.append([scale * one() for _ in range(count)])
    return start, grads


def text(value, digits=11):
    """JSON with numbers of so many digits and a line for each list of numbers."""
    if isinstance(value, dict):
        lines = (f"{json.dumps(k)}: {text(v, digits)}" for k, v in value.items())
        return "{" + ",\n".join(lines) + "}"
    if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
        return "[" + ",\n".join(text(v, digits) for v in value) + "]"
    if isinstance(value, list):
        return "[" + ",".join(text(v, digits) for v in value) + "]"
    return f"{value:.{digits}g}" if isinstance(value, float) else json.dumps(value)


def write(path, header, cases, digits=11, kept=KEPT):
    """Header, shapes, the draws that the cases use, the cases."""
    used = sorted({(case["shape"], case["seed"]) for case in cases})
    draws = []
    for shape, seed in used:
        start, grads = draw(shape, seed)
        draws.append({"shape": shape, "seed": seed, "start": start, "grads": grads})
    whole = {**header, "kept": kept, "shapes": SHAPES, "draws": draws, "cases": cases}
    path.write_text(text(whole, digits) + "\n")
    print(path.name, path.stat().st_size, "bytes,", len(cases), "cases")
