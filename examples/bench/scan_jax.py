"""Compiling the training step of a deep, narrow transformer in JAX, with `lax.scan` over its layers.

usage: scan_jax.py [LAYERS [PROCESSORS]]   (needs jax and optax)

The model, its sizes and its mesh of two axes are those of `bench compile --scan`. Prints the seconds that tracing and
lowering take, and those that XLA takes, as lines of the form that `bench` prints.
"""
import os
import sys
import time

LAYERS, PROCESSORS = [int(x) for x in (sys.argv[1:] + ["24", "4"][len(sys.argv) - 1:])]
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "")
                           + " --xla_force_host_platform_device_count=%d" % PROCESSORS)
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MODEL = 1 << min((PROCESSORS.bit_length() - 1) // 2, 3)
BATCH, LENGTH, D, FF, HEADS, VOCAB = max(16, PROCESSORS // MODEL), 32, 128, 256, 16, 512
mesh = Mesh(np.array(jax.devices()).reshape(PROCESSORS // MODEL, MODEL), ("b", "m"))


def of(shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def layer(h, w):
    mask = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), 0., -1e9)
    z = norm(h, w["n1"])
    q, k, v = (jnp.einsum("bld,dhk->bhlk", z, w[name]) for name in ("wq", "wk", "wv"))
    t = jnp.einsum("bhlk,bhmk->bhlm", q, k) * (D // HEADS) ** -0.5 + mask
    o = jnp.einsum("bhlm,bhmk->bhlk", jax.nn.softmax(t, -1), v)
    h = h + jnp.einsum("bhlk,hkd->bld", o, w["wo"])
    return h + jax.nn.relu(norm(h, w["n2"]) @ w["w1"]) @ w["w2"], None


def loss_of(p, x, y):
    h, _ = jax.lax.scan(layer, p["emb"][x] + p["pos"], p["layers"])
    logits = norm(h, p["nf"]) @ p["head"]
    pick = jnp.sum(jnp.where(y[..., None] == jnp.arange(VOCAB), logits, 0.), -1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - pick)


L, K = LAYERS, D // HEADS
params = {
    "emb": of((VOCAB, D), "m", None), "pos": of((LENGTH, D)), "nf": of((D,)), "head": of((D, VOCAB), None, "m"),
    "layers": {
        "n1": of((L, D)), "n2": of((L, D)),
        "wq": of((L, D, HEADS, K), None, None, "m", None), "wk": of((L, D, HEADS, K), None, None, "m", None),
        "wv": of((L, D, HEADS, K), None, None, "m", None), "wo": of((L, HEADS, K, D), None, "m", None, None),
        "w1": of((L, D, FF), None, None, "m"), "w2": of((L, FF, D), None, "m", None),
    },
}
opt = optax.adamw(1e-3, weight_decay=0.01)


def train(p, s, x, y):
    loss, g = jax.value_and_grad(loss_of)(p, x, y)
    u, s = opt.update(g, s, p)
    return optax.apply_updates(p, u), s, loss


like = jax.eval_shape(opt.init, params)
shardings = {leaf.shape: leaf.sharding for leaf in jax.tree.leaves(params)}
state = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=shardings.get(leaf.shape)), like)
words = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32, sharding=NamedSharding(mesh, P("b", None)))
began = time.perf_counter()
lowered = jax.jit(train, donate_argnums=(0, 1)).lower(params, state, words, words)
traced = time.perf_counter()
lowered.compile()
done = time.perf_counter()
for metric, seconds in [("lower_s", traced - began), ("xla_s", done - traced), ("total_s", done - began)]:
    print("result workload=scan_lm_L%d peer=jax layout=mesh%d metric=%s value=%.6g version=%s"
          % (LAYERS, PROCESSORS, metric, seconds, jax.__version__))
