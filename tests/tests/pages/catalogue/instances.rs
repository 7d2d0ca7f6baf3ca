//! The rooms of `mesh_ops` with the instances of their functions, which are the cases that check them.

use super::{Entry, case, input, made, sources};
use mesh_ops::testing::{self, Case, Room};
use std::collections::BTreeSet;

/// A room's source and its instances.
pub struct Shown {
    pub room: &'static Room,
    pub source: String,
    /// Of its own ops, and of its compositions; the first of a function stands for it.
    pub ops: Vec<Entry>,
    pub compositions: Vec<Entry>,
}

/// Every room, the elementwise ones first.
pub fn rooms() -> Vec<Shown> {
    let functions = sources::public_functions();
    let shown = |room: &'static Room| {
        let path = sources::path_of(room.name());
        let mut cases = room.cases();
        cases.retain(|case| functions.get(case.function()) == Some(&path));
        let (mut composed, mut of_ops) = (BTreeSet::new(), BTreeSet::new());
        for case in &cases {
            // The first case of a function stands for it; an op may also be made of others, if asked to.
            let function = case.function().to_owned();
            match case.is_composed() || !room.has_ops() {
                _ if composed.contains(&function) || of_ops.contains(&function) => false,
                true => composed.insert(function),
                false => of_ops.insert(function),
            };
        }
        cases.retain(|case| composed.contains(case.function()) || !case.is_composed());
        let (compositions, ops): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|case| composed.contains(case.function()));
        let entries = |cases: Vec<Case>| cases.into_iter().map(of_case).collect();
        let source = sources::room(&path);
        Shown { room, source, ops: entries(ops), compositions: entries(compositions) }
    };
    testing::rooms().map(shown).collect()
}

fn of_case(instance: Case) -> Entry {
    let (function, name) = (instance.function().to_owned(), instance.name().to_owned());
    case(&function, &name, move |g| {
        let given = instance.inputs().iter();
        let inputs: Vec<_> = given.map(|x| input(g, &x.name, &x.shape, x.dtype)).collect();
        let outputs = instance.outputs(g, &inputs);
        made(inputs, outputs)
    })
}

/// One instance of each function.
pub fn firsts(entries: Vec<Entry>) -> Vec<Entry> {
    let mut firsts: Vec<Entry> = Vec::new();
    for entry in entries {
        if firsts.iter().all(|first| first.name != entry.name) {
            firsts.push(entry);
        }
    }
    firsts
}
