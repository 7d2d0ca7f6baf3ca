//! Products, new tensors, shapes and indices.

use super::{Row, Words, rows};
use mesh_ops::einsum::{contract, einsum, matmul};
use mesh_ops::prelude::*;
use mesh_ops::random::*;
use mesh_ops::*;

pub(super) fn products(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, rows, x, y, sequence, length, .. } = words;
    let weights = y.rename(rows, "outputs");
    rows! {
        "matmul mm bmm mv", "jnp.matmul jnp.dot jnp.matvec lax.dot lax.batch_matmul" => matmul(x, &[weights]), "over the dims that both have";
        "einsum", "jnp.einsum" => einsum(x, &[weights], [rows, dim("outputs", 4)]);
        "tensordot", "jnp.tensordot lax.dot_general" => contract(x, &[weights], [columns]);
        "inner vdot dot", "jnp.inner jnp.vdot" => (x * y).sum_all();
        "linalg.vecdot", "jnp.vecdot" => (x * y).sum([columns]);
        "outer ger", "jnp.outer" => x * weights.rename(columns, "more");
        "kron", "jnp.kron" => x * weights.rename(columns, "more");
        "baddbmm addmm addmv addbmm", "" => matmul(x, &[weights]) + 1.0;
        "trace", "jnp.trace" => {
            let other = sequence.rename(length, "others");
            let gram = contract(sequence, &[other], [words.model]);
            diagonal(gram, length, dim("others", 6), 0).sum_all()
        };
    }
}

pub(super) fn made(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, columns, rows, x, .. } = words;
    rows! {
        "zeros empty", "jnp.zeros jnp.empty" => g.fill(0.0, [rows, columns], F32);
        "ones", "jnp.ones" => g.fill(1.0, [rows, columns], F32);
        "full", "jnp.full lax.full" => g.fill(2.5, [rows, columns], F32);
        "zeros_like empty_like", "jnp.zeros_like jnp.empty_like" => zeros_like(x);
        "ones_like", "jnp.ones_like" => ones_like(x);
        "full_like", "jnp.full_like lax.full_like" => x.fill_like(2.5);
        "tensor as_tensor asarray from_numpy", "jnp.array jnp.asarray" => {
            g.constant(ndarray::arr1(&[1f32, 2.0, 3.0, 4.0]), [rows])
        };
        "arange", "jnp.arange lax.iota" => range(g, rows, F32);
        "linspace", "jnp.linspace" => linspace(g, rows, 0.0, 1.0, F32);
        "logspace", "jnp.logspace" => (linspace(g, rows, 0.0, 1.0, F32) * std::f64::consts::LN_10).exp();
        "", "jnp.tri" => tril(g.fill(1.0, [rows, columns], F32), rows, columns, 0);
        "eye", "jnp.eye jnp.identity" => eye(g, rows, columns, 0, F32);
        "meshgrid", "jnp.meshgrid" => meshgrid(&[range(g, rows, F32), range(g, columns, F32)]);
        "rand rand_like", "jax.random.uniform" => random_uniform(g, [rows], 0.0, 1.0, F32);
        "randn randn_like normal", "jax.random.normal" => random_normal(g, [rows], 0.0, 1.0, F32);
        "randint randint_like", "jax.random.randint" => random_integer(g, [rows], 0, 10);
        "nn.init.trunc_normal_", "jax.random.truncated_normal" => random_truncated_normal(g, [rows], 0.0, 1.0, F32);
        "bernoulli", "jax.random.bernoulli" => random_uniform(g, [rows], 0.0, 1.0, F32).less(0.3);
        "multinomial", "jax.random.categorical" => sample_with_temperature(x, columns, 1.0), "of logits; one draw";
        "distributions.Gumbel", "jax.random.gumbel" => {
            -(-random_uniform(g, [rows], 1e-20, 1.0, F32).log()).log()
        };
        "F.gumbel_softmax", "" => {
            let drawn = random_uniform(g, [rows, columns], 1e-20, 1.0, F32);
            (x - (-drawn.log()).log()).softmax(columns)
        };
        "randperm", "jax.random.permutation" => {
            argsort(random_uniform(g, [rows], 0.0, 1.0, F32), rows, Order::Ascending)
        };
    }
}

