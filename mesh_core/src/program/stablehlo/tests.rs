//! Texts of small programs, and what is refused. That a compiler takes them and makes the same numbers of
//! them, the tests of sessions on XLA's devices show.

use super::{Argument, Options, Outcome, Precision, Spelled, spell};
use crate::names::{AxisList, DType, Mesh, ReduceKind};
use crate::program::sketch::{
    Sketch, built, every_form, every_variable, labelled, looped, owned, owned_variable, square,
    variable, x,
};
use crate::program::{
    Body, Builder, Elements, Expr, Extents, Instr, Prim, Program, Slot, UserKernel, Value,
    VariableType, View, ViewMut, verify,
};
use smallvec::smallvec;
use std::collections::BTreeSet;

fn spelled(program: &Program, mesh: &Mesh, variables: &[VariableType]) -> Spelled {
    verify(program, mesh, variables).unwrap();
    let spelled = spell(program, mesh, variables, &Options::default()).unwrap();
    well_formed(&spelled.text);
    spelled
}

/// Whether every name of a text is given once, before it is used, and what is opened is closed.
#[track_caller]
fn well_formed(text: &str) {
    let mut given = BTreeSet::new();
    let mut depth = 0;
    for line in text.lines() {
        let (made, used) = match line.trim_start() {
            // A function's names are its own.
            head if head.starts_with("func.func") => {
                given.clear();
                (head, "")
            }
            head if head.starts_with("^bb0") => (head, ""),
            line => line.split_once(" = ").unwrap_or(("", line)),
        };
        for name in names(used) {
            assert!(given.contains(&name), "{name} is used before it is given: {line}");
        }
        for name in names(made) {
            assert!(given.insert(name.clone()), "{name} is given twice: {line}");
        }
        depth += line.matches(['{', '(']).count() as i64 - line.matches(['}', ')']).count() as i64;
    }
    assert_eq!(depth, 0, "{text}");
}

fn names(text: &str) -> Vec<String> {
    let begins = text.match_indices('%').map(|(at, _)| &text[at..]);
    let name = |rest: &str| {
        let end =
            rest[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |n| n + 1);
        rest[..end].to_owned()
    };
    begins.map(name).collect()
}

#[test]
fn every_form_is_spelled() {
    let mesh = square();
    let found = spelled(&built(&mesh, every_form), &mesh, &every_variable());
    for operation in [
        "convolution",
        "reshape",
        "dot_general",
        "reduce(",
        "select",
        "dynamic_slice",
        "xor",
        "\"stablehlo.all_reduce\"",
        "\"stablehlo.reduce_scatter\"",
        "\"stablehlo.all_to_all\"",
        "\"stablehlo.all_gather\"",
        "\"stablehlo.collective_permute\"",
        "iota",
        "\"stablehlo.gather\"",
        "\"stablehlo.scatter\"",
        "\"stablehlo.reduce_window\"",
        "\"stablehlo.sort\"",
        "call @\"total ",
    ] {
        assert!(found.text.contains(operation), "no {operation} in\n{}", found.text);
    }
    assert!(found.text.contains("replica_groups = dense<[[0, 2], [1, 3]]>"), "{}", found.text);
    assert!(found.text.contains("loc(\"op_1\"(\"src/main.rs\":7:1))"), "{}", found.text);
    let arguments =
        [Argument::Seed, Argument::Variable(0), Argument::Variable(1), Argument::Feed(0)];
    assert_eq!(found.arguments, arguments);
    assert_eq!(found.results, [Outcome::Variable(1), Outcome::Left(0)]);
    // The second variable is written, so its bytes are given away.
    assert_eq!(found.text.matches("tf.aliasing_output = 0").count(), 1);
}

#[test]
fn loops_and_barriers_are_spelled() {
    let mesh = square();
    let found = spelled(&looped(&mesh), &mesh, &[]);
    for operation in ["optimization_barrier", "\"stablehlo.while\"", "dynamic_update_slice"] {
        assert!(found.text.contains(operation), "no {operation} in\n{}", found.text);
    }
}

/// Everybody runs what some own: the program has nothing of it but who is asked.
#[test]
fn owned_steps_are_spelled_for_all() {
    let mesh = square();
    let found = spelled(&built(&mesh, owned), &mesh, &[owned_variable()]);
    insta::assert_snapshot!(found.text);
}

/// The dtypes that primitives are tried with, their argument's.
const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::Bool];

#[test]
fn every_primitive_is_spelled() {
    let mesh = Mesh::single();
    let mut tried = BTreeSet::new();
    for (&prim, dtype) in Prim::ALL.iter().flat_map(|prim| DTYPES.map(|dtype| (prim, dtype))) {
        if !prim.accepts(dtype) || prim == Prim::Cast {
            continue;
        }
        let flag = || Expr::input(0).equal(Expr::input(0));
        let args: Vec<_> = match prim {
            Prim::Select => vec![flag(), x(0), x(0)],
            _ => vec![x(0); prim.arity()],
        };
        let out = if prim.is_comparison() { DType::Bool } else { dtype };
        mapped(&mesh, Expr::apply(prim, args), dtype, out);
        tried.insert(prim);
    }
    for (from, to) in DTYPES.into_iter().flat_map(|from| DTYPES.map(|to| (from, to))) {
        mapped(&mesh, Expr::input(0).cast(to), from, to);
    }
    assert_eq!(tried.len() + 1, Prim::ALL.len());
}

