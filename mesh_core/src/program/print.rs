//! Programs as text, good enough to be documentation.
//!
//! ```text
//! program train on rows:2;cols:2
//!   feeds
//!     %0 = image: f32[4, 784] of [8, 784] @ rows, -
//!   steps
//!     %2: f32[4, 16] = contract %0[a, k] * %1[k, b]  einsum at src/main.rs:7
//!     %3: f32[4, 16] = begin all_reduce sum over cols of %2
//!     %4: f32[4, 16] = map tanh(x0) of %0[a, b]
//!     await %3
//!     write var0 = %3
//!   fetches
//!     loss = %8: f32[] of []
//! ```
//!
//! Labels are letters: result dims from `a` on, folded dims from `k` on.

use super::forms::{Loop, StepCx};
use super::{Block, Form, Program, Slot, Step, ValueId};
use crate::names::Mesh;
use std::fmt;

/// The program as text.
pub fn print(program: &Program, mesh: &Mesh) -> String {
    program.display(mesh).to_string()
}

impl Program {
    /// The program as text; the mesh names its axes.
    pub fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let Self { name, block, feeds, .. } = self;
            match mesh.processors() {
                1 => writeln!(f, "program {name} on one processor")?,
                _ => writeln!(f, "program {name} on {mesh}")?,
            }
            if !feeds.is_empty() {
                writeln!(f, "  feeds")?;
            }
            for (slot, value) in self.fed() {
                writeln!(f, "    {value:?} = {}: {}", slot.name, self.slot(slot, value, mesh))?;
            }
            if !block.steps.is_empty() {
                writeln!(f, "  steps")?;
            }
            Printer::new(block, mesh).steps(f, "    ")?;
            if !block.results.is_empty() {
                writeln!(f, "  fetches")?;
            }
            for (slot, value) in self.left() {
                writeln!(f, "    {} = {value:?}: {}", slot.name, self.slot(slot, value, mesh))?;
            }
            Ok(())
        })
    }

    fn slot(&self, slot: &Slot, value: ValueId, mesh: &Mesh) -> String {
        let text = format!("{} of {:?}", self.value(value), slot.shape);
        let axes = slot.split.iter().map(|axes| match axes.is_empty() {
            true => "-".to_owned(),
            false => mesh.list(axes),
        });
        if slot.split.is_empty() { text } else { format!("{text} @ {}", join(axes)) }
    }
}

impl Block {
    /// What messages call a step: `step 12 contract (einsum_3 at src/main.rs:7)`.
    pub(crate) fn caption(&self, index: usize) -> String {
        let Some(step) = self.steps.get(index) else { return format!("step {index}") };
        let (form, origin) = (step.form.name(), step.origin.to_string());
        let origin = if origin.is_empty() { origin } else { format!(" ({origin})") };
        format!("step {index} {form}{origin}")
    }

    /// One step as text, without its origin.
    pub fn display_step<'a>(&'a self, step: &'a Step, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        let printer = Printer::new(self, mesh);
        fmt::from_fn(move |f| f.write_str(&printer.step(step)))
    }
}

/// Column where origins begin.
const ORIGIN_COLUMN: usize = 72;

struct Printer<'a> {
    block: &'a Block,
    mesh: &'a Mesh,
    awaits: Vec<Option<usize>>,
}

impl<'a> Printer<'a> {
    fn new(block: &'a Block, mesh: &'a Mesh) -> Self {
        Self { block, mesh, awaits: block.awaits() }
    }

    fn steps(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        for step in &self.block.steps {
            let line = format!("{indent}{}{}", self.step(step), self.owners(step));
            match step.origin.to_string().as_str() {
                "" => writeln!(f, "{line}")?,
                origin => writeln!(f, "{line:<ORIGIN_COLUMN$}  {origin}")?,
            }
            if let Form::Loop(form) = &step.form {
                self.body(f, form, step, indent)?;
            }
        }
        Ok(())
    }

