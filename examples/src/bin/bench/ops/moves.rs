//! Reductions, products, moves and selections.

use super::of;
use mesh_ops::prelude::*;
use mesh_ops::{Order, add_n, argsort, concat, einsum, gather, pad, pick, reduce, scatter_add};
use mesh_ops::{nth_largest, one_hot, shift, slice, sort, split, stack, unstack};

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
    let (a, b) = (x[0], x[x.len() - 1]);
    let (first, last) = (a.shape().iter().next()?, a.shape().iter().last()?);
    let sliced = || slice(slice(a, of(a, "h").resized(56), 4), of(a, "w").resized(56), 4);
    let numbered = |dim: Dimension| gather(a, b, dim);
    Some(vec![match name {
        "sum" | "mean" | "variance" | "max" | "prod" | "all" | "sum_rows" => reduced(name, a, last),
        "cumsum" => mesh_ops::cumsum(a, of(a, "length")),
        "cumsum_inner" => mesh_ops::cumsum(a, last),
        "argmax" => mesh_ops::argmax(a, last),
        "transpose_heads" => {
            let dims = ["batch", "heads", "length", "kv"];
            mesh_ops::transpose(a, dims.map(|dim| of(a, dim)))
        }
        "transpose_inner" => {
            mesh_ops::transpose(a, ["batch", "model", "length"].map(|dim| of(a, dim)))
        }
        "broadcast" => {
            let shape = Shape::new([first, dim("length", 256), last]).ok()?;
            mesh_ops::broadcast(a, &shape)
        }
        "add_n" => add_n(a, &x[1..]),
        "concat" => concat(a, &x[1..], "c"),
        "slice" => sliced(),
        "slice_add" => sliced() + b,
        "pad" => pad(pad(a, of(a, "h"), 1, 1), of(a, "w"), 1, 1),
        "stack" => stack(a, &x[1..], "four"),
        "unstack" => return Some(unstack(a, of(a, "four"))),
        "split" => return Some(split(a, last, [512; 4])),
        "pick" => pick(a, of(a, "length"), 17),
        "shift" => shift(a, of(a, "length"), 1, false),
        "reverse" => mesh_ops::reverse(a, of(a, "length")),
        "gather_rows" => gather(b, a, of(b, "vocab")),
        "gather_inner" | "gather_each" => numbered(last),
        "scatter_add" => {
            scatter_add(a, b, dim("vocab", 5000), [dim("vocab", 5000), of(a, "model")])
        }
        "scatter_add_inner" => scatter_add(a, b, dim("experts", 64), [first, dim("experts", 64)]),
        "top_k_vocab" => return Some(pair(a.top_k(last, dim("k", 40)))),
        "top_k_experts" => return Some(pair(a.top_k(last, dim("k", 2)))),
        "top_1" => return Some(pair(a.top_1(last))),
        "nth_largest" => nth_largest(a, 7, last),
        "sort" => sort(a, last, Order::Ascending),
        "argsort" => argsort(a, last, Order::Ascending),
        "one_hot" => one_hot(a, dim("classes", 1000), F32),
        _ => product(name, a, b)?,
    }])
}

fn pair<'g>((a, b): (Tensor<'g>, Tensor<'g>)) -> Vec<Tensor<'g>> {
    vec![a, b]
}

fn reduced<'g>(name: &str, x: Tensor<'g>, last: Dimension) -> Tensor<'g> {
    match name {
        "sum" => reduce::sum(x, [last]),
        "sum_rows" => reduce::sum(x, x.shape().iter().filter(|d| *d != last)),
        "mean" => reduce::mean(x, [of(x, "h"), of(x, "w")]),
        "variance" => reduce::variance(x, [last]),
        "max" => reduce::max(x, [last]),
        "prod" => reduce::prod(x, [last]),
        _ => reduce::all(x, [last]),
    }
}

fn product<'g>(name: &str, a: Tensor<'g>, b: Tensor<'g>) -> Option<Tensor<'g>> {
    let onto: &[&str] = match name {
        "einsum_dense" => &["batch", "length", "hidden"],
        "einsum_narrow" => &["batch", "length", "model"],
        "einsum_logits" => &["batch", "length", "vocab"],
        "einsum_scores" => &["batch", "heads", "length", "memory"],
        "einsum_gates" => &["batch", "hidden"],
        "einsum_heads" => &["batch", "heads", "length", "kv"],
        "einsum_experts" => &["batch", "tokens", "hidden"],
        _ => return None,
    };
    let find = |name: &&str| [a, b].into_iter().find_map(|x| x.shape().get((*name).into()));
    Some(einsum::einsum(a, &[b], onto.iter().filter_map(find)))
}
