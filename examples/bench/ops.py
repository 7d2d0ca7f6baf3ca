"""Single ops in PyTorch, as `bench ops` measures ours: those of ops.txt, on the same shapes.

usage: ops.py [--threads 1,2] [--seconds 0.3] [word ...]
Words are parts of ops' names; all ops by default. Each is measured alone (under no_grad), and with its gradients
and an update of all that is trained. Microseconds of the fastest call.
"""

import argparse
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--threads", default="1,2")
ap.add_argument("--seconds", type=float, default=0.3)
ap.add_argument("words", nargs="*")
flags = ap.parse_args()
RATE, LEAST = 1e-6, 5
ORDERS = [["o", "c", "fh", "fw"], ["o", "c", "fw"], ["c", "1", "fh", "fw"], ["batch", "c", "h", "w"], ["batch", "c", "w"]]
torch.manual_seed(0)


def laid_out(dims):
    """Sizes in the order that PyTorch's convolutions want."""
    for order in ORDERS:
        if set(order) - {"1"} == set(dims):
            return [dims.get(name, 1) for name in order]
    return list(dims.values())


def given(text):
    kind, dims = text.split(" ")
    sizes = laid_out({name: int(size) for name, size in (dim.split(":") for dim in dims.split(";"))})
    if kind in "nN":
        x = torch.randn(sizes)
    elif kind in "uU":
        x = torch.rand(sizes) * 0.9 + 0.1
    elif kind == "b":
        return torch.rand(sizes) > 0.5
    else:
        return torch.randint(int(kind[1:]), sizes)
    return x.requires_grad_(kind in "nu")


class Layer:
    """A layer whose weights are made once."""

    def __init__(self, make, call=lambda layer, x: layer(x)):
        self.make, self.call, self.layer = make, call, None

    def __call__(self, x):
        if self.layer is None:
            self.layer = self.make(x)
        return self.call(self.layer, x)

    def weights(self):
        return list(self.layer.parameters()) if self.layer else []


class SelfAttention(nn.Module):
    def __init__(self, model, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(model, 3 * model, bias=False), nn.Linear(model, model, bias=False)

    def forward(self, x):
        b, length, model = x.shape
        q, k, v = self.qkv(x).view(b, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, length, model))


def shifted(x):
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    return y