pub(super) fn shapes(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, columns, rows, x, y, image, channels, .. } = words;
    rows! {
        "reshape Tensor.view", "jnp.reshape lax.reshape" => reshape(x, [dim("all", 24)]);
        "flatten ravel nn.Flatten", "jnp.ravel" => merge_dims(x, [rows, columns], "all");
        "unflatten nn.Unflatten", "" => replace_dims(x, [columns], [dim("pairs", 3), dim("two", 2)]);
        "permute transpose Tensor.t swapaxes swapdims", "jnp.transpose jnp.permute_dims jnp.matrix_transpose jnp.swapaxes lax.transpose" => {
            transpose(x, [columns, rows])
        }, "only what is fetched, or reshaped, has an order";
        "movedim moveaxis", "jnp.moveaxis" => transpose(x, [columns, rows]), "as `transpose`";
        "unsqueeze squeeze", "jnp.expand_dims jnp.squeeze lax.expand_dims" => x + y, "not needed: dims meet by name";
        "expand broadcast_to broadcast_tensors Tensor.expand", "jnp.broadcast_to jnp.broadcast_arrays lax.broadcast_in_dim" => {
            broadcast(range(g, rows, F32), &x.shape())
        }, "operands broadcast by name, so it is rarely needed";
        "cat concat concatenate hstack column_stack", "jnp.concatenate jnp.hstack jnp.column_stack lax.concatenate" => concat(x, &[y], "columns");
        "stack", "jnp.stack" => stack(x, &[y], "pair");
        "vstack row_stack", "jnp.vstack" => concat(x, &[y], "rows");
        "unbind", "jnp.unstack" => unstack(x, rows);
        "split split_with_sizes hsplit vsplit", "jnp.split jnp.hsplit jnp.vsplit lax.split" => split(x, columns, [2, 4]);
        "chunk tensor_split", "jnp.array_split" => split_evenly::<2>(x, columns);
        "narrow Tensor.narrow", "lax.slice lax.slice_in_dim lax.dynamic_slice" => slice(x, dim("columns", 3), 1), "`dim(\"columns\", 3)` from place 1 on";
        "select", "lax.index_in_dim" => pick(x, rows, 2);
        "F.pad nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d nn.ZeroPad1d nn.ZeroPad2d nn.ZeroPad3d", "jnp.pad lax.pad" => pad(x, columns, 1, 2);
        "nn.ReflectionPad1d nn.ReflectionPad2d nn.ReflectionPad3d", "" => pad_with(x, columns, 1, 2, Padding::Reflect);
        "nn.ReplicationPad1d nn.ReplicationPad2d nn.ReplicationPad3d", "" => pad_with(x, columns, 1, 2, Padding::Edge);
        "nn.CircularPad1d nn.CircularPad2d nn.CircularPad3d", "" => pad_with(x, columns, 1, 2, Padding::Wrap);
        "tile Tensor.repeat", "jnp.tile" => tile(x, columns, 2);
        "repeat_interleave", "jnp.repeat" => repeat(x, columns, 2);
        "flip fliplr flipud", "jnp.flip jnp.fliplr jnp.flipud lax.rev" => flip(x, [columns]);
        "roll", "jnp.roll" => roll(x, columns, 1);
        "rot90", "jnp.rot90" => transpose(flip(x, [columns]), [columns, rows]);
        "numel", "jnp.size" => x.shape().size(), "known when the graph is built";
        "tril", "jnp.tril" => tril(x, rows, columns, 0);
        "triu", "jnp.triu" => triu(x, rows, columns, 0);
        "diag diag_embed", "jnp.diag" => diag(range(g, rows, F32), rows, "others");
        "diagonal", "jnp.diagonal" => diagonal(x, rows, columns, 0);
        "F.pixel_shuffle nn.PixelShuffle", "" => {
            depth_to_space(image, &[dim("height", 8), dim("width", 8)], 2, channels)
        };
        "F.pixel_unshuffle nn.PixelUnshuffle", "" => {
            space_to_depth(image, &[dim("height", 8), dim("width", 8)], 2, channels)
        };
        "F.channel_shuffle nn.ChannelShuffle", "" => {
            let (groups, each) = (dim("groups", 2), dim("each", 4));
            merge_dims(replace_dims(image, [channels], [groups, each]), [each, groups], "channels")
        };
        "F.unfold nn.Unfold", "lax.conv_general_dilated_patches" => {
            windows(x, columns, dim("window", 3), 1, [1, 1])
        }, "along one dim; once for each";
        "F.fold nn.Fold", "" => {
            overlap_add(windows(x, columns, dim("window", 3), 1, [1, 1]), columns, dim("window", 3), 1, [1, 1])
        };
    }
}

pub(super) fn indices(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, rows, x, ids, .. } = words;
    let places = dim("places", 3);
    let chosen = mesh_ops::range(words.g, places, I32);
    let each = x.argmax(columns);
    rows! {
        "index_select take", "jnp.take" => gather(x, chosen, rows);
        "", "lax.dynamic_index_in_dim" => gather(x, words.g.scalar(2.0, I32), rows);
        "isin", "jnp.isin" => mesh_ops::reduce::any(ids.equal(chosen), [places]);
        "gather take_along_dim", "jnp.take_along_axis lax.gather" => take_along(x, ids, columns);
        "scatter_add index_add", "Array.at[].add lax.scatter_add" => {
            scatter_add(gather(x, chosen, rows), chosen, rows, [rows, columns])
        };
        "scatter index_copy", "Array.at[].set lax.scatter" => {
            scatter(x, gather(x, chosen, rows), chosen, rows, Scatter::Set)
        };
        "select_scatter", "lax.dynamic_update_slice lax.dynamic_update_index_in_dim" => {
            update_at(x, rows, words.g.scalar(1.0, I32), pick(x, rows, 0))
        }, "one position; a variable's old value is written in place";
        "scatter_reduce", "Array.at[].max lax.scatter_max" => {
            scatter(x, gather(x, chosen, rows), chosen, rows, Scatter::Max)
        };
        "", "Array.at[].min lax.scatter_min" => {
            scatter(x, gather(x, chosen, rows), chosen, rows, Scatter::Min)
        };
        "", "Array.at[].mul lax.scatter_mul" => {
            scatter(x, gather(x, chosen, rows), chosen, rows, Scatter::Mul)
        };
        "", "jax.ops.segment_sum" => segment_sum(x, ids, rows, dim("segments", 3));
        "", "jax.ops.segment_max" => segment_max(x, ids, rows, dim("segments", 3));
        "F.one_hot", "nn.one_hot" => one_hot(each, columns, F32);
        "argwhere nonzero", "jnp.nonzero" => mesh_ops::elementwise::not_equal(x, 0.0), "as a mask: shapes are fixed";
        "masked_select", "jnp.extract" => words.mask.select(x, x.fill_like(0.0)), "as a mask: shapes are fixed";
    }
}
