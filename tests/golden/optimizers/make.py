"""Writes adam_adafactor.json: trajectories of Mesh TensorFlow's Adam and of both Adafactors, in f64.

    python3.11 -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make.py

The update rules are restated here from the papers and from the sources of Mesh TensorFlow
(`mesh_tensorflow/optimize.py`) and tensor2tensor (`tensor2tensor/utils/adafactor.py`, revision
02999ee of 2018 for what rounding is concerned), apart from this project's own code.

Rounding to few bits jumps: where a number lies within MARGIN of a border, f32 may fall on the other
side. Draws that come that close are not used.
"""

import fractions
import math
import pathlib
import platform

import numpy as np

from draws import KEPT, SHAPES, draw, write

MARGIN = 3e-4
# The golden ratio's fraction to 40 digits, as a fraction of integers.
PHI = fractions.Fraction(6180339887498948482045868343656381177203, 10**40)


def noise(step):
    """Of the multiple of the golden ratio that belongs to a step, the fraction."""
    return float((PHI * (step + 1)) % 1)


def rms(x, axes):
    return np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True))


class Adam:
    """Mesh TensorFlow's AdamWeightDecayOptimizer."""

    def __init__(self, lr, wd=0.0, b1=0.9, b2=0.999, eps=1e-6):
        self.lr, self.wd, self.b1, self.b2, self.eps = lr, wd, b1, b2, eps

    def start(self, w, names):
        self.m, self.v = np.zeros_like(w), np.zeros_like(w)

    def step(self, t, w, g):
        self.m = self.b1 * self.m + (1 - self.b1) * g
        self.v = self.b2 * self.v + (1 - self.b2) * g * g
        u = self.m / (np.sqrt(self.v) + self.eps)
        return w - self.lr(t) * (u + self.wd * w)

    def slots(self):
        return {"adam_m": self.m, "adam_v": self.v}


def pow_decay(exponent, offset=0):
    return lambda t: 1 - max(t - offset + 1, 1) ** -exponent


def adam_decay(beta2):
    return lambda t: beta2 * (1 - beta2**t) / (1 - beta2 ** (t + 1))


def two_largest(least):
    def dims(shape, free):
        by_size = sorted(free, key=lambda axis: -shape[axis])
        if len(by_size) >= 2 and shape[by_size[1]] >= least:
            return by_size[0], by_size[1]

    return dims


def last_two(shape, free):
    return (free[-1], free[-2]) if len(free) >= 2 else None


def matrices(shape, free):
    return (free[1], free[0]) if len(free) == 2 else None


def never(shape, free):
    return None