def conv(stride=1, pad=0, dilation=1, groups=None):
    return lambda x, f: F.conv2d(x, f, None, stride, pad, dilation, groups or x.shape[1] // f.shape[1])


def same(name):
    size = {"1x1": 0, "3x3": 1, "7x7": 3}
    return conv(pad=next((pad for text, pad in size.items() if text in name), 1))


OPS = {
    "add": torch.add, "add_bias": torch.add, "add_small": torch.add, "sub": torch.sub, "mul": torch.mul,
    "add_transposed": lambda a, b: a + b.transpose(1, 2),
    "div": torch.div, "neg": torch.neg, "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "modulo": torch.remainder, "square": torch.square, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "pow": torch.pow, "powf": lambda a: a**1.7, "hypot": torch.hypot,
    "exp": torch.exp, "log": torch.log, "expm1": torch.expm1, "log1p": torch.log1p,
    "log1mexp": lambda a: torch.log(-torch.expm1(-a)), "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "erfc": torch.erfc, "softplus": F.softplus, "swish": F.silu,
    "gelu": lambda a: F.gelu(a, approximate="tanh"), "gelu_exact": F.gelu, "relu": F.relu, "relu_small": F.relu,
    "leaky_relu": lambda a: F.leaky_relu(a, 0.1), "elu": F.elu, "selu": F.selu, "abs": torch.abs,
    "sign": torch.sign, "floor": torch.floor, "maximum": torch.maximum, "minimum": torch.minimum,
    "clip": lambda a: a.clamp(0, 6), "cast": lambda a: a.to(torch.bfloat16), "equal": torch.eq, "less": torch.lt,
    "logical_and": torch.logical_and, "logical_not": torch.logical_not, "select": torch.where,
    "einsum_dense": lambda x, w: x @ w, "einsum_narrow": lambda x, w: x @ w,
    "einsum_logits": lambda x, w: x @ w.t(), "einsum_scores": lambda q, k: q @ k.transpose(2, 3),
    "einsum_gates": lambda x, w: x @ w,
    "einsum_heads": lambda x, w: (x @ w.view(w.shape[0], -1)).view(*x.shape[:2], *w.shape[1:]).transpose(1, 2),
    "einsum_experts": torch.bmm,
    "sum": lambda x: x.sum(-1), "sum_rows": lambda x: x.sum((0, 1)), "mean": lambda x: x.mean((2, 3)),
    "variance": lambda x: x.var(-1, unbiased=False), "max": lambda x: x.amax(-1), "prod": lambda x: x.prod(-1),
    "all": lambda x: x.all(-1), "cumsum": lambda x: x.cumsum(1), "cumsum_inner": lambda x: x.cumsum(-1),
    "argmax": lambda x: x.argmax(-1), "transpose_heads": lambda x: x.transpose(1, 2).contiguous(),
    "transpose_inner": lambda x: x.transpose(1, 2).contiguous(),
    "broadcast": lambda x: x[:, None, :].expand(-1, 256, -1).contiguous(),
    "add_n": lambda *x: x[0] + x[1] + x[2], "concat": lambda *x: torch.cat(x, 1),
    "slice": lambda x: x[:, :, 4:60, 4:60].contiguous(), "slice_add": lambda x, y: x[:, :, 4:60, 4:60] + y,
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)), "stack": lambda *x: torch.stack(x, 1),
    "unstack": lambda x: [part.contiguous() for part in x.unbind(1)], "pick": lambda x: x[:, 17].contiguous(),
    "split": lambda x: [part.contiguous() for part in x.split(512, -1)], "shift": shifted,
    "reverse": lambda x: x.flip(1), "gather_rows": lambda i, x: F.embedding(i, x),
    "gather_inner": lambda x, i: x.index_select(1, i), "gather_each": lambda x, i: x.index_select(1, i),
    "scatter_add": lambda x, i: torch.zeros(5000, x.shape[1]).index_add(0, i, x),
    "scatter_add_inner": lambda x, i: torch.zeros(x.shape[0], 64).index_add(1, i, x),
    "top_k_vocab": lambda x: x.topk(40), "top_k_experts": lambda x: x.topk(2), "top_1": lambda x: x.max(-1),
    "nth_largest": lambda x: x.kthvalue(x.shape[-1] - 7).values, "sort": lambda x: x.sort().values,
    "argsort": torch.argsort, "one_hot": lambda i: F.one_hot(i, 1000).float(),
    "conv_7x7_s2": conv(2, 3), "conv_3x3_s2": conv(2, 1), "conv_3x3_rgb": conv(2, 1), "conv_1x1_s2": conv(2),
    "conv_dilated": conv(1, 2, 2), "conv_transpose": lambda x, f: F.conv_transpose2d(x, f.transpose(0, 1), None, 2),
    "conv_patches": conv(16), "conv_1d": lambda x, f: F.conv1d(x, f, None, 1, 2), "depthwise_s2": conv(2, 1),
    "windows": lambda x: x.unfold(1, 320, 160).contiguous(),
    "overlap_add": lambda y: F.fold(y.transpose(1, 2), (1, 16000), (1, 320), stride=(1, 160)),
    "max_pool_3x3_s2": lambda x: F.max_pool2d(x, 3, 2), "max_pool_2x2": lambda x: F.max_pool2d(x, 2),
    "max_pool_wide": lambda x: F.max_pool2d(x, 5, 1), "avg_pool_2x2": lambda x: F.avg_pool2d(x, 2),
    "avg_pool_3x3_same": lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    "avg_pool_7x7": lambda x: F.avg_pool2d(x, 7),
    "random_uniform": torch.rand_like, "random_normal": torch.randn_like,
    "random_truncated_normal": lambda x: nn.init.trunc_normal_(torch.empty_like(x)),
    "random_integer": lambda x: torch.randint(1000, x.shape, dtype=torch.int32),
    "dropout": lambda x: F.dropout(x, 0.1), "range": lambda x: torch.arange(x.shape[0], dtype=torch.int32),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax_cross_entropy": lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "sigmoid_cross_entropy": lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
    "layer_norm": Layer(lambda x: nn.LayerNorm(x.shape[-1])), "rms_norm": Layer(lambda x: nn.RMSNorm(x.shape[-1])),
    "batch_norm": Layer(lambda x: nn.BatchNorm2d(x.shape[1])), "dense": Layer(lambda x: nn.Linear(x.shape[-1], 3072)),
    "feed_forward": Layer(lambda x: nn.Sequential(
        nn.Linear(x.shape[-1], 3072), nn.GELU(approximate="tanh"), nn.Linear(3072, x.shape[-1]))),
    "attention": F.scaled_dot_product_attention, "self_attention": Layer(lambda x: SelfAttention(x.shape[-1], 6)),
    "lstm": Layer(lambda x: nn.LSTM(x.shape[-1], 256, batch_first=True), lambda layer, x: layer(x)[0]),
}


