//! Attention whose keys and values go round: what travels, and what each processor computes.

use crate::fed::Fed;
use mesh_core::lower::Explain;
use mesh_core::program::{Block, Compiled, Form, Place, Plan};
use mesh_ops::attention::{Attend, Blocks, Mask, attention};
use mesh_ops::prelude::*;
use tests::on_host;

/// So many processors share the length.
const PROCESSORS: usize = 4;
const LAYOUT: (&str, &str) = ("a:4", "length:a");

/// Attention from `length` to itself, or to the whole of a memory as long that is nobody's part.
#[track_caller]
fn to_memory<'g>(
    [q, k, v]: [Tensor<'g>; 3],
    mask: Mask<'g>,
    blocks: Blocks,
    own: bool,
) -> Tensor<'g> {
    if own {
        return to_itself([q, k, v], mask, blocks);
    }
    let [length, kv] = ["length", "kv"].map(|name| q.shape().get(name.into()).unwrap());
    let [k, v] = [k, v].map(|x| x.rename(length, "memory"));
    let how = Attend { mask, blocks, ..Attend::new(memory(length), kv, kv) };
    attention(q, k, v, &how).0
}

#[track_caller]
fn to_itself<'g>([q, k, v]: [Tensor<'g>; 3], mask: Mask<'g>, blocks: Blocks) -> Tensor<'g> {
    let [length, kv] = ["length", "kv"].map(|name| q.shape().get(name.into()).unwrap());
    let how = Attend { mask, blocks, ..Attend::to_itself(length, memory(length), kv, kv) };
    attention(q, k, v, &how).0
}

fn memory(length: Dimension) -> Dimension {
    length.renamed("memory")
}

/// How often each collective runs, by name.
fn collectives(block: &Block, times: usize, found: &mut Vec<(&'static str, usize)>) {
    for step in &block.steps {
        match &step.form {
            Form::Loop(form) => collectives(&form.body, times * form.count, found),
            form if step.axes().is_some() => found.push((form.name(), times)),
            _ => {}
        }
    }
}

fn counted(module: &Module, function: &str) -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    collectives(&module.function(function).unwrap().block, 1, &mut found);
    let names = ["permute", "all_gather", "reduce_scatter", "all_reduce"];
    let sum = |name| found.iter().filter(|(own, _)| *own == name).map(|(_, times)| times).sum();
    names.map(|name| (name, sum(name))).into_iter().filter(|(_, times)| *times > 0).collect()
}

/// Collectives by name, and how often each runs.
type Counts = &'static [(&'static str, usize)];

/// Keys and values make one turn less than there are processors; their gradients go all the way home.
/// Where everything is one block, it is gathered.
#[test]
fn permutes_are_counted() {
    let length = dim("length", 16);
    let table: &[(usize, Counts, Counts)] = &[
        // Each processor has two blocks of two positions.
        (2, &[("permute", 2 * 2 * 3)], &[("permute", 2 * (2 * 2 * 3 + 2 * 4))]),
        (4, &[("permute", 2 * 3)], &[("permute", 2 * 2 * 3 + 2 * 4)]),
        (16, &[("all_gather", 2)], &[("all_gather", 2), ("reduce_scatter", 2)]),
    ];
    for &(memory_block, forward, both) in table {
        let g = mesh_ops::graph();
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, dim("kv", 4)], F32));
        let mask = Mask::along(&g, length, memory(length)).causal();
        let y = to_itself([q, k, v], mask, Blocks { queries: 4, memory: memory_block });
        g.declare_function("forward", &[q, k, v], &[y], Vec::new());
        let dy = g.input("dy", y.shape(), F32);
        let grads = g.gradients(&[y], &[q, k, v], Some(&[dy]));
        // Whoever uses them wants them as the layout says.
        let grads: Vec<_> = grads.into_iter().flatten().map(|grad| grad.tanh()).collect();
        g.declare_function("both", &[q, k, v, dy], &grads, Vec::new());
        let (mesh, layout) = LAYOUT;
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        assert_eq!(counted(&module, "forward"), forward, "blocks of {memory_block}");
        let moved: Vec<_> = counted(&module, "both");
        assert_eq!(moved, both, "blocks of {memory_block}, with gradients");
    }
}

/// An attention whose blocks are counted: the order of its positions in pieces, whether they are its own
/// memory, its mask's rules, how many positions there are, and how many a block has.
#[derive(Clone, Copy)]
struct Counted {
    pieces: Option<usize>,
    own: bool,
    rules: for<'g> fn(Mask<'g>) -> Mask<'g>,
    size: usize,
    block: usize,
}

