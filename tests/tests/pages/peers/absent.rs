//! Names that nothing stands for, each with its reason or with what is done instead.

/// Names of others, and why they are not here.
pub(super) struct Absent {
    pub(super) torch: &'static str,
    pub(super) jax: &'static str,
    pub(super) why: &'static str,
}

const fn absent(torch: &'static str, jax: &'static str, why: &'static str) -> Absent {
    Absent { torch, jax, why }
}

pub(super) const ABSENT: &[Absent] = &[
    absent(
        "manual_seed",
        "jax.random.key jax.random.split",
        "`Session::threads(&module, seed)`: one seed for the session. A number depends on the seed, the op's name, the step and the place in the whole tensor, never on the layout",
    ),
    absent(
        "nn.DataParallel nn.parallel.DistributedDataParallel",
        "jax.pmap",
        "the layout `batch:data`",
    ),
    absent(
        "distributed.fsdp.FullyShardedDataParallel",
        "",
        "the layout `batch:data; params/*:data; slots/*:data`",
    ),
    absent(
        "distributed.tensor.parallelize_module",
        "jax.jit(in_shardings=…)",
        "the layout, such as `heads:model; hidden:model`",
    ),
    absent(
        "distributed.tensor.experimental.context_parallel",
        "",
        "the layout `length:seq`; `AttentionOptions::exchange` says how attention meets it; docs/long-sequences.md",
    ),
    absent(
        "distributed.all_reduce distributed.all_gather",
        "lax.psum lax.pmean lax.pmax lax.pmin lax.all_gather lax.all_to_all lax.ppermute lax.psum_scatter lax.axis_index",
        "collectives follow from the layout; nobody writes them",
    ),
    absent(
        "distributed.tensor.DTensor",
        "jax.sharding.NamedSharding lax.with_sharding_constraint",
        "a rule of the layout; `Tensor::relayout` for one tensor",
    ),
    absent("", "jax.shard_map", "an op of your own (`Op::local`) sees one processor's slices"),
    absent("utils.data.DataLoader", "grain.DataLoader", "`mesh_optimize::dataset`"),
    absent(
        "save load",
        "orbax.checkpoint",
        "`mesh_optimize::training`, `Session::save`; docs/checkpoints.md",
    ),
    absent(
        "cuda.Stream cuda.synchronize",
        "jax.block_until_ready",
        "a call returns what it fetches, and waits for that alone",
    ),
    absent("no_grad inference_mode", "", "a gradient is computed only where it is asked for"),
    absent(
        "nn.Module.train nn.Module.eval",
        "",
        "two functions of one graph: one with dropout and updates, one without",
    ),
    absent(
        "nn.Sequential nn.ModuleList nn.ModuleDict nn.ParameterList nn.ParameterDict",
        "linen.Module",
        "functions of Rust",
    ),
    absent(
        "unique unique_consecutive",
        "jnp.unique jnp.union1d jnp.intersect1d jnp.setdiff1d",
        "the number of results depends on the data; shapes are fixed",
    ),
    absent(
        "nn.Transformer nn.TransformerEncoder nn.TransformerDecoder",
        "",
        "`TransformerLayer::apply` in a loop of Rust, or `Graph::scan` over stacked layers; the programs `lm` and `vit`",
    ),
    absent(
        "",
        "lax.optimization_barrier",
        "`Tensor::depend` orders; `Graph::recompute` has barriers of its own",
    ),
    absent("nn.utils.rnn.pack_padded_sequence", "", "`Recurrent::apply` takes the lengths"),
    absent(
        "nn.MaxUnpool1d nn.MaxUnpool2d nn.MaxUnpool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d",
        "",
        "needs the places of maxima, which pooling does not give; the gradient of `max_pool` moves values back to them",
    ),
    absent(
        "F.grid_sample F.affine_grid",
        "jax.scipy.ndimage.map_coordinates",
        "gathers at places that the data choose in two dims; `gather` along merged dims composes it",
    ),
    absent(
        "linalg.svd linalg.eigh linalg.qr linalg.cholesky linalg.inv linalg.solve linalg.det linalg.slogdet",
        "jnp.linalg.svd jnp.linalg.eigh jnp.linalg.qr jnp.linalg.cholesky jnp.linalg.inv jnp.linalg.solve jnp.linalg.det jnp.linalg.slogdet",
        "decompositions need whole matrices and have no spelling by products; roots by Newton's iteration stand in `mesh_optimize`",
    ),
    absent("fft.fft stft istft", "jnp.fft.fft", "there are no complex numbers"),
    absent(
        "sparse_coo_tensor",
        "jax.experimental.sparse",
        "tensors are dense; `gather` and `scatter_add` work on indices",
    ),
    absent(
        "nn.EmbeddingBag F.embedding_bag",
        "",
        "`embedding(…).sum([length])`, or `segment_sum` of it",
    ),
    absent("nn.Fold3d nn.LazyLinear", "", "sizes are known when the graph is built"),
    absent("quantization int8", "", "dtypes are float64, float32, bfloat16, int32 and bool"),
    absent(
        "uint8 int64 Tensor.byte Tensor.long",
        "jnp.uint8 jnp.int64",
        "integers of all types are fed, written and read, and become int32 or floats at the border; `Array::to_integers` gives them back",
    ),
    absent("complex64", "jnp.complex64", "there are no complex numbers"),
    absent(
        "amp.autocast amp.GradScaler",
        "",
        "the dtypes of variables and activations; bfloat16 needs no scaling of losses",
    ),
    absent("profiler.profile", "jax.profiler.trace", "`Trace`: for Perfetto; docs/debugging.md"),
    absent(
        "export onnx.export",
        "jax.export",
        "`Module::save`; `Module::stablehlo` is text for XLA",
    ),
];