def inner(f):
    """Along the last dim."""
    return lambda x: f(x, -1)


def filled(how):
    """`x` with rows put in at indices, folded with what is there."""
    def put(x, updates, i):
        return x.index_reduce(0, i, updates, how, include_self=True)
    return put


def segments(how, start):
    return lambda x, i: torch.full((5000, x.shape[1]), start).index_reduce(0, i, x, how, include_self=True)


def swiglu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def recurrence(a, b):
    h, all_h = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        all_h.append(h)
    return torch.stack(all_h, 1)


def selective_scan(x, delta, a, b, c):
    h = recurrence(torch.exp(-delta[..., None] * a), (delta * x)[..., None] * b[:, :, None, :])
    return (h * c[:, :, None, :]).sum(-1)


def focal(x, t):
    cross, p = F.binary_cross_entropy_with_logits(x, t, reduction="none"), torch.sigmoid(x)
    right = p * t + (1 - p) * (1 - t)
    return (0.25 * t + 0.75 * (1 - t)) * cross * (1 - right) ** 2


def every(loss, **options):
    return lambda *x: loss(*x, reduction="none", **options)


def twice(mode, **options):
    return lambda x: F.interpolate(x, scale_factor=2, mode=mode, **options)


def layer_of(kind):
    return Layer(lambda x: kind(x.shape[-1], 256, batch_first=True), lambda layer, x: layer(x)[0])


OPS |= {
    "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "is_nan": torch.isnan, "is_inf": torch.isinf,
    "is_finite": torch.isfinite, "nan_to_num": torch.nan_to_num, "tan": torch.tan, "asin": torch.asin,
    "acos": torch.acos, "atan": torch.atan, "atan2": torch.atan2, "sinh": torch.sinh, "cosh": torch.cosh,
    "asinh": torch.asinh, "acosh": lambda x: torch.acosh(x + 1), "atanh": lambda x: torch.atanh(x * 0.9),
    "exp2": torch.exp2, "log2": torch.log2, "log10": torch.log10,
    "cbrt": lambda x: x.abs().pow(1 / 3).copysign(x), "logaddexp": torch.logaddexp, "xlogy": torch.xlogy,
    "lgamma": torch.lgamma, "digamma": torch.digamma, "erfinv": lambda x: torch.erfinv(x * 0.9),
    "log_sigmoid": F.logsigmoid, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish, "hard_tanh": F.hardtanh,
    "relu6": F.relu6, "mish": F.mish, "softsign": F.softsign, "celu": lambda x: F.celu(x, 0.5), "prelu": F.prelu,
    "glu": inner(F.glu), "swiglu": swiglu,
    "copysign": torch.copysign, "lerp": torch.lerp, "logical_xor": torch.logical_xor, "bit_and": torch.bitwise_and,
    "bit_or": torch.bitwise_or, "bit_xor": torch.bitwise_xor, "bit_not": torch.bitwise_not,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "std": inner(torch.std), "vector_norm": lambda x: torch.linalg.vector_norm(x, 2, -1),
    "vector_norm_1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "vector_norm_inf": lambda x: torch.linalg.vector_norm(x, float("inf"), -1),
    "count_nonzero": lambda x: torch.count_nonzero(x, -1), "median": lambda x: x.median(-1).values,
    "quantile": lambda x: torch.quantile(x, 0.9, -1), "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1).values, "cummin": lambda x: x.cummin(1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(1), "linear_recurrence": recurrence,
    "tile": lambda x: x.tile(4), "repeat": lambda x: x.repeat_interleave(4, -1), "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(5, -2), "tril": torch.tril, "triu": torch.triu, "diag": torch.diag_embed,
    "diagonal": lambda x: torch.diagonal(x, 0, -2, -1).contiguous(), "eye": lambda x: torch.eye(x.shape[0]),
    "linspace": lambda x: torch.linspace(0, 1, x.shape[0]),
    "meshgrid": lambda a, b: torch.meshgrid(a, b, indexing="ij")[0].contiguous(),
    "pad_reflect": lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), "pad_edge": lambda x: F.pad(x, (1, 1, 1, 1), "replicate"),
    "pad_wrap": lambda x: F.pad(x, (1, 1, 1, 1), "circular"), "space_to_depth": lambda x: F.pixel_unshuffle(x, 2),
    "depth_to_space": lambda x: F.pixel_shuffle(x, 2), "take_along": lambda x, i: x.gather(1, i),
    "scatter_set": lambda x, updates, i: x.index_copy(0, i, updates), "scatter_max": filled("amax"),
    "scatter_min": filled("amin"), "scatter_mul": filled("prod"),
    "segment_sum": lambda x, i: torch.zeros(5000, x.shape[1]).index_add(0, i, x),
    "segment_max": segments("amax", float("-inf")), "bincount": lambda x: torch.bincount(x, minlength=1000),
    "histogram": lambda x: torch.histc(x, 64, -1, 1),
    "searchsorted": lambda x: torch.searchsorted(torch.linspace(-3, 3, 1024), x),
    "resize_nearest": twice("nearest-exact"), "resize_linear": twice("bilinear"), "resize_cubic": twice("bicubic"),
    "group_norm": Layer(lambda x: nn.GroupNorm(32, x.shape[1])),
    "instance_norm": Layer(lambda x: nn.InstanceNorm2d(x.shape[1], affine=True)),
    "local_response_norm": lambda x: F.local_response_norm(x, 5),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 7), "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, 7),
    "dropout_channels": lambda x: F.dropout2d(x, 0.1), "lstm_layer": layer_of(nn.LSTM), "gru_layer": layer_of(nn.GRU),
    "rnn_layer": layer_of(nn.RNN), "selective_scan": selective_scan,
    "squared_error": every(F.mse_loss), "absolute_error": every(F.l1_loss), "huber_loss": every(F.huber_loss),
    "smooth_l1_loss": every(F.smooth_l1_loss),
    "log_cosh": lambda x, t: F.softplus(2 * (x - t)) - (x - t) - 0.6931471805599453,
    "hinge_embedding_loss": every(F.hinge_embedding_loss), "poisson_nll": every(F.poisson_nll_loss),
    "kl_divergence": lambda x, t: F.kl_div(x, t, reduction="none").sum(-1),
    "gaussian_nll": every(F.gaussian_nll_loss), "binary_cross_entropy": every(F.binary_cross_entropy),
    "sigmoid_focal_loss": focal, "margin_ranking_loss": every(F.margin_ranking_loss, margin=0.5),
    "cosine_similarity": lambda x, y: F.cosine_similarity(x, y, -1),
    "triplet_margin_loss": every(F.triplet_margin_loss),
    "accuracy": lambda x, t: (x.argmax(-1) == t).float().mean(),
    "confusion_matrix": lambda p, t: torch.zeros(64 * 64).index_add(0, t * 64 + p, torch.ones(len(t))).view(64, 64),
}