    /// ` on data=0`: who runs a step.
    fn owners(&self, step: &Step) -> String {
        let owner = |&(axis, coordinate)| format!("{}={coordinate}", self.mesh.name(axis));
        let owners = join(step.owners.iter().map(owner));
        if owners.is_empty() { owners } else { format!(" on {owners}") }
    }

    /// The body of a loop, whose values are numbered anew.
    fn body(
        &self,
        f: &mut fmt::Formatter<'_>,
        form: &Loop,
        step: &Step,
        indent: &str,
    ) -> fmt::Result {
        let body = &*form.body;
        let slices = form.slices();
        let given = step.reads().enumerate().map(|(i, id)| match slices.contains(&i) {
            true => format!("slice of {id:?}"),
            false => format!("{id:?}"),
        });
        let given = given.take(body.params.len().saturating_sub(1));
        for (&param, from) in body.params.iter().zip(given.chain(["position".to_owned()])) {
            writeln!(f, "{indent}  {param:?} = {from}: {}", body.value(param))?;
        }
        Printer::new(body, self.mesh).steps(f, &format!("{indent}  "))?;
        let stacks = form.stacks();
        let results = body.results.iter().enumerate().map(|(i, result)| match i {
            _ if stacks.contains(&i) => format!("stack {result:?}"),
            _ if i >= stacks.end => format!("while {result:?}"),
            _ => format!("{result:?}"),
        });
        writeln!(f, "{indent}  next {}", join(results))
    }