/// A map of one value, spelled.
fn mapped(mesh: &Mesh, expr: Expr, from: DType, to: DType) -> String {
    let program = built(mesh, |b| {
        let extents = Extents::from_slice(&[2, 3]);
        let (shape, split) = (extents.to_vec(), vec![AxisList::new(); 2]);
        let slot = Slot { name: "x".to_owned(), shape, split, ..Slot::default() };
        let value = b.feed(from, extents.clone(), slot);
        let operand = b.whole(value);
        let out = b.map(vec![operand], extents, &expr, to).unwrap();
        b.fetched("out", out);
    });
    spelled(&program, mesh, &[]).text
}

#[test]
fn products_are_as_exact_as_is_asked_for() {
    let mesh = Mesh::single();
    let program = built(&mesh, |b| {
        let a = b.fed("a", &[4, 8]);
        let product = b.contract(labelled(a, &[0, 2]), labelled(a, &[1, 2]), smallvec![4, 4]);
        b.fetched("product", product);
    });
    let text = |precision| spell(&program, &mesh, &[], &Options { precision }).unwrap().text;
    assert!(text(Precision::Highest).contains("precision = [HIGHEST, HIGHEST]"));
    assert!(text(Precision::High).contains("precision = [HIGH, HIGH]"));
    assert!(text(Precision::Default).contains("precision = [DEFAULT, DEFAULT]"));
}

/// What is stored as bf16 is rounded once, by an operation that no compiler leaves out.
#[test]
fn bf16_is_computed_in_f32() {
    let text = mapped(&Mesh::single(), x(0) * x(0) + x(0), DType::BF16, DType::BF16);
    let kinds = ["multiply", "add"].map(|op| text.lines().find(|line| line.contains(op)).unwrap());
    assert!(kinds.iter().all(|line| line.contains("xf32>")), "{text}");
    assert_eq!(text.matches("reduce_precision").count(), 1, "{text}");
}

/// A selection is summed as bits, so that -0.0 and NaN stay what they are.
#[test]
fn selections_are_sums_of_bits() {
    let mesh = square();
    let program = built(&mesh, |b| {
        let part = b.fed("part", &[4]);
        let rows = mesh.axis("rows").unwrap();
        let whole = b.all_reduce(ReduceKind::Select, &[rows], part);
        b.fetched("whole", whole);
    });
    let text = spelled(&program, &mesh, &[]).text;
    let all_reduce = text.lines().find(|line| line.contains("}) {replica_groups")).unwrap();
    assert!(all_reduce.contains("tensor<4xui32>"), "{text}");
}

/// A kernel that says nothing of StableHLO.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Mute;

impl UserKernel for Mute {
    fn name(&self) -> &'static str {
        "mute"
    }

    fn flops(&self, _: &[&Value], _: &[&Value]) -> u64 {
        0
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        assert!(matches!(inputs[0].elements, Elements::F32(_)) && !outs.is_empty());
    }
}

#[test]
fn kernels_without_a_spelling_are_refused_with_their_line() {
    let mesh = Mesh::single();
    let build = |b: &mut Builder<'_>| {
        let given = b.fed("given", &[4]);
        b.origin(crate::program::Origin {
            op: "quiet".into(),
            name: "quiet_1".into(),
            at: "src/main.rs:9".into(),
            ..Default::default()
        });
        let out = b.call(Mute, &[given], &[(DType::F32, smallvec![4])])[0];
        b.fetched("out", out);
    };
    let refused = spell(&built(&mesh, build), &mesh, &[], &Options::default()).unwrap_err();
    assert_eq!(
        refused,
        "step 0 call (quiet_1 at src/main.rs:9): kernel `mute` has no spelling in StableHLO: give it \
         `UserKernel::stablehlo`"
    );
}

/// What is not used is not asked for.
#[test]
fn arguments_are_what_the_program_uses() {
    let mesh = Mesh::single();
    let program = built(&mesh, |b| {
        let old = b.old(1, &[4]);
        let twice = b.of(x(0) + x(0), &[old]);
        b.fetched("twice", twice);
    });
    let found = spelled(&program, &mesh, &[variable(&[3]), variable(&[4])]);
    assert_eq!(found.arguments, [Argument::Variable(1)]);
    assert_eq!(found.results, [Outcome::Left(0)]);
    assert!(!found.text.contains("tf.aliasing_output"));
}

/// Bodies hold constants of their registers' dtypes.
#[test]
fn constants_have_the_dtype_they_are_computed_in() {
    let body = Body::new(&[DType::BF16], &[(x(0) + 1.5, DType::BF16)]).unwrap();
    assert!(body.code.iter().any(|(instr, _)| matches!(instr, Instr::Const(_))));
    let text = mapped(&Mesh::single(), x(0) + 1.5, DType::BF16, DType::BF16);
    assert!(text.contains("dense<1.5> : tensor<2x3xf32>"), "{text}");
}
