"""Writes the peers' initial values and batches for `bench --init`.

usage: initial.py PEERS OUT   (PEERS: the folder of the peers' common.py; needs numpy)

One file a model in the safetensors format: variables by name, `batches/x` and `batches/y`.
"""
import json
import os
import struct
import sys

import numpy as np

peers, out = sys.argv[1:]
sys.path.insert(0, peers)
import common as C

NAMES = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}


def write(name, tensors, batches):
    tensors = dict(tensors, **{"batches/x": batches[0], "batches/y": batches[1]})
    arrays = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    header, at = {}, 0
    for k, v in arrays.items():
        header[k] = {"dtype": NAMES[v.dtype], "shape": v.shape, "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for v in arrays.values():
            f.write(v.tobytes())


def flat(params):
    own = {k: v for k, v in params.items() if k != "layers"}
    return dict(own, **{"l%d_%s" % (i, k): v for i, l in enumerate(params["layers"]) for k, v in l.items()})


os.makedirs(out, exist_ok=True)
write("mlp_b128", C.mlp_init(), C.mnist_like(128))
write("mlp_b1024", C.mlp_init(), C.mnist_like(1024))
write("cnn_b200", C.cnn_init(), C.mnist_like(C.CNN["batch"]))
write("lm", flat(C.lm_init()), C.tokens(C.LM["batch"], C.LM["seq"], C.LM["vocab"]))