impl Counted {
    #[track_caller]
    fn of<'g>(&self, g: &'g Graph, qkv: [Tensor<'g>; 3]) -> Tensor<'g> {
        let length = dim("length", self.size);
        let mask = match self.pieces {
            Some(pieces) => Mask::in_zigzag(g, length, memory(length), pieces),
            None => Mask::along(g, length, memory(length)),
        };
        let blocks = Blocks { queries: self.block, memory: self.block };
        to_memory(qkv, (self.rules)(mask), blocks, self.own)
    }
}

/// The blocks that each processor computes: where values of a block of the memory are NaN, so is every
/// output of a block of queries that met it, looked at or not.
fn blocks_met(counted: Counted) -> Vec<usize> {
    let Counted { size, block, .. } = counted;
    let length = dim("length", size);
    let mut met = vec![0; PROCESSORS];
    for (number, begin) in (0..size).step_by(block).enumerate() {
        let g = mesh_ops::graph();
        let mut fed = Fed::new(&g, "rings");
        let (q, _) = fed.normal("q", &format!("length:{size};kv:2"));
        let elements = |i: usize| if (begin..begin + block).contains(&i) { f32::NAN } else { 1.0 };
        let elements: Vec<_> = (0..size).map(elements).collect();
        let v = fed.given("v", &format!("length:{size};kv:1"), &elements);
        let v = v.reshape([length]).broadcast(&q.shape());
        let y = fed.value(counted.of(&g, [q, q, v]), &[LAYOUT]);
        let share = size / PROCESSORS;
        for queries in (0..size).step_by(block) {
            let nans = (queries..queries + block).filter(|&row| y[[row, 0]].is_nan()).count();
            assert!(nans == 0 || nans == block, "block {number}: {nans} rows of {queries} on");
            met[queries / share] += usize::from(nans > 0);
        }
    }
    met
}

/// With positions in order the last processor computes nearly twice the mean under a causal mask; in zigzag
/// order all compute as much.
#[test]
fn zigzag_order_balances_a_causal_mask() {
    let counted =
        Counted { pieces: None, own: true, rules: |mask| mask.causal(), size: 16, block: 2 };
    let in_order = blocks_met(counted);
    assert_eq!(in_order, [3, 7, 11, 15]);
    assert_eq!(blocks_met(Counted { pieces: Some(8), ..counted }), [9; PROCESSORS]);
    assert_eq!(in_order.iter().sum::<usize>(), 9 * PROCESSORS);
}

/// What `explain` says of an attention, and the line that made it.
fn explained(counted: Counted, (mesh, layout): (&str, &str)) -> (Explain, String) {
    let g = mesh_ops::graph();
    let dims = [dim("length", counted.size), dim("kv", 2)];
    let qkv = ["q", "k", "v"].map(|name| g.input(name, dims, F32));
    let (y, line) = (counted.of(&g, qkv), line!());
    g.declare_function("f", &qkv, &[y], Vec::new());
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    (module.explain(), format!("{}:{line}", file!()))
}

/// `explain` counts the blocks that processors compute, whatever the rules: the busiest and all together.
#[test]
fn explain_counts_the_blocks_of_each_processor() {
    type Rules = for<'g> fn(Mask<'g>) -> Mask<'g>;
    let rules: [(&str, Rules); 4] = [
        ("causal", |mask| mask.causal()),
        ("causal window", |mask| mask.causal().window(7)),
        ("window", |mask| mask.window(6)),
        ("no", |mask| mask),
    ];
    let mut uneven = 0;
    for (name, rules) in rules {
        let orders = [None, Some(4), Some(8)].into_iter();
        for (pieces, own) in orders.flat_map(|pieces| [true, false].map(|own| (pieces, own))) {
            let counted = Counted { pieces, own, rules, size: 16, block: 2 };
            let what = format!("{name} rules, {pieces:?} pieces, its own memory: {own}");
            let met = blocks_met(counted);
            let (explain, _) = explained(counted, LAYOUT);
            let (most, total) = (*met.iter().max().unwrap(), met.iter().sum::<usize>());
            let is_uneven = (most * PROCESSORS) as f64 > 1.1 * total as f64;
            let found = &explain.functions[0].unbalanced;
            assert_eq!(found.len(), usize::from(is_uneven), "{what}: {met:?}");
            for found in found {
                assert_eq!(
                    (found.work.most, found.work.total),
                    (most as u64, total as u64),
                    "{what}"
                );
                assert_eq!(met[found.work.busiest], most, "{what}");
                uneven += 1;
            }
        }
    }
    assert!(uneven >= 10, "{uneven} are uneven");
}

