//! One graph for each op and composition of `mesh_ops`. Sizes are even, so that every dim can be
//! halved.

use super::{Entry, Made, case, entry, f32s, input, made};
use mesh_ops::conv::{Conv, Padding, conv, conv_transpose, conv_with_blocks};
use mesh_ops::elementwise::*;
use mesh_ops::pool::{Pool, avg_pool, max_pool};
use mesh_ops::prelude::*;
use mesh_ops::random::*;
use mesh_ops::{Cumulative, Order, reduce};

/// The ops of one room: its functions, the kinds of op they make, and graphs with them.
pub struct Room {
    pub file: &'static str,
    pub functions: &'static [&'static str],
    pub ops: &'static [&'static str],
    pub entries: Vec<Entry>,
}

fn p() -> Dimension {
    dim("p", 4)
}

fn q() -> Dimension {
    dim("q", 12)
}

/// An entry that makes one tensor of `x[p, q]`.
fn of_x(name: &str, build: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + 'static) -> Entry {
    of_x_case(name, name, build)
}

fn of_x_case(
    name: &str,
    proof: &str,
    build: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + 'static,
) -> Entry {
    case(name, proof, move |g| {
        let x = f32s(g, "x", "p:4;q:12");
        made([x], [build(x)])
    })
}

