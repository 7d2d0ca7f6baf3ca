//! How processors that share a length meet each other's keys and values: by each way attention is that of whole
//! scores on one processor, in outputs and gradients, and what travels is counted and priced.

use crate::fed::{Fed, near};
use mesh_core::passes::Machine;
use mesh_core::program::{Block, Form};
use mesh_ops::attention::{Attend, Blocks, Exchange, Mask, attention};
use mesh_ops::layers::attention::*;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

/// Sums of a few terms of magnitude 1 in f64, in different orders.
const ORDERS: f64 = 1e-12;
/// The same in f32: a few units of its precision, 6e-8.
const ORDERS_F32: f64 = 2e-6;
/// Outputs are rounded to bf16 once, by up to 2^-9 of themselves; gradients are made of rounded outputs as well,
/// by two products.
const ROUNDED_BF16: f64 = 0.02;

const LENGTH: usize = 8;
/// Neither divides the length.
const BLOCKS: Blocks = Blocks { queries: 3, memory: 5 };
const CUBE: &str = "a:2;b:2;c:2";

fn length() -> Dimension {
    dim("length", LENGTH)
}

fn along(g: &Graph) -> Mask<'_> {
    Mask::along(g, length(), memory_dim(length()))
}

/// Queries have the dims `groups` and `heads`, keys and values only `groups`.
fn ways() -> [(&'static str, Exchange); 4] {
    let passing = |to: &str| Exchange::AllToAll(to.into());
    [
        ("gather", Exchange::Gather),
        ("ring", Exchange::Ring),
        ("all-to-all", passing("groups")),
        ("all-to-all of queries", passing("heads")),
    ]
}

/// What is there besides queries, keys and values.
struct Given<'g> {
    /// For each head and pair of positions.
    bias: Tensor<'g>,
    /// False for all positions of the second query.
    allowed: Tensor<'g>,
    segments: Tensor<'g>,
    prefix: Tensor<'g>,
}

type Kind = for<'g> fn(&'g Graph, &Given<'g>) -> AttentionOptions<'g>;

const KINDS: &[(&str, Kind)] = &[
    ("everything", |_, _| AttentionOptions::default()),
    ("causal, a cap", |g, _| AttentionOptions {
        rules: along(g).causal(),
        cap: Some(1.5),
        ..Default::default()
    }),
    ("a window both ways, a bias", |g, x| AttentionOptions {
        rules: along(g).window(3),
        bias: Some(x.bias),
        ..Default::default()
    }),
    ("a causal window and a prefix", |g, x| AttentionOptions {
        rules: along(g).causal().window(2).prefix(x.prefix),
        ..Default::default()
    }),
    ("segments", |g, x| AttentionOptions {
        rules: along(g).causal().segments(x.segments, as_memory(x.segments, length())),
        ..Default::default()
    }),
    ("bools of which none holds for some, and segments", |_, x| AttentionOptions {
        mask: Some(x.allowed),
        rules: Mask::default().segments(x.segments, as_memory(x.segments, length())),
        ..Default::default()
    }),
    ("positions in zigzag order", |g, x| AttentionOptions {
        rules: Mask::in_zigzag(g, length(), memory_dim(length()), LENGTH).causal(),
        bias: Some(x.bias),
        ..Default::default()
    }),
    ("positions of which the first queries see none", |g, _| {
        let of_queries = mesh_ops::range(g, length(), I32) - g.scalar(2.0, I32);
        let of_memory = mesh_ops::range(g, memory_dim(length()), I32);
        let rules = Mask::of_positions(of_queries, of_memory).causal();
        AttentionOptions { rules, ..Default::default() }
    }),
];

/// Attention to itself, and the gradients of what it is made of; whole if it is by no exchange.
struct Built<'g> {
    fed: Fed<'g>,
    made: Vec<Tensor<'g>>,
}

