//! What attention is tried with.

use super::*;
use crate::testing::proof::*;

/// So many positions of queries and memory that blocks of these sizes do not divide them.
const SMALL: Blocks = Blocks { queries: 3, memory: 4 };

fn length() -> Dimension {
    dim("length", 8)
}

fn memory() -> Dimension {
    dim("memory", 6)
}

fn how<'g>(mask: Mask<'g>) -> Attend<'g> {
    let kv = dim("kv", 2);
    Attend { mask, blocks: SMALL, ..Attend::new(memory(), kv, kv) }
}

fn first<'g>(x: &[Tensor<'g>], how: &Attend<'g>) -> Tensor<'g> {
    attention(x[0], x[1], x[2], how).0
}

/// Queries, keys and values of f64.
fn given(
    name: &str,
    build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>> + 'static,
) -> Case {
    Case::several(name, build)
        .shows("attention")
        .normal("q", "batch:2;length:8;kv:2", F64)
        .normal("k", "batch:2;memory:6;kv:2", F64)
        .normal("v", "memory:6;batch:2;kv:2", F64)
        .meshes(FEW_ATTENDED)
}

fn own() -> Dimension {
    dim("memory", 8)
}

/// Queries, keys and values of one tensor's positions: more than a block.
fn itself(
    name: &str,
    build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>> + 'static,
) -> Case {
    Case::several(name, build)
        .shows("attention")
        .normal("q", "batch:2;heads:2;length:8;kv:2", F64)
        .normal("k", "length:8;batch:2;kv:2", F64)
        .normal("v", "batch:2;length:8;kv:2", F64)
        .meshes(GONE_ROUND)
}

fn to_itself<'g>(mask: Mask<'g>) -> Attend<'g> {
    let kv = dim("kv", 2);
    Attend { mask, blocks: SMALL, ..Attend::to_itself(length(), own(), kv, kv) }
}

/// With so many weights dropped that each query loses some.
fn dropping(how: Attend<'_>) -> Attend<'_> {
    Attend { dropout: 0.4, ..how }
}

fn exchanged<'g>(mask: Mask<'g>, exchange: Exchange) -> Attend<'g> {
    Attend { exchange, ..to_itself(mask) }
}

const GONE_ROUND: &[&str] = &["a:2", "a:4", "a:2;b:2"];

const FEW_ATTENDED: &[&str] = &["a:2", "a:2;b:2"];