#[test]
fn explain_names_the_remedy_of_an_uneven_mask() {
    let counted =
        Counted { pieces: None, own: true, rules: |mask| mask.causal(), size: 16, block: 2 };
    let (explain, at) = explained(counted, LAYOUT);
    let page = explain.to_string();
    let says = format!(
        "  uneven    the last of 4 processors over a computes 15 blocks of attention, where the mean is 9: \
         attention at {at}\n            \
         deal positions with `zigzag(x, length, 8)`, and the mask's with `Mask::in_zigzag`\n"
    );
    assert!(page.contains(&says), "{page}\nlacks\n{says}");

    // With the remedy, and on fewer processors without it.
    let dealt = Counted { pieces: Some(8), ..counted };
    for (counted, layout) in [(dealt, LAYOUT), (counted, ("a:4", "")), (dealt, ("a:2", "length:a"))]
    {
        let page = explained(counted, layout).0.to_string();
        assert!(!page.contains("uneven"), "{page}");
    }
    // Eight does not divide twelve.
    let page = explained(Counted { size: 12, block: 1, ..counted }, LAYOUT).0.to_string();
    assert!(page.contains("evenly if 8 divided their number"), "{page}");
    // A memory whose parts are apart from queries: the first part is seen by all.
    let apart = Counted { own: false, ..counted };
    let page = explained(apart, ("a:2;b:2", "length:a;memory:b")).0.to_string();
    assert!(page.contains("number 2 of 4 processors over a+b computes 16 blocks"), "{page}");
}

/// Where values lie that have nothing but elements of some parameters, as ranges of bytes of the arena.
struct Held {
    ranges: Vec<(usize, usize)>,
}

impl Held {
    /// Marks what a block makes of values that are marked, by forms that move elements.
    fn follow(&mut self, block: &Block, plan: &Plan, base: usize, marked: &mut [bool]) {
        let mut bodies = plan.bodies.iter();
        for step in &block.steps {
            let inputs: Vec<_> = step.reads().map(|id| marked[id.index()]).collect();
            let outs = match &step.form {
                Form::Loop(form) => {
                    let mut inside = vec![false; form.body.values.len()];
                    for (param, &given) in form.body.params.iter().zip(&inputs) {
                        inside[param.index()] = given;
                    }
                    let body = bodies.next().unwrap();
                    self.follow(&form.body, body, base + plan.own_bytes(), &mut inside);
                    form.body.results.iter().map(|id| inside[id.index()]).collect()
                }
                Form::Move(_) | Form::Reshape(_) | Form::Permute(_) | Form::Await(_) => {
                    vec![inputs.contains(&true)]
                }
                _ => vec![false; step.outs.len()],
            };
            for (out, from) in step.outs.iter().zip(outs) {
                marked[out.index()] |= from;
            }
        }
        for (id, value) in block.values.iter().enumerate().filter(|(id, _)| marked[*id]) {
            if let Place::Arena(begin) = plan.places[id] {
                self.ranges.push((base + begin, base + begin + value.bytes()));
            }
        }
    }

    fn bytes(mut self) -> usize {
        self.ranges.sort_unstable();
        let mut end = 0;
        let new = |(first, last): (usize, usize)| {
            let more = last.saturating_sub(first.max(end));
            end = end.max(last);
            more
        };
        self.ranges.into_iter().map(new).sum()
    }
}

/// Of keys and values, and blocks of them that are under way, a processor of four plans for at most three
/// tenths.
#[test]
fn keys_and_values_are_held_once_in_all() {
    let (length, kv) = (dim("length", 16_384), dim("kv", 16));
    let g = mesh_ops::graph();
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, dim("heads", 2), kv], F32));
    let mask = Mask::along(&g, length, memory(length)).causal();
    let y = to_itself([q, k, v], mask, Blocks::default());
    g.declare_function("forward", &[q, k, v], &[y], Vec::new());
    let (mesh, layout) = LAYOUT;
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let compiled = on_host(&module);
    let Compiled { program, plan } = &compiled[0];
    let mut marked = vec![false; program.block.values.len()];
    program.block.params[1..3].iter().for_each(|param| marked[param.index()] = true);
    let mut held = Held { ranges: Vec::new() };
    held.follow(&program.block, plan, 0, &mut marked);
    let (held, whole) = (held.bytes(), 2 * k.shape().size() * F32.size());
    assert!(10 * held <= 3 * whole, "{held} of {whole} bytes");
}
