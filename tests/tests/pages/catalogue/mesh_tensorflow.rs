//! Mesh TensorFlow's ops and layers under this library's names.

/// A family of names: the name in Mesh TensorFlow, and the name here or why there is none.
pub type Family = &'static [(&'static str, &'static str)];

pub const FAMILIES: &[Family] = &[
    &[
        ("`identity`", "not wanted: a tensor is a `Copy` handle"),
        (
            "`sin`, `cos`, `square`, `sqrt`, `rsqrt`, `log`, `exp`, `sigmoid`, `tanh`, `reciprocal`, `logical_not`, `relu`, `leaky_relu`, `swish`, `gelu`, \
                 `elu`, `selu`, `softplus`, `sign`, `abs`",
            "the same names",
        ),
        ("`negative`", "`neg`, or the operator"),
        ("`pow`", "`pow`, right for a base below 0 as well; `powf`"),
        ("`cast`, `to_float`, `to_bfloat16`, `to_int32`", "`cast`"),
        (
            "`slicewise`, `cwise`",
            "an op of one's own (`Op`), an equal citizen; see CONTRIBUTING.md",
        ),
        ("scalar multiply, scalar add", "operators with numbers: `2.0 * x - 1.0`"),
    ],
    &[
        (
            "`add`, `add_n`, `sub`, `multiply`, `divide`",
            "`add`, `add_n`, `sub`, `mul`, `div`, or operators",
        ),
        ("`minimum`, `maximum`", "`minimum`, `maximum`; a tie gives half to each"),
        (
            "`less`, `greater`, `less_equal`, `greater_equal`, `equal`, `not_equal`, \
                 `logical_and`, `logical_or`",
            "the same names",
        ),
        ("`floordiv`, `mod`", "`floordiv`, `modulo`, with gradients"),
        ("`where`", "`select`: what is not chosen reaches nothing"),
    ],
    &[
        (
            "`reduce_sum`, `reduce_mean`, `reduce_max`, `reduce_min`",
            "`sum`, `mean`, `max`, `min`; `sum_onto` for an output shape",
        ),
        ("`reduce_all`, `reduce_any`", "`all`, `any`"),
        ("`reduce_first`", "`pick`"),
        ("`pool_tensor_1d`, `stride_tensor_1d`", "`pool_1d`, `stride_1d`"),
        (
            "`reduce_logsumexp`, `log_softmax`, `softmax`, with `extra_logit`",
            "`logsumexp_with`, `log_softmax_with`, `softmax_with`",
        ),
        ("`einsum`, `matmul`", "`einsum`, `contract` by what is summed, `matmul`"),
        ("`gather`", "`gather`: rows are looked up, not multiplied out"),
        ("`cumsum`", "`cumsum`, `cumsum_with`"),
        (
            "`top_k`, `top_1`, `argmax`, `nth_largest_element`, `nth_smallest_element`",
            "`top_k`, `top_1`, `argmax`, `nth_largest`, `nth_smallest`",
        ),
        ("`sample_with_temperature`", "`sample_with_temperature`"),
    ],
    &[
        (
            "`broadcast`, `reshape`, `transpose`, `concat`, `split`, `stack`, `unstack`, `slice`, `pad`, `shift`, `one_hot`, `range`",
            "the same names",
        ),
        (
            "`rename_dimension`, `replace_dimensions`, `combined_dimension`",
            "`rename`, `replace_dims`, `merge_dims`",
        ),
        ("`dynamic_shift`", "`dynamic_shift`, as a gather"),
        ("`one_hot` with on and off values", "`one_hot_with`"),
        (
            "`constant`, `zeros`, `ones`, `zeros_like`, `ones_like`",
            "`Graph::constant`, `Graph::fill`, `zeros_like`, `ones_like`",
        ),
        ("`stop_gradient`", "`Tensor::stop_gradient`"),
        (
            "`import_tf_tensor`, `import_fully_replicated`",
            "`Graph::input`: each processor is fed its slice",
        ),
        ("`import_laid_out_tensor`", "not wanted: arrays at the border are global"),
        ("`anonymize`", "`rename` to a dim that no rule splits"),
        ("`Print`", "`Tensor::probe`, which shows the global value under any executor"),
        ("`scalar_summary`", "not wanted: fetch the scalar from the function"),
    ],
    &[
        (
            "`conv2d`, `conv3d`, `conv1d`",
            "`conv`, in any number of dims, spatial dims split or not",
        ),
        ("`conv2d_transpose`, `conv3d_transpose`", "`conv_transpose`"),
        ("the backprop ops", "gradients of `conv`, which are `conv` of another kind"),
        (
            "`max_pool2d`, `avg_pool2d`, `max_pool3d`, `avg_pool3d`",
            "`max_pool`, `avg_pool`; windows may overlap",
        ),
        (
            "`halo_exchange`, `left_halo_exchange`",
            "the same names; `conv` and `windows` need neither",
        ),
        (
            "`conv2d_with_blocks`, `conv3d_with_blocks`",
            "`conv_with_blocks`; or `conv` with its spatial dims split",
        ),
        (
            "`conv2d_transpose_with_blocks`, `conv3d_transpose_with_blocks`",
            "`conv_transpose` with its spatial dims split",
        ),
    ],
    &[
        ("`dense`, `dense_product`, `dense_relu_dense`", "the same names; `Dense`, `FeedForward`"),
        ("`conv1d`, `separable_conv1d`", "`conv_layer`, `separable_conv_layer`"),
        ("`layer_norm`, `batch_norm`", "the same names, `rms_norm`"),
        (
            "`softmax_cross_entropy_with_logits`, `sigmoid_cross_entropy_with_logits`",
            "`softmax_cross_entropy`, `CrossEntropy`, `sigmoid_cross_entropy`",
        ),
        ("`weights_nonzero`", "`weights_nonzero`, `weighted_mean`"),
        (
            "`embedding`, `embedding_weights`",
            "`embedding`, `embedding_weights`, `embed`, `embedding_logits`",
        ),
        (
            "`multiplicative_jitter`, `dropout`",
            "`multiplicative_jitter`, `dropout`, `dropout_over` for a noise shape",
        ),
        ("`annealed_dropout`", "not wanted yet: a rate is a number, not a tensor"),
        ("`random_uniform`, `random_normal`", "the same names: numbers that no layout changes"),
        (
            "`dot_product_attention`, `multihead_attention` and their incremental forms",
            "`dot_product_attention`, `MultiHead` and `MultiHead::decode`",
        ),
        (
            "attention masks: padding, autoregressive, same segment, local",
            "`padding_mask`, `causal_mask`, `segment_mask`, `window_mask`, `additive_mask`",
        ),
        (
            "`masked_local_attention_1d`, `local_attention_1d`",
            "`LocalAttention`: the window that is asked for",
        ),
        ("`local_2d_self_attention_spatial_blocks`", "`LocalAttention2d`"),
        (
            "`multihead_self_attention_memory_compressed`",
            "`CompressedMemory`: a query that sees no block attends to nothing, not to all",
        ),
        ("talking heads", "`TalkingHeads`, an option of every attention"),
        (
            "multi-query, `combine_dims`",
            "`MultiHead::multi_query`, `MultiHead::grouped`; a variable has as many dims as it needs",
        ),
        ("relative position buckets", "`RelativeBias`"),
        (
            "synthetic, bilinear, branched, hybrid and experts' attention",
            "not wanted yet: compositions of what is here, each of one paper",
        ),
        ("top-2 and switch gating, router z-loss and jitter", "`MixtureOfExperts`"),
        ("`transformer_moe_layer_v2`, `MoE2D`", "`HierarchicalMixture`"),
        (
            "other gatings (no token left behind, expert choice, switch max)",
            "not wanted yet: no published result here asks for them",
        ),
        ("`beam_search`", "`BeamSearch`"),
        ("`while_loop`", "`Graph::while_loop`; `Graph::scan` has a gradient"),
        ("`recompute_grad`, `custom_gradient`", "`Graph::recompute`, `Graph::custom_gradient`"),
        ("`reversible_half_residual_and_swap`", "`Graph::reversible`"),
        ("`serialize_training_step`", "`Graph::sum_over`, `microbatches`"),
    ],
];