    fn step(&self, step: &Step) -> String {
        let Self { block, mesh, .. } = *self;
        let cx = StepCx { block, step, mesh, variables: &[] };
        let (form, text) = (step.form.name(), step.form.rules().text(&cx));
        if step.outs.is_empty() {
            return format!("{form} {text}");
        }
        let begins = step.axes().is_some() && self.awaits[step.outs[0].index()].is_some();
        let begin = if begins { "begin " } else { "" };
        let typed = step.outs.iter().map(|&out| format!("{out:?}: {}", block.value(out)));
        format!("{} = {begin}{form} {text}", join(typed))
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::DType;
    use crate::program::Generator;
    use crate::program::sketch::{built, every_form, looped, origin, owned, square};
    use smallvec::smallvec;

    #[test]
    fn every_form_has_a_line() {
        let mesh = square();
        insta::assert_snapshot!(print(&built(&mesh, every_form), &mesh), @r"
        program test on rows:2;cols:2
          feeds
            %0 = image: f32[4, 8, 2] of [4, 8, 2] @ -, -, -
          steps
            %1: f32[3, 2, 6] = read var0                                          op_1 at src/main.rs:7
            %2: f32[4, 4, 6] = convolve %0[a, l, m] * %1[k, m, c] with l = 2*b + k - 1  op_1 at src/main.rs:7
            %3: f32[16, 6] = reshape %2                                           op_1 at src/main.rs:7
            %4: f32[16, 16] = contract %3[a, k] * %3[b, k]                        op_1 at src/main.rs:7
            %5: f32[16] = reduce max of %4[a, k]                                  op_1 at src/main.rs:7
            %6: f32[16, 16] = map select(lt(x0, x1), x0, 0) of %4[a, b], %5[b]    op_1 at src/main.rs:7
            %7: f32[4, 8] = move %6[a, b] from [(rows+cols)*4, 1]                 op_1 at src/main.rs:7
            %8: f32[4, 8] = generate uniform(0, 1) key 7 from [rows*4, 0] of [8, 8]  op_1 at src/main.rs:7
            %9: f32[4, 8] = map x0 + x1 of %7[a, b], %8[a, b]                     op_1 at src/main.rs:7
            %10: f32[4, 8] = all_reduce sum over rows of %9                       op_1 at src/main.rs:7
            %11: f32[4, 2] = reduce_scatter sum dim 1 over rows+cols of %10       op_1 at src/main.rs:7
            %12: f32[2, 4] = all_to_all dim 0 to dim 1 over cols of %11           op_1 at src/main.rs:7
            %13: f32[4, 4] = all_gather dim 0 over rows of %12                    op_1 at src/main.rs:7
            %14: f32[4, 4] = permute +1 wrapping over rows of %13                 op_1 at src/main.rs:7
            write var1 = %14                                                      op_1 at src/main.rs:7
            %15: i32[2] = generate iota dim 0 from [0] of [2]                     op_1 at src/main.rs:7
            %16: f32[2, 4] = gather %14[k, b] at k = %15[a] - rows*4              op_1 at src/main.rs:7
            %17: f32[2, 4] = scatter sum of %16[k, b] to a = %15[k] - rows*4      op_1 at src/main.rs:7
            %18: f32[2, 4] = scan sum exclusive dim 0 of %17                      op_1 at src/main.rs:7
            %19: f32[1, 4], %20: i32[1, 4] = sort descending along a of %18[a, b], %15[a]  op_1 at src/main.rs:7
            %21: f32[4] = call total (Total { scale: 2 }) of %18                  op_1 at src/main.rs:7
            %22: f32[2, 4] = begin all_reduce sum over cols of %18                op_1 at src/main.rs:7
            %23: f32[2, 4] = scan sum dim 1 of %18                                op_1 at src/main.rs:7
            await %22                                                             op_1 at src/main.rs:7
            %24: f32[4, 2, 6] = pool max of %2[a, k, c] with k in 2 from 2*b - 1  op_1 at src/main.rs:7
            %25: i32[4] = generate iota dim 0 from [0] of [4]                     op_1 at src/main.rs:7
            %26: f32[2, 4] = put %21[b] to a = %25[b] - rows*4 of %18[a, b]       op_1 at src/main.rs:7
          fetches
            moved = %14: f32[4, 4] of [4, 4] @ -, -
        ");
    }

    #[test]
    fn the_body_of_a_loop_stands_below_it() {
        let mesh = square();
        insta::assert_snapshot!(print(&looped(&mesh), &mesh), @r"
        program test on rows:2;cols:2
          feeds
            %0 = h: f32[4] of [4] @ -
            %1 = w: f32[3, 4] of [3, 4] @ -, -
            %2 = c: f32[4] of [4] @ -
          steps
            %3: f32[4] = barrier %0
            %4: f32[4], %5: f32[3, 4] = loop 3 iterations, last first
              %0 = %3: f32[4]
              %1 = slice of %1: f32[4]
              %2 = %2: f32[4]
              %3 = position: i32[]
              %4: f32[4] = map x0 + (x1 * x2) of %0[a], %1[a], %2[a]
              next %4, stack %0
          fetches
            last = %4: f32[4] of [4] @ -
            all = %5: f32[3, 4] of [3, 4] @ -, -
        ");
    }

    #[test]
    fn owners_are_named() {
        let mesh = square();
        insta::assert_snapshot!(print(&built(&mesh, owned), &mesh), @r"
        program test on rows:2;cols:2
          feeds
            %0 = partial: f32[4] of [4] @ -
          steps
            %1: f32[4] = reduce_to sum over rows to 1 of %0
            %2: f32[4] = read var0 on rows=1
            %3: f32[4] = map x0 + x1 of %2[a], %1[a] on rows=1
            write var0 = %3 on rows=1
            %4: f32[4] = broadcast over rows from 1 of %3
          fetches
            new = %4: f32[4] of [4] @ -
        ");
    }

    #[test]
    fn shifts_are_named() {
        let mesh = square();
        let program = built(&mesh, |b| {
            let [step, row] = [0, 1].map(|_| {
                b.generate(Generator::Iota(0), DType::I32, origin(1), smallvec![1], smallvec![1])
            });
            let [step, row] = [step, row].map(|scalar| b.reshape(scalar, smallvec![]));
            let noise = Generator::Uniform { key: 7, low: 0.0, high: 1.0 };
            let (global, part) = (smallvec![4, 8], smallvec![2, 8]);
            b.generate_shifted(noise, &[step], &[(row, 8)], DType::F32, global, part);
        });
        let text = print(&program, &mesh);
        let line =
            "%4: f32[2, 8] = generate uniform(0, 1) key 7 salt %2 from [0, 0] + %3*8 of [4, 8]";
        assert!(text.contains(line), "{text}");
    }
}