fn built<'g>(g: &'g Graph, kind: Kind, way: Option<Exchange>, dtype: DType) -> Built<'g> {
    let mut fed = Fed::new(g, "exchanges");
    let mut floats = |name: &str, shape: &str| fed.normal(name, shape).0.cast(dtype);
    let q = floats("q", "batch:2;length:8;groups:4;heads:2;kv:2");
    let k = floats("k", "batch:2;length:8;groups:4;kv:2");
    let v = floats("v", "length:8;batch:2;groups:4;kv:2");
    let weights = floats("weights", "batch:2;length:8;groups:4;heads:2;kv:2");
    let bias = floats("bias", "groups:4;length:8;memory_length:8");
    let numbers = floats("numbers", "length:8;memory_length:8");
    let second = mesh_ops::range(g, length(), I32).equal(g.scalar(1.0, I32));
    let allowed = numbers.greater(numbers.scalar_like(0.0)).logical_and(second.logical_not());
    let segments = fed.integers("segments", "length:8", &[1, 1, 1, 2, 2, 2, 3, 3]);
    let prefix = fed.integers("prefix", "batch:2", &[0, 3]);
    let options = kind(g, &Given { bias, allowed, segments, prefix });
    // What f32 and bf16 are given is exact in f64.
    let wide = |x: Tensor<'g>| if way.is_none() { x.cast(F64) } else { x };
    let (kv, memory) = (dim("kv", 2), memory_dim(length()));
    let y = match way {
        Some(exchange) => {
            let (mask, allowed) = (options.rules, options.mask);
            let (bias, cap, blocks) = (options.bias, options.cap, BLOCKS);
            let itself = Attend::to_itself(length(), memory, kv, kv);
            let how = Attend { mask, allowed, bias, cap, blocks, exchange, ..itself };
            attention(q, k, v, &how).0
        }
        None => {
            let [k, v] = [k, v].map(|x| as_memory(wide(x), length()));
            let options = AttentionOptions { way: AttentionWay::Plain, ..options };
            dot_product_attention(wide(q), k, v, memory, kv, kv, &options)
        }
    };
    let loss = (y * weights.cast(y.dtype())).cast(F64).sum_all();
    let grads = g.gradients(&[loss], &[q, k, v, bias], None);
    let made = std::iter::once(y).chain(grads.into_iter().flatten());
    let made = made.map(|x| x.cast(F64)).collect();
    Built { fed, made }
}

/// Layouts of the cube that split the length, and other dims or none over the other axes.
fn layouts() -> Vec<String> {
    const DIMS: [&str; 7] = ["", "batch", "length", "groups", "heads", "kv", "memory_length"];
    let mut all = Vec::new();
    for number in 0..DIMS.len().pow(3) {
        let dims = [number, number / DIMS.len(), number / DIMS.len().pow(2)];
        let dims = dims.map(|n| DIMS[n % DIMS.len()]);
        let rule = |dim: &&str| {
            let axes = dims.iter().zip(["a", "b", "c"]).filter(|(own, _)| *own == dim);
            let axes: Vec<_> = axes.map(|(_, axis)| axis).collect();
            (!dim.is_empty() && !axes.is_empty()).then(|| format!("{dim}:{}", axes.join("+")))
        };
        if dims.contains(&"length") {
            all.push(DIMS.iter().filter_map(rule).collect::<Vec<_>>().join(";"));
        }
    }
    all
}

/// So many layouts of each kind and way.
const SAMPLE: usize = 4;
/// From one layout to the next that is tried.
const STRIDE: usize = 47;

/// Compares all results under some layouts of eight processors with those of whole scores on one.
fn compare(number: usize, kind: &(&str, Kind), dtype: DType, within: f64) {
    let of_one = |way| {
        let g = mesh_ops::graph();
        let Built { fed, made } = built(&g, kind.1, way, dtype);
        fed.values(&made, "", "").unwrap()
    };
    let want = of_one(None);
    let layouts = layouts();
    for (i, (name, way)) in ways().into_iter().enumerate() {
        let g = mesh_ops::graph();
        let Built { fed, made } = built(&g, kind.1, Some(way), dtype);
        let order =
            (0..layouts.len()).map(|n| (17 * (number + 3 * i) + STRIDE * n) % layouts.len());
        let legal = order.filter_map(|n| Some((n, fed.values(&made, CUBE, &layouts[n])?)));
        let found: Vec<_> = legal.take(SAMPLE).collect();
        assert_eq!(found.len(), SAMPLE, "{name}: few layouts are legal");
        for (n, found) in found {
            let what = format!("{}, {name}, {dtype}, {}", kind.0, layouts[n]);
            assert_eq!(found.len(), want.len(), "{what}");
            for (i, (found, want)) in found.iter().zip(&want).enumerate() {
                near(found, want, within, &format!("{what}: {i}"));
            }
        }
    }
}

#[test]
fn all_ways_are_attention_of_whole_scores_on_eight_processors() {
    for (number, kind) in KINDS.iter().enumerate() {
        compare(number, kind, F64, ORDERS);
    }
}