def op(name):
    if name in OPS:
        return OPS[name]
    return same("3x3" if name.startswith("depthwise") else name)


def fastest(call):
    call(), call()
    best, count, started = float("inf"), 0, time.perf_counter()
    while time.perf_counter() - started < flags.seconds or count < LEAST:
        begin = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - begin), count + 1
    return best * 1e6


def trained(f, inputs):
    y = f(*inputs)
    y = y[0] if isinstance(y, (tuple, list)) else y
    weights = [x for x in inputs if x.requires_grad] + (f.weights() if isinstance(f, Layer) else [])
    dy = torch.full_like(y, 1e-3)

    def step():
        y = f(*inputs)
        (y[0] if isinstance(y, (tuple, list)) else y).backward(dy)
        with torch.no_grad():
            for x in weights:
                if x.grad is not None:
                    x.sub_(x.grad, alpha=RATE)
                    x.grad = None

    return step


table = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops.txt")
for line in open(table):
    if line.startswith("#") or not line.strip():
        continue
    name, _, texts = line.strip().split(" | ")[:3]
    if flags.words and not any(word in name for word in flags.words):
        continue
    for threads in map(int, flags.threads.split(",")):
        torch.set_num_threads(threads)
        inputs, f = [given(text) for text in texts.split(" ; ")], op(name)
        found = {}
        with torch.no_grad():
            found["forward_us"] = fastest(lambda: f(*inputs))
        if any(x.requires_grad for x in inputs) or isinstance(f, Layer):
            found["train_us"] = fastest(trained(f, inputs))
        for metric, value in found.items():
            print(f"result workload=op_{name} peer=torch layout=t{threads} metric={metric} value={value:.6g}", flush=True)