pub(super) fn cases() -> Vec<Case> {
    vec![
        given("attention: all, and log-sum-exps", |_, x| {
            let (y, sums) = attention(x[0], x[1], x[2], &how(Mask::default()));
            vec![y, sums]
        }),
        // The first query sees nothing.
        given("attention: causal, from positions that are dealt", |_, x| {
            vec![first(x, &how(Mask::of_positions(x[3], x[4]).causal()))]
        })
        .input(
            "p",
            "length:8",
            I32,
            Fill::Values([-1, 5, 2, 3, 4, 1, 0, 6].map(f64::from).to_vec()),
        )
        .input(
            "r",
            "memory:6",
            I32,
            Fill::Values([0, 1, 5, 4, 2, 3].map(f64::from).to_vec()),
        ),
        given("attention: a window, a prefix, bias, cap", |g, x| {
            let mask = Mask::along(g, length(), memory()).causal().window(3).prefix(x[4]);
            vec![first(x, &Attend { bias: Some(x[3]), cap: Some(2.0), ..how(mask) })]
        })
        .normal("bias", "length:8;memory:6", F64)
        .input("prefix", "batch:2", I32, Fill::Values(vec![0.0, 2.0])),
        given("attention: packed segments, both ways within a window", |g, x| {
            let mask = Mask::along(g, length(), memory()).window(4).segments(x[3], x[4]);
            vec![first(x, &how(mask))]
        })
        .input("s", "batch:2;length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:6", I32, Fill::Integers(0, 2))
        .meshes(&["a:2"]),
        given("attention: bools, a bias of each key", |_, x| {
            vec![first(
                x,
                &Attend { allowed: Some(x[3]), bias: Some(x[4]), ..how(Mask::default()) },
            )]
        })
        .bools("allowed", "memory:6;length:8")
        .normal("bias", "memory:6", F64)
        .meshes(&["a:2"]),
        Case::new("attention: shared keys, f32", |g, x| {
            let mask = Mask::along(g, dim("length", 4), memory()).causal();
            first(x, &Attend { blocks: Blocks { queries: 2, memory: 3 }, ..how(mask) })
        })
        .normal("q", "length:4;groups:2;heads:2;kv:2", F32)
        .normal("k", "memory:6;groups:2;kv:2", F32)
        .normal("v", "memory:6;groups:2;kv:2", F32)
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, causal, a bias, log-sum-exps", |g, x| {
            let mask = Mask::along(g, length(), own()).causal().window(5);
            let (y, sums) =
                attention(x[0], x[1], x[2], &Attend { bias: Some(x[3]), ..to_itself(mask) });
            vec![y, sums]
        })
        .normal("bias", "length:8;memory:8", F64),
        itself(
            "attention: to itself, bools, a bias of each key, segments, shared heads",
            |_, x| {
                let mask = Mask::default().segments(x[5], x[6]);
                let how = Attend { allowed: Some(x[3]), bias: Some(x[4]), ..to_itself(mask) };
                vec![first(x, &how)]
            },
        )
        .bools("allowed", "memory:8;length:8")
        .normal("bias", "memory:8", F64)
        .input("s", "length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:8", I32, Fill::Integers(0, 2))
        .meshes(&["a:4"]),
        itself("attention: to itself, all of it one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &Attend { blocks, ..to_itself(Mask::default()) })]
        })
        .meshes(&["a:2"]),
        given("attention: dropout, and log-sum-exps", |_, x| {
            let (y, sums) = attention(x[0], x[1], x[2], &dropping(how(Mask::default())));
            vec![y, sums]
        }),
        given("attention: dropout, bools, a bias of each key, a cap, causal", |g, x| {
            let mask = Mask::along(g, length(), memory()).causal();
            let how = Attend { allowed: Some(x[3]), bias: Some(x[4]), cap: Some(2.0), ..how(mask) };
            vec![first(x, &dropping(how))]
        })
        .bools("allowed", "memory:6;length:8")
        .normal("bias", "memory:6", F64)
        .meshes(&["a:2"]),
        itself(
            "attention: to itself, dropout, causal, shared heads, a bias, log-sum-exps",
            |g, x| {
                let mask = Mask::along(g, length(), own()).causal();
                let how = Attend { bias: Some(x[3]), ..to_itself(mask) };
                let (y, sums) = attention(x[0], x[1], x[2], &dropping(how));
                vec![y, sums]
            },
        )
        .normal("bias", "length:8;memory:8", F64),
        itself("attention: to itself, dropout, in zigzag order", |g, x| {
            let mask = Mask::in_zigzag(g, length(), own(), 4).causal();
            vec![first(x, &dropping(to_itself(mask)))]
        })
        .meshes(&["a:2"]),
        itself("attention: to itself, dropout, all of it one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &dropping(Attend { blocks, ..to_itself(Mask::default()) }))]
        })
        .meshes(&["a:2"]),
        Case::new("attention: dropout, queries of groups, f32", |_, x| {
            let how = Attend { blocks: Blocks { queries: 2, memory: 4 }, ..how(Mask::default()) };
            first(x, &dropping(how))
        })
        .normal("q", "length:4;groups:2;heads:2;kv:2", F32)
        .normal("k", "memory:6;groups:2;kv:2", F32)
        .normal("v", "memory:6;groups:2;kv:2", F32)
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, all-to-alls, causal, a bias, log-sum-exps", |g, x| {
            let mask = Mask::along(g, length(), own()).causal();
            let how =
                Attend { bias: Some(x[3]), ..exchanged(mask, Exchange::AllToAll("batch".into())) };
            let (y, sums) = attention(x[0], x[1], x[2], &how);
            vec![y, sums]
        })
        .normal("bias", "length:8;memory:8", F64)
        .meshes(&["a:2", "a:2;b:2;c:2"]),
        itself("attention: to itself, all-to-alls to heads that keys lack, segments", |_, x| {
            let mask = Mask::default().segments(x[3], x[4]);
            vec![first(x, &exchanged(mask, Exchange::AllToAll("heads".into())))]
        })
        .input("s", "length:8", I32, Fill::Integers(0, 2))
        .input("t", "batch:2;memory:8", I32, Fill::Integers(0, 2))
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, all-to-alls, dropout", |g, x| {
            let mask = Mask::along(g, length(), own()).causal();
            vec![first(x, &dropping(exchanged(mask, Exchange::AllToAll("heads".into()))))]
        })
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, a ring of one block", |_, x| {
            let blocks = Blocks { queries: 3, memory: 8 };
            vec![first(x, &Attend { blocks, ..exchanged(Mask::default(), Exchange::Ring) })]
        })
        .meshes(FEW_ATTENDED),
        itself("attention: to itself, several blocks gathered", |g, x| {
            let mask = Mask::along(g, length(), own()).causal().window(5);
            vec![first(x, &exchanged(mask, Exchange::Gather))]
        })
        .meshes(FEW_ATTENDED),
        Case::new("attention: bf16", |_, x| first(x, &how(Mask::default())))
            .normal("q", "length:4;kv:2", BF16)
            .normal("k", "memory:6;kv:2", BF16)
            .normal("v", "memory:6;kv:2", BF16)
            .meshes(&["a:2"]),
    ]
}