#[test]
fn f32_and_bf16_stay_within_their_precision() {
    for (number, kind) in KINDS.iter().enumerate().skip(1).step_by(3) {
        compare(number, kind, F32, ORDERS_F32);
        compare(number, kind, BF16, ROUNDED_BF16);
    }
}

/// `f` is attention alone, and `both` its gradients as well, both as the layout wants results.
fn functions(g: &Graph, exchange: Exchange, blocks: Blocks, mask: bool) {
    let (batch, length) = (dim("batch", 2), dim("length", 16));
    let (heads, kv) = (dim("heads", 8), dim("kv", 4));
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [batch, length, heads, kv], F32));
    let memory = memory_dim(length);
    let rules = if mask { Mask::along(g, length, memory).causal() } else { Mask::default() };
    let itself = Attend::to_itself(length, memory, kv, kv);
    let (y, _) = attention(q, k, v, &Attend { mask: rules, blocks, exchange, ..itself });
    g.declare_function("f", &[q, k, v], &[y.tanh()], Vec::new());
    let dy = g.input("dy", y.shape(), F32);
    let grads = g.gradients(&[y], &[q, k, v], Some(&[dy])).into_iter().flatten();
    let made: Vec<_> = grads.map(Tensor::tanh).collect();
    g.declare_function("both", &[q, k, v, dy], &made, Vec::new());
}

/// Collectives of a block with their axes, and how often each runs.
fn collectives(block: &Block, mesh: &Mesh, times: usize, found: &mut Vec<(String, usize)>) {
    for step in &block.steps {
        if let Form::Loop(form) = &step.form {
            collectives(&form.body, mesh, times * form.count, found);
        } else if let Some(axes) = step.axes() {
            let name = format!("{}({})", step.form.name(), mesh.list(axes));
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += times,
                None => found.push((name, times)),
            }
        }
    }
}

const SHORT: Blocks = Blocks { queries: 4, memory: 2 };

/// Queries, keys and values go to heads, and outputs back: four all-to-alls, and as many for the gradients. The
/// length may lie over two axes, and heads over another already.
#[test]
fn all_to_alls_are_counted() {
    let table: &[(&str, &str, &str, [usize; 2])] = &[
        ("a:4", "length:a", "all_to_all(a)", [4, 7]),
        ("a:2;b:2", "length:a;batch:b", "all_to_all(a)", [4, 7]),
        ("a:2;b:2", "length:a+b", "all_to_all(a+b)", [4, 7]),
        ("a:2;b:2", "length:b;heads:a", "all_to_all(b)", [4, 7]),
        (CUBE, "length:c+a;heads:b", "all_to_all(c+a)", [4, 7]),
        ("a:4", "", "", [0, 0]),
    ];
    for &(mesh, layout, name, counts) in table {
        let g = mesh_ops::graph();
        functions(&g, Exchange::AllToAll("heads".into()), SHORT, false);
        let mesh: Mesh = mesh.parse().unwrap();
        let module = g.lower(&mesh, &layout.parse().unwrap()).unwrap();
        for (function, count) in ["f", "both"].into_iter().zip(counts) {
            let mut found = Vec::new();
            let block = &module.function(function).unwrap().block;
            collectives(block, &mesh, 1, &mut found);
            let want: Vec<_> = (count > 0).then(|| (name.to_owned(), count)).into_iter().collect();
            assert_eq!(found, want, "{function} under {layout}");
        }
    }
}

