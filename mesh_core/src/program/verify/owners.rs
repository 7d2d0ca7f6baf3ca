//! Who runs a step, and whose values are.

use super::{Legal, Verifier, ensure};
use crate::names::Axis;
use crate::program::{Form, Owners, Step};

impl Verifier<'_> {
    /// Whether a step's owners have what it uses; notes who has its outs.
    pub(super) fn run_by(&mut self, step: &Step) -> Legal {
        let axes: Vec<Axis> = step.owners.iter().map(|(axis, _)| *axis).collect();
        super::check_axes(self.mesh, &axes)?;
        for &(axis, coordinate) in &step.owners {
            let size = self.mesh.size(axis);
            ensure!(coordinate < size, "axis {} has no {coordinate}", self.mesh.name(axis));
        }
        ensure!(within(&step.owners, &self.everybody), "not only those who run the loop run it");
        let met = step.axes().into_iter().flatten();
        for axis in met {
            ensure!(!axes.contains(axis), "not all members of its group run it");
        }
        let (mut users, mut makers) = (step.owners.clone(), step.owners.clone());
        match &step.form {
            Form::Await(_) => return Ok(()),
            Form::Broadcast(form) => users.extend(self.member(&form.axes, form.root)),
            Form::ReduceTo(form) => makers.extend(self.member(&form.axes, form.root)),
            Form::Read(form) => {
                let holders = &self.variables[form.variable.index()].owners;
                ensure!(within(&users, holders), "not all who run it hold {:?}", form.variable);
            }
            Form::Write(form) => {
                let holders = &self.variables[form.variable.index()].owners;
                let all = within(&users, holders) && within(holders, &users);
                ensure!(all, "those who run it are not those who hold {:?}", form.variable);
            }
            _ => {}
        }
        for input in step.reads() {
            let owners = &self.owners[input.index()];
            ensure!(within(&users, owners), "not all who run it have {input:?}");
        }
        for out in &step.outs {
            self.owners[out.index()] = makers.clone();
        }
        Ok(())
    }

    /// The coordinates of a group's member along the group's axes.
    fn member(&self, axes: &[Axis], index: usize) -> Owners {
        let mut rest = index;
        let mut coordinates = Owners::new();
        for &axis in axes.iter().rev() {
            coordinates.push((axis, rest % self.mesh.size(axis)));
            rest /= self.mesh.size(axis);
        }
        coordinates
    }
}

/// Whether every processor of `one` is of `other`.
pub(super) fn within(one: &Owners, other: &Owners) -> bool {
    other.iter().all(|owner| one.contains(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::forms::{Broadcast, ReduceTo};
    use crate::program::sketch::{axis, built, owned, owned_variable, square};
    use crate::program::{Program, ValueId, verify};

    fn found(spoil: impl FnOnce(&mut Program)) -> String {
        let mesh = square();
        let mut program = built(&mesh, owned);
        spoil(&mut program);
        match verify(&program, &mesh, &[owned_variable()]) {
            Ok(()) => "legal".to_owned(),
            Err(problems) => {
                problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn what_is_one_processors_stays_there() {
        let (rows, cols) = (axis(&square(), "rows"), axis(&square(), "cols"));
        assert_eq!(found(|_| {}), "legal");
        let everybody = |index: usize| found(|program| program.block.steps[index].owners.clear());
        let others = |index: usize| found(|program| program.block.steps[index].owners[0].1 = 0);
        let text = everybody(1);
        assert!(text.contains("step 1 read: not all who run it hold var0"), "{text}");
        let text = everybody(2);
        assert!(text.contains("step 2 map: not all who run it have %2"), "{text}");
        assert!(others(2).contains("step 2 map: not all who run it have %2"));
        let text = everybody(3);
        assert!(text.contains("step 3 write: those who run it are not those who hold"), "{text}");
        let text = found(|program| program.block.steps[3].owners.push((cols, 0)));
        assert!(text.contains("step 3 write: those who run it are not those who hold"), "{text}");
        let text = found(|program| program.block.results[0] = ValueId(3));
        assert_eq!(text, "result 0: not everybody has %3");
        let text =
            found(|program| program.block.steps[2].owners = Owners::from_slice(&[(rows, 2)]));
        assert!(text.contains("axis rows has no 2"), "{text}");
    }

    #[test]
    fn roots_are_members_and_groups_whole() {
        let rows = axis(&square(), "rows");
        let root = |index: usize, to: usize| {
            found(|program| match &mut program.block.steps[index].form {
                Form::ReduceTo(ReduceTo { root, .. }) | Form::Broadcast(Broadcast { root, .. }) => {
                    *root = to;
                }
                form => panic!("{}", form.name()),
            })
        };
        assert!(root(0, 2).contains("a group of 2 has no member 2"), "{}", root(0, 2));
        assert!(root(4, 2).contains("a group of 2 has no member 2"), "{}", root(4, 2));
        assert!(root(0, 0).contains("not all who run it have %1"), "{}", root(0, 0));
        assert_eq!(root(4, 0), "step 4 broadcast: not all who run it have %3");
        let text = found(|program| program.block.steps[4].owners.push((rows, 1)));
        assert!(text.contains("not all members of its group run it"), "{text}");
    }

    #[test]
    fn a_loop_is_its_owners_with_its_body() {
        let (mesh, rows) = (square(), axis(&square(), "rows"));
        let mut program = crate::program::sketch::looped(&mesh);
        program.block.steps[1].owners.push((rows, 0));
        let text = verify(&program, &mesh, &[]).unwrap_err()[0].to_string();
        assert!(text.contains("not only those who run the loop run it"), "{text}");
        let Form::Loop(form) = &mut program.block.steps[1].form else { panic!("no loop") };
        form.body.steps.iter_mut().for_each(|step| step.owners.push((rows, 0)));
        let problems = verify(&program, &mesh, &[]).unwrap_err();
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(!text.contains("in its body"), "{text}");
        assert!(
            text.contains("not everybody has") || text.contains("not all who run it"),
            "{text}"
        );
    }
}