def bfloat16(x):
    """The nearest number of eight significant bits, ties to even; an array."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


class Adafactor:
    """Both Adafactors: their options are parameters."""

    def __init__(self, lr=None, scaled=True, decay=pow_decay(0.8), beta1=0.0, clip=1.0,
                 dims=two_largest(128), eps1=1e-30, eps2=1e-3, stacked=(), excluded=False,
                 bits=None, store="f32", momentum_store="f32"):
        self.lr, self.scaled, self.decay, self.beta1, self.clip = lr, scaled, decay, beta1, clip
        self.dims, self.eps1, self.eps2, self.stacked = dims, eps1, eps2, stacked
        self.excluded, self.bits, self.store = excluded, bits, store
        self.momentum_store = momentum_store
        self.margin = math.inf

    def start(self, w, names):
        self.free = [axis for axis, name in enumerate(names) if name not in self.stacked]
        self.pair = self.dims(w.shape, self.free)
        self.second = {}
        self.m = np.zeros_like(w)

    def average(self, name, b, new):
        old = self.second.get(name, np.zeros_like(new))
        self.second[name] = b * old + (1 - b) * new
        return self.second[name]

    def step(self, t, w, g):
        b, squares, free = self.decay(t), g * g + self.eps1, tuple(self.free)
        if self.pair:
            d0, d1 = self.pair
            vr = self.average("adafactor_vr", b, np.mean(squares, axis=d0, keepdims=True))
            vc = self.average("adafactor_vc", b, np.mean(squares, axis=d1, keepdims=True))
            # v is the outer product over the mean.
            u = g / np.sqrt(vr * vc / np.mean(vr, axis=d1, keepdims=True))
        else:
            u = g / np.sqrt(self.average("adafactor_v", b, squares))
        if self.clip is not None:
            u = u / np.maximum(1.0, rms(u, free) / self.clip)
        if self.lr is not None:
            rate = self.lr(t)
        else:
            rate = min(1 / math.sqrt(t + 1), 0.01) * (1.0 if self.scaled else 0.05)
        if self.scaled and not self.excluded:
            rate = rate * np.maximum(rms(w, free), self.eps2)
        d = rate * u
        if self.beta1:
            d = self.beta1 * self.m + (1 - self.beta1) * d
            self.m = self.bf16_near(d) if self.momentum_store == "bf16" else d
        return self.rounded(t, w - d)

    def bf16_near(self, x):
        """To the nearest; not near the middle of two."""
        near = bfloat16(x)
        unit = np.ldexp(1.0, np.frexp(x)[1] - 8)
        off = np.abs(np.abs(x - near) / unit - 0.5)[x != 0]
        self.margin = min(self.margin, off.min(initial=1.0))
        return near

    def rounded(self, t, w):
        if self.bits and w.ndim >= 2 and w.shape[-1] > 1:
            most = 2 ** (self.bits - 1) - 1
            scale = (np.max(np.abs(w), axis=-1, keepdims=True) + 1e-9) / most
            level = w / scale + noise(t)
            below = level - np.floor(level)
            self.margin = min(self.margin, np.minimum(below, 1 - below).min())
            w = np.floor(level) * scale
            return self.bf16_near(w) if self.store == "bf16" else w
        if self.store == "bf16":
            x = np.abs(w) + 1e-30
            near = bfloat16(x)
            other = bfloat16(np.where(x > near, near * 1.005, near * 0.995))
            part = (x - near) / (other - near)
            # Close calls: which of the two is nearer, and which is taken.
            self.margin = min(self.margin, np.abs(part - noise(t)).min(), np.abs(part - 0.5).min())
            return np.where(part > noise(t), other, near) * np.sign(w)
        return w

    def slots(self):
        momentum = {"adafactor_m": self.m} if self.beta1 else {}
        return {**self.second, **momentum}


def trajectory(name, shape, make):
    names, sizes = list(SHAPES[shape]), list(SHAPES[shape].values())
    for seed in range(1000):
        start, grads = draw(shape, seed)
        w, optimizer, values = np.array(start).reshape(sizes), make(), []
        optimizer.start(w, names)
        for t, grad in enumerate(grads):
            w = optimizer.step(t, w, np.array(grad).reshape(sizes))
            if t + 1 in KEPT:
                values.append(w.ravel().tolist())
        if getattr(optimizer, "margin", math.inf) > MARGIN:
            slots = {key: slot.ravel().tolist() for key, slot in optimizer.slots().items()}
            return {"name": name, "shape": shape, "seed": seed, "values": values, "slots": slots}
    raise SystemExit(f"{name}: every draw comes too close to a border")


def constant(rate):
    return lambda t: rate


CASES = [
    ("adam", "matrix", lambda: Adam(constant(0.02))),
    ("adam_decayed", "matrix", lambda: Adam(constant(0.02), wd=0.1)),
    ("adam_options", "cube", lambda: Adam(constant(0.02), wd=0.01, b1=0.8, b2=0.95, eps=1e-3)),
    ("adam_rate_of_step", "vector", lambda: Adam(lambda t: 0.1 / (t + 2), wd=0.1)),
    ("vector", "vector", Adafactor),
    ("below_threshold", "matrix", Adafactor),
    ("two_largest", "matrix", lambda: Adafactor(dims=two_largest(2))),
    ("two_largest", "square", lambda: Adafactor(dims=two_largest(2))),
    ("two_largest", "cube", lambda: Adafactor(dims=two_largest(4))),
    ("last_two", "cube", lambda: Adafactor(dims=last_two)),
    ("last_two", "vector", lambda: Adafactor(dims=last_two)),
    ("tensor2tensor", "matrix", lambda: Adafactor(dims=matrices)),
    ("tensor2tensor", "cube", lambda: Adafactor(dims=matrices)),
    ("tensor2tensor_momentum", "matrix", lambda: Adafactor(dims=matrices, beta1=0.9)),
    ("never", "matrix", lambda: Adafactor(dims=never)),
    ("stacked", "cube", lambda: Adafactor(dims=two_largest(2), stacked=("stack",))),
    ("stacked_matrices", "cube", lambda: Adafactor(dims=matrices, stacked=("stack",), beta1=0.5)),
    ("rate", "matrix", lambda: Adafactor(lr=constant(0.03), dims=two_largest(2))),
    ("rate_of_step", "matrix", lambda: Adafactor(lr=lambda t: 0.1 / (t + 2), dims=two_largest(2))),
    ("rate_unscaled", "matrix", lambda: Adafactor(lr=constant(0.03), scaled=False)),
    ("unscaled", "matrix", lambda: Adafactor(scaled=False, dims=two_largest(2))),
    ("excluded", "matrix", lambda: Adafactor(excluded=True)),
    ("decay_pow", "matrix", lambda: Adafactor(decay=pow_decay(0.5), dims=two_largest(2))),
    ("decay_offset", "matrix", lambda: Adafactor(decay=pow_decay(0.8, 7), dims=two_largest(2))),
    ("decay_adam", "matrix", lambda: Adafactor(decay=adam_decay(0.95), dims=two_largest(2))),
    ("decay_constant", "matrix", lambda: Adafactor(decay=constant(0.9), dims=two_largest(2))),
    ("decay_of_step", "vector", lambda: Adafactor(decay=lambda t: t / (t + 3.0))),
    ("momentum", "matrix", lambda: Adafactor(beta1=0.9, dims=two_largest(2))),
    ("unclipped", "matrix", lambda: Adafactor(clip=None, dims=two_largest(2))),
    ("clipped_late", "vector", lambda: Adafactor(clip=1.5)),
    ("epsilons", "matrix", lambda: Adafactor(eps1=0.01, eps2=5.0, dims=two_largest(2))),
    ("bits_8", "square", lambda: Adafactor(dims=matrices, bits=8)),
    ("bits_4", "cube", lambda: Adafactor(dims=never, bits=4, lr=constant(0.05))),
    ("bits_of_a_vector", "vector", lambda: Adafactor(bits=8)),
    ("bf16", "vector", lambda: Adafactor(store="bf16")),
    ("bf16_bits", "square", lambda: Adafactor(store="bf16", bits=6)),
    ("bf16_momentum", "vector",
     lambda: Adafactor(store="bf16", momentum_store="bf16", beta1=0.5)),
]

header = {
    "program": "tests/golden/optimizers/make.py",
    "python": platform.python_version(),
    "numpy": np.__version__,
}
cases = [trajectory(*case) for case in CASES]
write(pathlib.Path(__file__).with_name("adam_adafactor.json"), header, cases)
