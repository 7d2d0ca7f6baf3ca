"""Norms, losses, dense layers and attention."""

import jax
import jax.numpy as jnp
import numpy as np

from draw import golden

EPSILON = 1e-6


@golden(ties=True, zeros="x")
def layer_norm(draw):
    draw.size("model", (4, 6))
    draw.normal("x", "batch length model")
    draw.normal("scale", "model")
    draw.normal("bias", "model")
    normal = lambda x: jax.nn.standardize(x, axis=-1, epsilon=EPSILON)
    return lambda x, scale, bias: normal(x) * scale + bias


@golden(ties=True, zeros="x")
def rms_norm(draw):
    draw.size("model", (4, 6))
    draw.normal("x", "batch length model")
    draw.normal("scale", "model")
    return lambda x, scale: x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + EPSILON) * scale


@golden(ties=True, zeros="x")
def batch_norm(draw):
    draw.size("batch", (4, 6))
    draw.normal("x", "batch h in")
    draw.normal("scale", "in")
    draw.normal("bias", "in")
    normal = lambda x: jax.nn.standardize(x, axis=(0, 1), epsilon=EPSILON)
    return lambda x, scale, bias: normal(x) * scale + bias


@golden()
def dense(draw):
    draw.normal("x", "batch in")
    draw.normal("kernel", "in out")
    draw.normal("bias", "out")
    return lambda x, kernel, bias: jnp.tanh(x @ kernel + bias)


@golden()
def gated_feed_forward(draw):
    draw.normal("x", "batch model")
    draw.normal("up", "model hidden")
    draw.normal("gate", "model hidden")
    draw.normal("down", "hidden model")
    return lambda x, up, gate, down: (jax.nn.swish(x @ up) * (x @ gate)) @ down


def cross_entropy(logits, targets):
    return -jnp.sum(targets * jax.nn.log_softmax(logits), -1)


@golden()
def softmax_cross_entropy(draw):
    """Class numbers, smoothed, with the square of the normaliser."""
    smoothing = draw.among("label_smoothing", [0.0, 0.125, 0.25])
    z_loss = draw.among("z_loss", [0.0, 0.0625])
    draw.normal("logits", "batch length classes")
    n = draw.size("classes")
    draw.integers("targets", "batch length", 0, n - 1)

    def function(logits, targets):
        soft = jax.nn.one_hot(targets, n, dtype=logits.dtype) * (1 - smoothing) + smoothing / n
        return cross_entropy(logits, soft) + z_loss * jax.nn.logsumexp(logits, -1) ** 2

    return function


@golden()
def saturated_cross_entropies(draw):
    """Of logits so far apart that exponentials overflow or vanish."""
    far = lambda sizes: draw.rng.choice([-400.0, -1.0, 2.0, 400.0], sizes)
    draw._input("logits", "batch classes", far)
    draw.integers("targets", "batch", 0, draw.size("classes") - 1)

    def function(logits, targets):
        soft = jax.nn.one_hot(targets, logits.shape[1], dtype=logits.dtype)
        log, log_not = jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
        return cross_entropy(logits, soft), -soft * log - (1 - soft) * log_not

    return function


@golden(zeros="targets", without="elsewhere")  # Infinite weights of classes; the order of products differs.
def soft_cross_entropy(draw):
    """Weights of classes, which need not add up to 1."""
    smoothing = draw.among("label_smoothing", [0.0, 0.25])
    draw.normal("logits", "batch classes")
    draw.positive("targets", "batch classes")
    n = draw.size("classes")

    def function(logits, targets):
        total = jnp.sum(targets, -1, keepdims=True)
        return cross_entropy(logits, targets * (1 - smoothing) + total * smoothing / n)

    return function


@golden()
def sigmoid_cross_entropy(draw):
    draw.coarse("logits", "p q")
    # Of infinite targets optax subtracts infinities, PyTorch and Mesh do not.
    draw.ends["targets"] = (np.nan,)
    draw.normal("targets", "p q")

    def function(logits, targets):
        log, log_not = jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
        return -targets * log - (1 - targets) * log_not

    return function


@golden()
def weighted_mean(draw):
    draw.normal("x", "batch length")
    draw.positive("weights", "batch length")
    return lambda x, weights: jnp.average(x, weights=weights)


@golden()
def embedding_logits(draw):
    draw.normal("x", "batch model")
    draw.normal("table", "vocab model")
    return lambda x, table: x @ table.T / np.sqrt(table.shape[1])


