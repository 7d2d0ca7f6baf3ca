"""PyTorch's AutoParallel on the decoder of docs/search.md, on a machine without a GPU: how long its search takes.

    pip install torch==2.15.0 pulp filecheck
    git clone https://github.com/meta-pytorch/autoparallel   # measured at a54c252
    PYTHONPATH=autoparallel python examples/bench/autoparallel.py --layers 32 --mesh 8x8

The model, traced for processors that are not there, is AutoParallel's own Llama 3 of 8 billion parameters; costs are
those of its tables for H100. The mesh is given, as AutoParallel wants it. Its tensors are on the CPU, as no GPU may be
asked for, and for the CPU's fused attention it has no rule: it replicates that, which makes its task smaller.
"""

import argparse
import math
import resource
import time

import torch
from autoparallel._testing.models.llama3 import Transformer, TransformerModelArgs, apply_ac
from autoparallel.api import AutoParallel
from autoparallel.cost_models import compute_estimation
from autoparallel.cost_models.collective_runtime_estimation import set_nccl_topo_config
from autoparallel.cost_models.nccl_cost_model import detect_nccl_topo_config
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor.placement_types import Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

SEQUENCE, BATCH, VOCAB = 8192, 64, 128256


def pretend_h100():
    """Has AutoParallel take its costs for H100, whatever the machine has."""
    torch.cuda.get_device_name = lambda *_: "H100"
    (h100,) = (limit for limit in compute_estimation.DEVICE_LIMITS if limit.name == "H100")
    compute_estimation._get_device_limit = lambda: h100


def decoder(layers):
    sizes = TransformerModelArgs(
        dim=4096, n_layers=layers, n_heads=32, n_kv_heads=8, ffn_dim_multiplier=1.3, multiple_of=1024,
        rope_theta=500000, vocab_size=VOCAB, max_seq_len=SEQUENCE,
    )
    with torch.device("meta"):
        model = Transformer(sizes)
    apply_ac(model, mode="selective", selective_ac_option="op")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--mesh", default="8x8", help="sizes of its one or two axes")
    flags = parser.parse_args()
    shape = tuple(int(size) for size in flags.mesh.split("x"))

    pretend_h100()
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=math.prod(shape))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[: len(shape)])
    set_nccl_topo_config(detect_nccl_topo_config(mesh))
    model = decoder(flags.layers)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    begin = time.perf_counter()
    tokens = lambda: torch.randint(0, VOCAB, (BATCH, SEQUENCE))
    with AutoParallel(model, tokens, mesh, policy, repeated_subgraphs=True) as parallel:
        parallel.add_parameter_memory_constraint(low=None, high=None)
        by_batch = (Shard(0),) + (Replicate(),) * (mesh.ndim - 1)
        parallel.add_input_constraints([by_batch])
        parallel.add_output_constraints([by_batch])
        prepared = time.perf_counter()
        parallel.optimize_placement(verbose=False)
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"traced and priced {prepared - begin:.1f} s, solved {end - prepared:.1f} s, {peak} MiB")


if __name__ == "__main__":
    main()