/// What a layout's price says that a processor receives is what the lowered program has, for each way.
#[test]
fn prices_are_of_what_is_run() {
    let layouts = [
        ("a:4", "length:a"),
        ("a:2;b:2", "length:a+b"),
        ("a:2;b:2", "length:b;heads:a"),
        (CUBE, "length:a;batch:b;kv:c"),
    ];
    let ways = [Exchange::Gather, Exchange::Ring, Exchange::AllToAll("heads".into())];
    for (mesh, layout) in layouts {
        let (mesh, layout): (Mesh, Layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
        let mut received = Vec::new();
        for way in ways {
            let g = mesh_ops::graph();
            functions(&g, way, SHORT, true);
            let module = g.lower(&mesh, &layout).unwrap();
            let explain = module.explain();
            for (function, number) in [("f", 0), ("both", 1)] {
                let estimator = g.estimator(function, &mesh, &Machine::host()).unwrap();
                let price = estimator.price(&layout).unwrap();
                let lowered = explain.functions[number].total();
                assert_eq!(price.cost.sent, lowered.sent, "{function}, {way:?} under {layout}");
                let listed: u64 = price.exchanged.iter().map(|exchanged| exchanged.bytes).sum();
                assert_eq!(listed, lowered.sent, "{function}, {way:?} under {layout}");
                received.push(lowered.sent);
            }
        }
        let [gather, gather_both, ring, ring_both, heads, heads_both] = received[..] else {
            panic!()
        };
        assert_eq!(gather, ring, "forward, {layout}");
        assert!(ring_both > gather_both, "gradients go round with keys and values: {layout}");
        let less = heads_both < gather_both && heads_both < ring_both;
        assert!(less, "each of four all-to-alls is of a part: {layout}: {heads}, {received:?}");
    }
}

/// What cannot be exchanged says so, where, and what could be.
#[test]
fn what_cannot_be_exchanged_is_refused() {
    let g = mesh_ops::graph();
    functions(&g, Exchange::AllToAll("heads".into()), SHORT, true);
    let report = g.lower(&"a:16".parse().unwrap(), &"length:a".parse().unwrap()).unwrap_err();
    let text = report.to_string();
    for part in [
        "attention: the split of length passes to heads here",
        "heads of size 8 cannot be split over a into 16 equal parts; a may be of size 1, 2, 4, 8",
        "or heads of size 16; or exchange length in another way",
        "layers/exchanges.rs",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // No dim of queries, or one that is summed over, or a memory apart.
    for to in ["head", "kv", "length"] {
        let g = mesh_ops::graph();
        functions(&g, Exchange::AllToAll(to.into()), SHORT, true);
        let text = g.check().unwrap_err().to_string();
        assert!(text.contains(&format!("not to {to}")), "{text}");
    }
    let attention = MultiHead::new(dim("model", 8), dim("heads", 4), dim("kv", 2));
    for exchange in [Exchange::Ring, Exchange::AllToAll("heads".into())] {
        let g = mesh_ops::graph();
        let x = g.input("x", [length(), dim("model", 8)], F32);
        let weights = attention.weights(&Parameters::like(x), "attention");
        let options = AttentionOptions { way: AttentionWay::Plain, exchange, ..Default::default() };
        attention.self_attention(x, length(), &weights, None, &options);
        let text = g.check().unwrap_err().to_string();
        assert!(text.contains("need blocks, which `AttentionWay::Plain`"), "{text}");
    }
}

/// A named exchange is that of layers, under `scan`, computed again, and with parameters that lie apart.
#[test]
fn layers_exchange_as_they_are_asked() {
    let (batch, length, model) = (dim("batch", 2), dim("length", 8), dim("model", 8));
    for (exchange, name) in [
        (Exchange::Gather, "all_gather(a)"),
        (Exchange::Ring, "permute(a)"),
        (Exchange::AllToAll("heads".into()), "all_to_all(a)"),
    ] {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "exchanging layers");
        let (x, _) = fed.normal("x", "batch:2;length:8;model:8");
        let layer = TransformerLayer {
            norm: Norm::Rms,
            attention: MultiHead::new(model, dim("heads", 4), dim("kv", 2)),
            feed_forward: FeedForward::new(model, dim("hidden", 16)),
        };
        let layers = dim("layers", 2);
        let stacked = layer.weights(&Parameters::like(x).stacked([layers]), "layers");
        let rules = Mask::along(&g, length, memory_dim(length)).causal();
        let way = AttentionWay::Blocks(SHORT);
        let attention = AttentionOptions { rules, way, exchange, ..Default::default() };
        let around = Around { attention, ..Default::default() };
        let (y, _) = g.scan_lists(layers, &[x], &stacked.tensors(), |x, slices| {
            let mut slices = slices.iter().copied();
            let weights = stacked.clone().mapped(&mut |_| slices.next().unwrap());
            let [y] = g.recompute([x[0]], |[x]| [layer.apply(x, length, &weights, &around)]);
            (vec![y], Vec::new())
        });
        let y = y[0];
        let gradient = g.gradients(&[y.square().sum_all()], &[x], None)[0].unwrap();
        let layouts = [("", ""), ("a:2;b:2", "length:a;batch:b;params/*:b")];
        let value = fed.value(gradient, &layouts);
        assert_eq!(value.shape(), [batch.size, length.size, model.size]);
        let module = g.lower(&"a:2;b:2".parse().unwrap(), &layouts[1].1.parse().unwrap()).unwrap();
        let mut found = Vec::new();
        let mesh = module.mesh();
        collectives(&module.functions()[0].block, mesh, 1, &mut found);
        assert!(found.iter().any(|(found, _)| found == name), "{found:?}");
    }
}
