"""A peer's program in JAX whose batches come from the host's memory in every step, as ours do.

usage: fed_jax.py PEERS FLAGS ...   (PEERS: the folder of the peers' programs; flags are those of peer_jax.py)
"""
import os
import runpy
import sys

import jax
import numpy as np

peers = sys.argv[1]
put = jax.device_put


def left_here(x, *where, **how):
    """Puts everything on devices but arrays of the host: batches are those, parameters a tree of them."""
    return x if isinstance(x, np.ndarray) else put(x, *where, **how)


jax.device_put = left_here
sys.path.insert(0, peers)
sys.argv = [os.path.join(peers, "peer_jax.py"), *sys.argv[2:]]
runpy.run_path(sys.argv[0], run_name="__main__")