def attend(q, k, v, allowed=None, bias=0.0, sink=None, cap=None, scale=1.0):
    """Attention of q [batch, length, heads, kv] to k and v [batch, memory, heads, kv]."""
    logits = jnp.einsum("blhk,bmhk->bhlm", q * scale, k)
    if cap is not None:
        logits = cap * jnp.tanh(logits / cap)
    logits = logits + bias
    if allowed is not None:
        logits = jnp.where(allowed, logits, -jnp.inf)
    if sink is not None:
        sinks = jnp.broadcast_to(sink[:, None, None], logits.shape[:-1] + (1,))
        logits = jnp.concatenate([logits, sinks], -1)
    weights = jax.nn.softmax(logits)[..., : k.shape[1]]
    return jnp.einsum("bhlm,bmhk->blhk", weights, v)


def check_attend():
    """Asserts that JAX's own attention, which normalises in f32, finds the same."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 2, 6))
    own = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    ours = attend(q, k, v, np.tri(4, dtype=bool), scale=6**-0.5)
    np.testing.assert_allclose(own, ours, rtol=1e-5, atol=1e-5)


check_attend()


def queries_and_memory(draw, memory_heads="heads"):
    draw.sizes["batch"] = 2
    draw.sizes["memory_length"] = draw.size("length", (3, 4))
    draw.size("heads", (2,)), draw.size("kv", (2, 3, 4))
    draw.normal("q", "batch length heads kv")
    draw.normal("k", f"batch memory_length {memory_heads} kv")
    draw.normal("v", f"batch memory_length {memory_heads} kv")
    return np.tri(draw.size("length"), dtype=bool)


@golden()
def attention(draw):
    queries_and_memory(draw)
    scale = draw.among("scale", [0.5, 1.0])
    return lambda q, k, v: attend(q, k, v, scale=scale)


@golden(without="infinities")  # What is masked is not read here; JAX has 0 times it.
def causal_attention(draw):
    causal = queries_and_memory(draw)
    return lambda q, k, v: attend(q, k, v, causal)


@golden()
def attention_with_everything(draw):
    """A cap, a bias, a sink, a mask of padding."""
    queries_and_memory(draw)
    cap = draw.attribute("cap", 2.5)
    draw.normal("bias", "heads length memory_length")
    draw.normal("sink", "heads")
    # Token 0 is padding.
    draw.integers("memory", "batch memory_length", 0, 2)
    return lambda q, k, v, bias, sink, memory: attend(
        q, k, v, (memory != 0)[:, None, None], bias, sink, cap
    )


@golden(without="elsewhere")  # What is masked is not read here; JAX has 0 times it.
def multi_query_attention(draw):
    causal = queries_and_memory(draw, memory_heads="")

    def function(q, k, v):
        every = lambda x: jnp.repeat(x[:, :, None], q.shape[2], 2)
        return attend(q, every(k), every(v), causal)

    return function


@golden(without="elsewhere")  # What is masked is not read here; JAX has 0 times it.
def local_attention(draw):
    draw.sizes |= {"batch": 2, "heads": 2}
    draw.size("kv", (1, 2, 3))
    length, window = draw.size("length", (4, 6)), draw.among("window", [2, 3, 5])
    for name in ("q", "k", "v"):
        draw.normal(name, "batch length heads kv")
    near = np.tri(length, dtype=bool) & ~np.tri(length, k=-window, dtype=bool)
    return lambda q, k, v: attend(q, k, v, near)


def multi_head(draw, memory_heads):
    draw.sizes |= {"batch": 2, "heads": 2}
    length = draw.size("length", (2, 3, 4))
    draw.size("model", (2, 3, 4)), draw.size("kv", (2, 3))
    draw.normal("x", "batch length model")
    draw.normal("query", "model heads kv")
    draw.normal("key", f"model {memory_heads} kv")
    draw.normal("value", f"model {memory_heads} kv")
    draw.normal("output", "heads kv model")
    causal = np.tri(length, dtype=bool)

    def function(x, query, key, value, output):
        if key.ndim == 2:
            key, value = (jnp.repeat(w[:, None], query.shape[1], 1) for w in (key, value))
        q, k, v = (jnp.einsum("blm,mhk->blhk", x, w) for w in (query, key, value))
        return jnp.einsum("blhk,hkm->blm", attend(q, k, v, causal), output)

    return function


@golden()
def multi_head_self_attention(draw):
    return multi_head(draw, "heads")


@golden()
def multi_query_self_attention(draw):
    return multi_head(draw, "")


@golden()
def rotary(draw):
    draw.size("kv", (4, 6))
    draw.normal("x", "batch length heads kv")
    base = draw.among("base", [100.0, 10_000.0])
    draw.attribute("computed_in", "f32")  # Mesh makes angles, cosines and sines in f32.

    def function(x):
        half = x.shape[-1] // 2
        frequencies = (base ** (-np.arange(half) / half)).astype(np.float32)
        angles = np.arange(x.shape[1], dtype=np.float32)[:, None, None] * frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    return function


@golden()
def cross_attention(draw):
    """A memory of another length, and of other dims than the model's."""
    draw.sizes |= {"batch": 2, "heads": 2}
    draw.size("length", (1, 2, 3)), draw.size("memory", (2, 3, 4)), draw.size("model", (2, 3)), draw.size("kv", (2, 3))
    draw.normal("x", "batch length model")
    draw.normal("at", "batch memory model")
    for name in ("query", "key", "value"):
        draw.normal(name, "model heads kv")
    draw.normal("output", "heads kv model")

    def function(x, at, query, key, value, output):
        q = jnp.einsum("blm,mhk->blhk", x, query)
        k, v = (jnp.einsum("blm,mhk->blhk", at, w) for w in (key, value))
        return jnp.einsum("blhk,hkm->blm", attend(q, k, v), output)

    return function


