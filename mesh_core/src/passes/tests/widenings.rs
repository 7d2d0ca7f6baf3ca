//! Casts are merged unless that keeps what is larger than what it is made of.

use super::*;
use crate::names::{AxisList, DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{Extents, Instr, Prim, Slot};

/// How many casts are left of two that are equal, of so many elements, with so many steps between the
/// first one's use and the second, and another right behind the second.
fn left(from: DType, to: DType, elements: usize, between: usize) -> usize {
    let mesh = square();
    let mut program = built(&mesh, |b| {
        let extents = Extents::from_slice(&[elements]);
        let (name, split) = ("given".to_owned(), vec![AxisList::new()]);
        let slot = Slot { name, shape: vec![elements], split, ..Slot::default() };
        let given = b.feed(from, extents.clone(), slot);
        let cast = |b: &mut Builder<'_>| {
            let cast = b.map(vec![b.whole(given)], extents.clone(), &x(0).cast(to), to).unwrap();
            b.reduce(ReduceKind::Max, labelled(cast, &[0]), Extents::new())
        };
        let first = cast(b);
        b.fetched("first", first);
        let mut chain = b.fed("chain", &[4]);
        for _ in 0..between {
            chain = b.of(x(0).exp(), &[chain]);
        }
        b.fetched("chain", chain);
        let second = cast(b);
        b.fetched("second", second);
        let third = cast(b);
        b.fetched("third", third);
    });
    cse::run(&mut program.block);
    verify(&program, &mesh, &[]).unwrap();
    let casts = |step: &&Step| match &step.form {
        Form::Map(map) => {
            matches!(map.body.code[..], [(Instr::Input(0), _), (Instr::Apply(Prim::Cast, _), _)])
        }
        _ => false,
    };
    program.steps().iter().filter(casts).count()
}

#[test]
fn a_wider_copy_is_made_again_if_it_was_not_needed_for_long() {
    let (near, far, many) = (cse::FAR - 1, cse::FAR, cse::LARGE / 4);
    let table = [
        (DType::BF16, DType::F32, many, near, 1),
        (DType::BF16, DType::F32, many, far, 2),
        (DType::F32, DType::F64, many, far, 2),
        (DType::BF16, DType::F32, many - 1, far, 1),
        // Not larger than what it is made of.
        (DType::F32, DType::BF16, 2 * many, far, 1),
        (DType::I32, DType::F32, many, far, 1),
    ];
    for (from, to, elements, between, expected) in table {
        let what = format!("{elements} of {from} to {to}, {between} steps between");
        assert_eq!(left(from, to, elements, between), expected, "{what}");
    }
}