/// An entry that makes one tensor of two, of `f32`.
fn of_two(
    name: &str,
    proof: &str,
    dims: [&'static str; 2],
    build: impl for<'g> Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g> + 'static,
) -> Entry {
    case(name, proof, move |g| {
        let [x, y] = [f32s(g, "x", dims[0]), f32s(g, "y", dims[1])];
        made([x, y], [build(x, y)])
    })
}

/// An entry that makes one tensor of floats and indices.
fn with_indices(
    name: &str,
    dims: [&'static str; 2],
    build: impl for<'g> Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g> + 'static,
) -> Entry {
    entry(name, move |g| {
        let (x, at) = (f32s(g, "x", dims[0]), input(g, "at", dims[1], I32));
        made([x, at], [build(x, at)])
    })
}

fn bools(name: &str, build: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + 'static) -> Entry {
    entry(name, move |g| {
        let x = input(g, "x", "p:4;q:12", Bool);
        made([x], [build(x)])
    })
}

/// An entry of a graph alone.
fn alone(name: &str, build: impl for<'g> Fn(&'g Graph) -> Tensor<'g> + 'static) -> Entry {
    entry(name, move |g| made([], [build(g)]))
}

type Unary = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
type Binary = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;

/// The functions of the elementwise rooms, of x and of a and b, in the order of the page.
pub fn elementwise() -> Vec<(&'static str, Vec<Entry>)> {
    let one = |name: &str, function: Unary| {
        entry(name, move |g| {
            let x = f32s(g, "x", "p:4");
            made([x], [function(x)])
        })
    };
    let two = |name: &str, dtype: DType, function: Binary| {
        entry(name, move |g| {
            let (a, b) = (input(g, "a", "p:4", dtype), input(g, "b", "p:4", dtype));
            made([a, b], [function(a, b)])
        })
    };
    vec![
        (
            "arithmetic",
            vec![
                two("add", F32, |a, b| add(a, b)),
                two("sub", F32, |a, b| sub(a, b)),
                two("mul", F32, |a, b| mul(a, b)),
                two("div", F32, |a, b| div(a, b)),
                one("neg", |x| neg(x)),
            ],
        ),
        (
            "division",
            vec![
                two("floordiv", F32, |a, b| floordiv(a, b)),
                two("modulo", F32, |a, b| modulo(a, b)),
            ],
        ),
        (
            "powers",
            vec![
                one("square", |x| square(x)),
                one("sqrt", |x| sqrt(x)),
                one("rsqrt", |x| rsqrt(x)),
                one("reciprocal", |x| reciprocal(x)),
                two("pow", F32, |a, b| pow(a, b)),
                one("powf", |x| powf(x, 1.5)),
            ],
        ),
        (
            "exponential",
            vec![
                one("exp", |x| exp(x)),
                one("log", |x| log(x)),
                one("expm1", |x| expm1(x)),
                one("log1p", |x| log1p(x)),
            ],
        ),
        ("trigonometric", vec![one("sin", |x| sin(x)), one("cos", |x| cos(x))]),
        (
            "sigmoid",
            vec![
                one("tanh", |x| tanh(x)),
                one("sigmoid", |x| sigmoid(x)),
                one("erf", |x| erf(x)),
                one("erfc", |x| erfc(x)),
                one("softplus", |x| softplus(x)),
                one("swish", |x| swish(x)),
                one("gelu", |x| gelu(x)),
                one("gelu_exact", |x| gelu_exact(x)),
            ],
        ),
        ("relu", vec![one("relu", |x| relu(x))]),
        (
            "elu",
            vec![
                one("leaky_relu", |x| leaky_relu(x, 0.2)),
                one("elu", |x| elu(x)),
                one("selu", |x| selu(x)),
            ],
        ),
        (
            "steps",
            vec![one("abs", |x| abs(x)), one("sign", |x| sign(x)), one("floor", |x| floor(x))],
        ),
        (
            "extrema",
            vec![
                two("maximum", F32, |a, b| maximum(a, b)),
                two("minimum", F32, |a, b| minimum(a, b)),
                one("clip", |x| clip(x, -1.0, 1.0)),
            ],
        ),
        (
            "cast",
            vec![case("cast", "f32 to f64", |g| {
                let x = f32s(g, "x", "p:4");
                made([x], [cast(x, F64)])
            })],
        ),
        (
            "compare",
            vec![
                two("equal", F32, |a, b| equal(a, b)),
                two("not_equal", F32, |a, b| not_equal(a, b)),
                two("less", F32, |a, b| less(a, b)),
                two("less_equal", F32, |a, b| less_equal(a, b)),
                two("greater", F32, |a, b| greater(a, b)),
                two("greater_equal", F32, |a, b| greater_equal(a, b)),
            ],
        ),
        (
            "logical",
            vec![
                two("logical_and", Bool, |a, b| logical_and(a, b)),
                two("logical_or", Bool, |a, b| logical_or(a, b)),
                entry("logical_not", |g| {
                    let x = input(g, "x", "p:4", Bool);
                    made([x], [logical_not(x)])
                }),
            ],
        ),
        (
            "select",
            vec![entry("select", |g| {
                let condition = input(g, "condition", "p:4", Bool);
                let (yes, no) = (f32s(g, "yes", "p:4"), f32s(g, "no", "p:4"));
                made([condition, yes, no], [select(condition, yes, no)])
            })],
        ),
    ]
}

/// Every room with an op of its own, except the elementwise ones.
pub fn rooms() -> Vec<Room> {
    let mut rooms = products_and_reductions();
    rooms.extend(movers());
    rooms.extend(by_index());
    rooms.extend(windows());
    rooms.extend(sources());
    rooms
}

fn products_and_reductions() -> Vec<Room> {
    vec![
        Room {
            file: "einsum/mod.rs",
            functions: &["einsum"],
            ops: &["einsum"],
            entries: vec![of_two("einsum", "matrix product", ["i:4;k:6", "k:6;j:8"], |x, y| {
                x.einsum(&[y], [dim("i", 4), dim("j", 8)])
            })],
        },
        Room {
            file: "reduce.rs",
            functions: &["sum", "prod", "max", "min", "all", "any"],
            ops: &["sum", "prod", "max", "min", "all", "any"],
            entries: vec![
                of_x("sum", |x| x.sum([q()])),
                of_x("prod", |x| x.prod([q()])),
                of_x("max", |x| x.max([q()])),
                of_x("min", |x| x.min([q()])),
                bools("all", |x| x.all([q()])),
                bools("any", |x| x.any([q()])),
            ],
        },
        Room {
            file: "cumsum.rs",
            functions: &["cumsum", "cumsum_with"],
            ops: &["cumsum"],
            entries: vec![
                of_x("cumsum", |x| x.cumsum(q())),
                of_x("cumsum_with", |x| {
                    x.cumsum_with(q(), Cumulative { exclusive: true, reverse: true })
                }),
            ],
        },
    ]
}

fn movers() -> Vec<Room> {
    vec![
        Room {
            file: "reshape/mod.rs",
            functions: &["reshape", "rename"],
            ops: &["reshape"],
            entries: vec![
                of_x("reshape", |x| x.reshape([dim("u", 2), dim("v", 2), q()])),
                of_x("rename", |x| x.rename(p(), "u") + 0.0),
                of_x("reshape", |x| x.reshape([dim("u", 4), dim("v", 12)]) + 0.0),
            ],
        },
        Room {
            file: "transpose.rs",
            functions: &["transpose"],
            ops: &["transpose"],
            entries: vec![of_x("transpose", |x| x.transpose([q(), p()]))],
        },
        Room {
            file: "broadcast.rs",
            functions: &["broadcast"],
            ops: &["broadcast"],
            entries: vec![of_x("broadcast", |x| x.broadcast(&"p:4;r:2;q:12".parse().unwrap()))],
        },
        Room {
            file: "add_n.rs",
            functions: &["add_n"],
            ops: &["add_n"],
            entries: vec![of_two("add_n", "add_n", ["p:4;q:12", "q:12"], |x, y| {
                mesh_ops::add_n(x, &[y])
            })],
        },
        Room {
            file: "concat.rs",
            functions: &["concat"],
            ops: &["concat"],
            entries: vec![of_two("concat", "concat", ["p:4;q:12", "p:4;q:2"], |x, y| {
                x.concat(&[y], "q")
            })],
        },
        Room {
            file: "slice.rs",
            functions: &["slice"],
            ops: &["slice"],
            entries: vec![of_x("slice", |x| x.slice(dim("q", 6), 3))],
        },
        Room {
            file: "pad.rs",
            functions: &["pad"],
            ops: &["pad"],
            entries: vec![of_x("pad", |x| x.pad(q(), 3, 1))],
        },
        Room {
            file: "stack.rs",
            functions: &["stack"],
            ops: &["stack"],
            entries: vec![of_two("stack", "stack", ["p:4;q:12", "p:4;q:12"], |x, y| {
                x.stack(&[y], "s")
            })],
        },
        Room {
            file: "unstack.rs",
            functions: &["unstack", "pick"],
            ops: &["pick"],
            entries: vec![
                of_x("unstack", |x| mesh_ops::unstack(x, q())[3]),
                of_x("pick", |x| x.pick(q(), 3)),
                bools("pick", |x| x.pick(q(), 3)),
            ],
        },
        Room {
            file: "shift.rs",
            functions: &["shift"],
            ops: &["shift"],
            entries: vec![of_x("shift", |x| x.shift(q(), 1, false))],
        },
    ]
}

fn by_index() -> Vec<Room> {
    let vocab = dim("vocab", 12);
    vec![
        Room {
            file: "gather.rs",
            functions: &["gather"],
            ops: &["gather"],
            entries: vec![
                with_indices("gather", ["vocab:12;width:4", "batch:4"], move |x, at| {
                    x.gather(at, vocab)
                }),
                entry("gather", move |g| {
                    let (x, at) = (input(g, "x", "vocab:12", Bool), input(g, "at", "batch:4", I32));
                    made([x, at], [x.gather(at, vocab)])
                }),
            ],
        },
        Room {
            file: "scatter_add.rs",
            functions: &["scatter_add"],
            ops: &["scatter_add"],
            entries: vec![with_indices(
                "scatter_add",
                ["batch:4;width:4", "batch:4"],
                move |x, at| mesh_ops::scatter_add(x, at, vocab, [vocab, dim("width", 4)]),
            )],
        },
        Room {
            file: "top_k.rs",
            functions: &["top_k"],
            ops: &["top_k"],
            entries: vec![entry("top_k", |g| {
                let x = f32s(g, "x", "p:4;q:12");
                let (values, indices) = x.top_k(q(), dim("k", 2));
                made([x], [values, indices])
            })],
        },
    ]
}

fn one_dim() -> Conv {
    Conv::over([("h", "fh")])
}

fn windows() -> Vec<Room> {
    vec![
        Room {
            file: "conv/mod.rs",
            functions: &["conv", "conv_transpose"],
            ops: &["conv", "conv_image", "conv_filter"],
            entries: vec![
                of_two("conv", "conv", ["n:2;h:8;c:2", "fh:4;c:2;o:2"], |x, filter| {
                    conv(x, filter, &one_dim())
                }),
                of_two(
                    "conv_transpose",
                    "conv_transpose",
                    ["n:2;h:4;o:2", "fh:2;c:2;o:2"],
                    |y, filter| conv_transpose(y, filter, &one_dim().strides([2])),
                ),
                entry("conv", |g| {
                    let (x, filter) = (f32s(g, "x", "h:8;c:2"), f32s(g, "f", "fh:4;c:2;o:2"));
                    let y = conv(x, filter, &one_dim());
                    let grads = g.gradients(&[y.square()], &[filter], None);
                    made([x, filter], [grads[0].unwrap_or(y)])
                }),
            ],
        },
        Room {
            file: "windows/mod.rs",
            functions: &["windows"],
            ops: &["windows"],
            entries: vec![entry("windows", |g| {
                let x = f32s(g, "x", "n:2;h:12");
                made([x], [x.windows(dim("h", 12), dim("tap", 4), 2, [2, 0])])
            })],
        },
        Room {
            file: "windows/overlap.rs",
            functions: &["overlap_add"],
            ops: &["overlap_add"],
            entries: vec![entry("overlap_add", |g| {
                let y = f32s(g, "y", "n:2;h:6;tap:4");
                let x = mesh_ops::overlap_add(y, dim("h", 12), dim("tap", 4), 2, [2, 0]);
                made([y], [x])
            })],
        },
    ]
}

fn sources() -> Vec<Room> {
    vec![
        Room {
            file: "range.rs",
            functions: &["range"],
            ops: &["range"],
            entries: vec![alone("range", |g| mesh_ops::range(g, q(), I32))],
        },
        Room {
            file: "random/mod.rs",
            functions: &[
                "random_uniform",
                "random_integer",
                "random_normal",
                "random_truncated_normal",
            ],
            ops: &["random_uniform", "random_integer", "random_normal", "random_truncated_normal"],
            entries: vec![
                alone("random_uniform", |g| random_uniform(g, [p(), q()], 0.0, 1.0, F32)),
                alone("random_integer", |g| random_integer(g, [p(), q()], 0, 9)),
                alone("random_normal", |g| random_normal(g, [p(), q()], 0.0, 1.0, F32)),
                alone("random_truncated_normal", |g| {
                    random_truncated_normal(g, [p(), q()], 0.0, 1.0, F32)
                }),
            ],
        },
        Room {
            file: "random/dropout.rs",
            functions: &["dropout", "dropout_over"],
            ops: &["dropout"],
            entries: vec![
                of_x("dropout", |x| x.dropout(0.1)),
                of_x("dropout_over", |x| x.dropout_over(0.1, [q()])),
            ],
        },
    ]
}

/// The compositions of ops, except layers.
pub fn compositions() -> Vec<Entry> {
    let matrices = ["i:4;k:6", "k:6;j:8"];
    let mut all = vec![
        of_two("contract", "contract", matrices, |x, y| x.contract(&[y], [dim("k", 6)])),
        of_two("matmul", "matmul", matrices, |x, y| x.matmul(&[y])),
        of_x("mean", |x| x.mean_over([q()])),
        of_x("variance", |x| x.variance([q()])),
        of_x("sum_onto", |x| reduce::sum_onto(x, &"q:12".parse().unwrap())),
        of_x("argmax", |x| x.argmax(q())),
        of_x("argmin", |x| x.argmin(q())),
        entry("top_1", |g| {
            let x = f32s(g, "x", "p:4;q:12");
            let (values, indices) = x.top_1(q());
            made([x], [values, indices])
        }),
        of_x("nth_largest", |x| x.nth_largest(2, q())),
        of_x("nth_smallest", |x| x.nth_smallest(2, q())),
        of_x("sort", |x| x.sort(q(), Order::Ascending)),
        of_x("argsort", |x| x.argsort(q(), Order::Ascending)),
        of_x("reverse", |x| x.reverse(q())),
        with_indices("dynamic_shift", ["p:4;q:12", ""], |x, by| {
            mesh_ops::dynamic_shift(x, by, q(), true)
        }),
        of_x_case("split", "split: one part used", |x| mesh_ops::split(x, q(), [4, 8])[0]),
        of_x_case("split_evenly", "split: in exchange", |x| {
            let [first, _] = mesh_ops::split_evenly(x, q());
            first
        }),
        of_x("replace_dims", |x| x.replace_dims([q()], [dim("u", 6), dim("v", 2)])),
        of_x("merge_dims", |x| x.merge_dims([p(), q()], "pq")),
        of_x_case("pool_1d", "pool_1d: max", |x| mesh_ops::pool_1d(x, q(), 2, reduce::max)),
        of_x("stride_1d", |x| mesh_ops::stride_1d(x, q(), 2)),
        entry("one_hot", |g| {
            let at = input(g, "at", "p:4", I32);
            made([at], [at.one_hot(q(), F32)])
        }),
        entry("one_hot_with", |g| {
            let at = input(g, "at", "p:4", I32);
            made([at], [mesh_ops::one_hot_with(at, q(), 0.9, 0.1, F32)])
        }),
        of_x_case("zeros_like", "zeros_like, ones_like", |x| mesh_ops::zeros_like(x)),
        of_x_case("ones_like", "zeros_like, ones_like", |x| mesh_ops::ones_like(x)),
        of_x("multiplicative_jitter", |x| x.multiplicative_jitter(0.1)),
        of_x_case("sample_with_temperature", "sample", |x| x.sample_with_temperature(q(), 1.0)),
    ];
    all.extend(of_blocks());
    all
}

fn of_blocks() -> [Entry; 5] {
    let pooled = |name: &str, proof: &str, pool: for<'g> fn(Tensor<'g>) -> Tensor<'g>| {
        case(name, proof, move |g| {
            let x = f32s(g, "x", "n:2;h:12");
            made([x], [pool(x)])
        })
    };
    fn halo(left: bool) -> impl for<'g> Fn(&'g Graph) -> Made<'g> {
        move |g| {
            let (blocks, rows) = (dim("blocks", 4), dim("rows", 4));
            let x = f32s(g, "x", "blocks:4;rows:4");
            let y = match left {
                true => mesh_ops::left_halo_exchange(x, blocks, rows, 2, false),
                false => mesh_ops::halo_exchange(x, blocks, rows, 2, false),
            };
            made([x], [y])
        }
    }
    [
        case("halo_exchange", "halo", halo(false)),
        case("left_halo_exchange", "left halo", halo(true)),
        of_two(
            "conv_with_blocks",
            "conv_with_blocks",
            ["blocks:4;h:4;c:2", "fh:3;c:2;o:2"],
            |x, filter| conv_with_blocks(x, filter, &one_dim(), [dim("blocks", 4)]),
        ),
        pooled("max_pool", "max, three dims", |x| max_pool(x, &Pool::over([("h", 2)]))),
        pooled("avg_pool", "avg", |x| {
            avg_pool(x, &Pool::over([("h", 3)]).strides([2]).padding(Padding::Same))
        }),
    ]
}
