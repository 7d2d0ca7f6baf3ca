//! What is begun in one place and over in another.

use super::{Legal, Verifier, ensure};
use crate::program::{Form, Step};

impl Verifier<'_> {
    /// Whether an await is that of a collective, and comes in its turn.
    pub(super) fn awaited(&mut self, step: &Step) -> Legal {
        let Form::Await(form) = &step.form else { return Ok(()) };
        let maker = form.begun(step).next().and_then(|value| self.makers[value.index()]);
        let known = maker.map(|at| (at, &self.block.steps[at]));
        let Some((at, collective)) = known.filter(|(_, step)| step.axes().is_some()) else {
            return Err("no collective makes what it waits for".to_owned());
        };
        let caption = || self.block.caption(at);
        let same = step.inputs == self.block.awaiting(collective).inputs;
        ensure!(same, "its values are not those of {}", caption());
        let runs = collective.owners == step.owners;
        ensure!(runs, "it is not run by those who run {}", caption());
        let in_turn = self.awaited.is_none_or(|last| last < at);
        ensure!(in_turn, "{} is awaited too late or twice", caption());
        self.awaited = Some(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ReduceKind;
    use crate::program::forms::Await;
    use crate::program::sketch::{Sketch, axis, built, square, x};
    use crate::program::{Program, ValueId, verify};

    /// Two sums over the rows, each beside a map.
    fn found(spoil: impl FnOnce(&mut Program)) -> String {
        let (mesh, rows) = (square(), axis(&square(), "rows"));
        let mut program = built(&mesh, |b| {
            let partial = b.fed("partial", &[4]); // %0
            let one = b.all_reduce(ReduceKind::Sum, &[rows], partial); // %1, step 0
            let beside = b.of(x(0).tanh(), &[partial]); // %2, step 1
            let two = b.all_reduce(ReduceKind::Sum, &[rows], beside); // %3, step 2
            b.wait(one); // step 3
            let used = b.of(x(0) + x(1), &[one, beside]); // %4, step 4
            b.wait(two); // step 5
            b.fetched("used", used);
            b.fetched("two", two);
        });
        spoil(&mut program);
        match verify(&program, &mesh, &[]) {
            Ok(()) => "legal".to_owned(),
            Err(problems) => {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn what_is_under_way_is_nobodys() {
        assert_eq!(found(|_| {}), "legal");
        let text = found(|program| program.block.steps.swap(3, 4));
        assert_eq!(text, "step 3 map: %1 is used before it is awaited");
        let text = found(|program| program.block.steps[1].inputs[0].value = ValueId(1));
        assert_eq!(text, "step 1 map: %1 is used before it is awaited");
        let text = found(|program| program.block.steps.swap(0, 3));
        assert!(text.contains("step 0 await: %1 is used before it is defined"), "{text}");
    }

    #[test]
    fn a_collective_without_an_await_is_met_where_it_stands() {
        assert_eq!(found(|program| drop(program.block.steps.remove(5))), "legal");
        assert_eq!(found(|program| drop(program.block.steps.remove(3))), "legal");
    }

    #[test]
    fn awaits_are_those_of_collectives_in_their_order() {
        let awaits = |change: fn(&mut Step)| found(|program| change(&mut program.block.steps[3]));
        let text = found(|program| program.block.steps.insert(4, program.block.steps[3].clone()));
        assert_eq!(text, "step 4 await: step 0 all_reduce is awaited too late or twice");
        let text = found(|program| {
            let last = program.block.steps.remove(5);
            program.block.steps.insert(3, last);
        });
        assert_eq!(text, "step 4 await: step 0 all_reduce is awaited too late or twice");
        let text = awaits(|step| step.inputs[0].value = ValueId(2));
        assert_eq!(text, "step 3 await: its values are not those of step 0 all_reduce");
        let text = awaits(|step| step.inputs[1].value = ValueId(2));
        assert!(text.contains("step 3 await: no collective makes what it waits for"), "{text}");
        let text = awaits(|step| step.form = Await { outs: 0 }.into());
        assert_eq!(text, "step 3 await: no collective makes what it waits for");
        let cols = axis(&square(), "cols");
        let text = found(|program| program.block.steps[3].owners.push((cols, 0)));
        assert_eq!(text, "step 3 await: it is not run by those who run step 0 all_reduce");
    }
}