@golden()
def masks(draw):
    """Of positions, of segments, and of both as what is added."""
    width = draw.among("width", [1, 2, 4])
    draw.size("batch", (2,)), draw.size("length", (4, 5, 6))
    draw.integers("segment", "batch length", 0, 2)

    def function(segment):
        at = jnp.arange(segment.shape[1])
        after = at[:, None] - at[None]
        same = segment[:, :, None] == segment[:, None]
        # A mask that is added has -1e9 where there is nothing to see.
        added = jnp.where(same & (after >= 0), 0.0, -1e9)
        return after >= 0, (after >= 0) & (after < width), same, added

    return function


@golden()
def weights_nonzero(draw):
    draw.integers("targets", "batch length", -1, 1)
    return lambda targets: (targets != 0) * 1.0


@golden(without="elsewhere")  # Infinite weights are not empty.
def empty_weights(draw):
    """Nothing counts: there is no mean, and Mesh has 0."""
    draw.normal("x", "batch length")
    draw._input("weights", "batch length", np.zeros)
    return lambda x, weights: jnp.nansum(x * weights) + 0 * jnp.sum(x)


@golden()
def perplexity(draw):
    draw.normal("loss", "batch length")
    draw.positive("weights", "batch length")
    return lambda loss, weights: jnp.exp(jnp.average(loss, weights=weights))


@golden()
def metrics_of_numbers(draw):
    """Values alone."""
    draw.normal("x", "batch length")
    draw.normal("target", "batch length")
    draw.positive("weights", "batch length")

    def function(*inputs):
        x, target, weights = map(jax.lax.stop_gradient, inputs)
        mean = lambda x: jnp.average(x, weights=weights)
        squares = mean((x - target) ** 2)
        return squares, jnp.sqrt(squares), 1 - squares / mean((target - mean(target)) ** 2)

    return function


@golden(ties=True, without="nan")  # Nothing is greater than a NaN, nor less, for Mesh; JAX ranks it first.
def metrics_of_logits(draw):
    """Of equal logits the first counts. Values alone."""
    k = draw.among("k", [2, 3])
    draw.size("batch", (2, 4, 6)), draw.size("classes", (4, 5))
    draw.attribute("computed_in", "f32")
    draw.coarse("logits", "batch classes")
    draw.integers("label", "batch", 0, draw.sizes["classes"] - 1)

    def function(logits, label):
        logits = jax.lax.stop_gradient(logits)
        first = jnp.argmax(logits, 1) == label
        found = (jax.lax.top_k(logits, k)[1] == label[:, None]).any(1)
        return first.mean(dtype=logits.dtype), found.mean(dtype=logits.dtype)

    return function


@golden(without="infinities nan elsewhere")
def attention_of_nothing(draw):
    """All that an example could see is padding: its queries see all alike, as in `jax.nn.dot_product_attention`. (Where
    softmax has minus infinity alone, and there is no mask, it has NaN; PyTorch has zeros.)"""
    queries_and_memory(draw)
    draw.integers("memory", "batch memory_length", 0, 1)
    draw.inputs[3][2][0], draw.inputs[3][2][1, 0] = 0, 1

    def function(q, k, v, memory):
        seen = (memory != 0)[:, None, None]
        nothing = ~seen.any(-1, keepdims=True)
        y = attend(jnp.where(nothing[:, 0, :, :, None], 0, q), k, v, seen | nothing)
        own = jax.nn.dot_product_attention(q, k, v, mask=seen, scale=1.0)
        jax.debug.callback(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), y, own)
        return y

    return function
