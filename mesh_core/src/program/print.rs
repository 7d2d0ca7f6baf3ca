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

use super::{
    FoldOrder, Generator, Node, Offset, Operand, Origin, Piece, Program, Rounds, Slot, Step,
    ValueId,
};
use crate::names::Mesh;
use std::fmt;

/// The program as text.
pub fn print(program: &Program, mesh: &Mesh) -> String {
    program.display(mesh).to_string()
}

impl Program {
    /// The program as text; the mesh names its axes.
    pub fn display<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        Printer { program: self, mesh, awaits: self.awaits() }
    }

    /// What messages call a step: `step 12 contract (einsum_3 at src/main.rs:7)`.
    pub(crate) fn caption(&self, index: usize) -> String {
        let Some(node) = self.steps.get(index) else { return format!("step {index}") };
        let form = node.step.form();
        match self.origins.get(node.origin).map(ToString::to_string) {
            Some(origin) if !origin.is_empty() => format!("step {index} {form} ({origin})"),
            _ => format!("step {index} {form}"),
        }
    }

    /// One step as text, without its origin.
    pub fn display_step<'a>(&'a self, step: &'a Step, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        let printer = Printer { program: self, mesh, awaits: self.awaits() };
        fmt::from_fn(move |f| f.write_str(&printer.step(step)))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.name.is_empty() { &self.op } else { &self.name })?;
        if !self.at.is_empty() {
            write!(f, " at {}", self.at)?;
        }
        Ok(())
    }
}

/// Column where origins begin.
const ORIGIN_COLUMN: usize = 72;

struct Printer<'a> {
    program: &'a Program,
    mesh: &'a Mesh,
    awaits: Vec<Option<usize>>,
}

impl fmt::Display for Printer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { name, steps, feeds, fetches, .. } = self.program;
        match self.mesh.processors() {
            1 => writeln!(f, "program {name} on one processor")?,
            _ => writeln!(f, "program {name} on {}", self.mesh)?,
        }
        if !feeds.is_empty() {
            writeln!(f, "  feeds")?;
        }
        for slot in feeds {
            writeln!(f, "    {:?} = {}: {}", slot.value, slot.name, self.slot(slot))?;
        }
        if !steps.is_empty() {
            writeln!(f, "  steps")?;
        }
        self.steps(f, "    ")?;
        if !fetches.is_empty() {
            writeln!(f, "  fetches")?;
        }
        for slot in fetches {
            writeln!(f, "    {} = {:?}: {}", slot.name, slot.value, self.slot(slot))?;
        }
        Ok(())
    }
}

impl Printer<'_> {
    fn steps(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        for node in &self.program.steps {
            let origin = self.program.origin(node).to_string();
            let line = format!("{indent}{}{}", self.step(&node.step), self.owners(node));
            match origin.as_str() {
                "" => writeln!(f, "{line}")?,
                origin => writeln!(f, "{line:<ORIGIN_COLUMN$}  {origin}")?,
            }
            if let Step::Loop(rounds) = &node.step {
                self.body(f, rounds, indent)?;
            }
        }
        Ok(())
    }

    /// ` on data=0`: who runs a step.
    fn owners(&self, node: &Node) -> String {
        let owner = |&(axis, coordinate)| format!("{}={coordinate}", self.mesh.name(axis));
        let owners = join(node.owners.iter().map(owner));
        if owners.is_empty() { owners } else { format!(" on {owners}") }
    }

    /// The body of a loop, whose values are numbered anew.
    fn body(&self, f: &mut fmt::Formatter<'_>, rounds: &Rounds, indent: &str) -> fmt::Result {
        let Rounds { body, carried, sliced, captured, .. } = rounds;
        let inner = Printer { program: body, mesh: self.mesh, awaits: body.awaits() };
        let given = carried.iter().map(name);
        let given = given.chain(sliced.iter().map(|id| format!("slice of {id:?}")));
        let given = given.chain(captured.iter().map(name)).chain(["position".to_owned()]);
        for (slot, from) in body.feeds.iter().zip(given) {
            let value = body.value(slot.value);
            writeln!(f, "{indent}  {:?} = {from}: {value}", slot.value)?;
        }
        inner.steps(f, &format!("{indent}  "))?;
        let next = body.fetches.iter().take(carried.len()).map(|slot| name(&slot.value));
        let stacked = body.fetches.iter().skip(carried.len()).take(rounds.stacked());
        let stacked = stacked.map(|slot| format!("stack {:?}", slot.value));
        let last = body.fetches.last().filter(|_| rounds.condition.is_some());
        let last = last.map(|slot| format!("while {:?}", slot.value));
        writeln!(f, "{indent}  next {}", join(next.chain(stacked).chain(last)))
    }

    fn slot(&self, slot: &Slot) -> String {
        let text = format!("{} of {:?}", self.program.value(slot.value), slot.shape);
        let axes = slot.split.iter().map(|axes| match axes.is_empty() {
            true => "-".to_owned(),
            false => self.mesh.list(axes),
        });
        if slot.split.is_empty() { text } else { format!("{text} @ {}", join(axes)) }
    }

    fn step(&self, step: &Step) -> String {
        let (form, doing) = (step.form(), self.doing(step));
        if let Step::Write { variable, .. } = step {
            return format!("{form} {variable:?} = {doing}");
        }
        if let Step::Await { .. } = step {
            return format!("{form} {doing}");
        }
        let outs = step.outs();
        let begins = |out: &ValueId| step.axes().is_some() && self.awaits[out.index()].is_some();
        let form = if outs.first().is_some_and(begins) {
            format!("begin {form}")
        } else {
            form.to_owned()
        };
        let typed = outs.iter().map(|&out| format!("{out:?}: {}", self.program.value(out)));
        format!("{} = {form} {doing}", join(typed))
    }

    fn doing(&self, step: &Step) -> String {
        let rank = step.outs().first().map_or(0, |&out| self.program.value(out).extents.len());
        let operand = |operand: &Operand| labelled(operand, rank);
        let over = || step.axes().map(|axes| self.mesh.list(axes)).unwrap_or_default();
        match step {
            Step::Map { body, inputs, .. } if inputs.is_empty() => body.to_string(),
            Step::Map { body, inputs, .. } => {
                format!("{body} of {}", join(inputs.iter().map(operand)))
            }
            Step::Reduce { kind, input, .. } => format!("{kind} of {}", operand(input)),
            Step::Contract { lhs, rhs, .. } => format!("{} * {}", operand(lhs), operand(rhs)),
            Step::Convolve { lhs, rhs, windows, .. } => {
                let mut text = format!("{} * {}", operand(lhs), operand(rhs));
                for w in windows {
                    let [input, kernel, output] =
                        [w.input, w.kernel, w.output].map(|label| letter(label, rank));
                    let tie = format!(
                        " with {input} = {}{output} + {}{kernel}",
                        times(w.stride),
                        times(w.dilation)
                    );
                    text += &tie;
                    if w.pad > 0 {
                        text += &format!(" - {}", w.pad);
                    }
                }
                text
            }
            Step::Move { pieces, fill, out } => {
                let whole = self.program.value(*out).extents.as_slice();
                let covers = |p: &Piece| p.at.iter().all(|&at| at == 0) && *p.extents == *whole;
                let pasted = join(pieces.iter().map(|p| self.piece(p, rank, covers(p))));
                if pieces.iter().any(covers) { pasted } else { format!("{pasted} onto {fill:?}") }
            }
            Step::Reshape { input, .. } | Step::Write { input, .. } => format!("{input:?}"),
            Step::Read { variable, .. } => format!("{variable:?}"),
            Step::Generate { generator, salts, begin, global, .. } => {
                let text = generated(generator) + &salts.iter().map(salt).collect::<String>();
                if let Generator::Fill(_) = generator {
                    return text;
                }
                let global = global.as_slice();
                format!("{text} from {} of {global:?}", self.offsets(begin))
            }
            Step::Gather { input, indices, dim, begin, .. } => {
                format!("{} at {}", operand(input), self.lookup(indices, *dim, begin, rank))
            }
            Step::Scatter { updates, indices, dim, begin, .. } => {
                format!("{} to {}", operand(updates), self.lookup(indices, *dim, begin, rank))
            }
            Step::Sort { inputs, dim, descending, .. } => {
                let order = if *descending { "descending" } else { "ascending" };
                let (dim, inputs) = (letter(*dim, rank), join(inputs.iter().map(operand)));
                format!("{order} along {dim} of {inputs}")
            }
            Step::Scan { kind, input, dim, exclusive, reverse, .. } => {
                let before = if *exclusive { " exclusive" } else { "" };
                let order = if *reverse { " reverse" } else { "" };
                format!("{kind}{before}{order} dim {dim} of {input:?}")
            }
            Step::Call { kernel, inputs, .. } => {
                format!("{} ({kernel:?}) of {}", kernel.name(), join(inputs.iter().map(name)))
            }
            Step::AllReduce { kind, order, inputs, .. } => {
                let ring = if *order == FoldOrder::Ring { " in a ring" } else { "" };
                format!("{kind} over {}{ring} of {}", over(), join(inputs.iter().map(name)))
            }
            Step::ReduceTo { kind, root, input, .. } => {
                format!("{kind} over {} to {root} of {input:?}", over())
            }
            Step::Broadcast { root, input, .. } => {
                format!("over {} from {root} of {input:?}", over())
            }
            Step::AllGather { dim, input, .. } => {
                format!("dim {dim} over {} of {input:?}", over())
            }
            Step::ReduceScatter { kind, dim, input, .. } => {
                format!("{kind} dim {dim} over {} of {input:?}", over())
            }
            Step::AllToAll { split, concat, input, .. } => {
                format!("dim {split} to dim {concat} over {} of {input:?}", over())
            }
            Step::Barrier { inputs: values, .. } | Step::Await { begun: values, .. } => {
                join(values.iter().map(name))
            }
            Step::Loop(rounds) => {
                let order = if rounds.reverse { ", last first" } else { "" };
                match rounds.condition {
                    Some(condition) => format!("while {condition:?}"),
                    None => format!("{} rounds{order}", rounds.count),
                }
            }
            Step::Permute { shift, wrap, input, .. } => {
                let ends = if *wrap { "wrapping" } else { "zeros in" };
                format!("{shift:+} {ends} over {} of {input:?}", over())
            }
        }
    }

    fn piece(&self, piece: &Piece, rank: usize, covers: bool) -> String {
        let mut text = labelled(&piece.input, rank);
        if piece.begin.iter().any(|offset| *offset != Offset::default()) {
            text += &format!(" from {}", self.offsets(&piece.begin));
        }
        if !covers {
            let (at, extents) = (piece.at.as_slice(), piece.extents.as_slice());
            text += &format!(" to {at:?} size {extents:?}");
        }
        text
    }

    /// `k = %4[a] - rows*4`: which position along a dim is meant.
    fn lookup(&self, indices: &Operand, dim: u8, begin: &Offset, rank: usize) -> String {
        let text = format!("{} = {}", letter(dim, rank), labelled(indices, rank));
        if *begin == Offset::default() { text } else { format!("{text} - {}", self.offset(begin)) }
    }

    fn offsets(&self, offsets: &[Offset]) -> String {
        format!("[{}]", join(offsets.iter().map(|offset| self.offset(offset))))
    }

    fn offset(&self, offset: &Offset) -> String {
        let group = self.mesh.list(&offset.axes);
        let moving = match offset.axes.len() {
            0 => return offset.base.to_string(),
            1 => format!("{group}*{}", offset.scale),
            _ => format!("({group})*{}", offset.scale),
        };
        if offset.base == 0 { moving } else { format!("{} + {moving}", offset.base) }
    }
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn name(id: &ValueId) -> String {
    format!("{id:?}")
}

fn salt(id: &ValueId) -> String {
    format!(" salt {id:?}")
}

fn times(factor: usize) -> String {
    if factor == 1 { String::new() } else { format!("{factor}*") }
}

fn letter(label: u8, rank: usize) -> String {
    let label = usize::from(label);
    let place = match label.checked_sub(rank) {
        None => label,
        Some(folded) => folded + rank.max(usize::from(b'k' - b'a')),
    };
    match u8::try_from(place) {
        Ok(place) if place < 26 => char::from(b'a' + place).to_string(),
        _ => format!("l{label}"),
    }
}

fn labelled(operand: &Operand, rank: usize) -> String {
    let letters = join(operand.dims.iter().map(|&label| letter(label, rank)));
    format!("{:?}[{letters}]", operand.value)
}

fn generated(generator: &Generator) -> String {
    match generator {
        Generator::Fill(scalar) => format!("fill {scalar:?}"),
        Generator::Iota(dim) => format!("iota dim {dim}"),
        Generator::Table(_) => "table".to_owned(),
        Generator::Uniform { key, low, high } => format!("uniform({low}, {high}) key {key:x}"),
        Generator::Normal { key, mean, stddev } => {
            format!("normal({mean}, {stddev}) key {key:x}")
        }
        Generator::TruncatedNormal { key, mean, stddev } => {
            format!("truncated_normal({mean}, {stddev}) key {key:x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::sketch::{built, every_form, looped, owned, square};

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
            %17: f32[2, 4] = scatter %16[k, b] to a = %15[k] - rows*4             op_1 at src/main.rs:7
            %18: f32[2, 4] = scan sum exclusive dim 0 of %17                      op_1 at src/main.rs:7
            %19: f32[1, 4], %20: i32[1, 4] = sort descending along a of %18[a, b], %15[a]  op_1 at src/main.rs:7
            %21: f32[4] = call total (Total { scale: 2 }) of %18                  op_1 at src/main.rs:7
            %22: f32[2, 4] = begin all_reduce sum over cols of %18                op_1 at src/main.rs:7
            %23: f32[2, 4] = scan sum dim 1 of %18                                op_1 at src/main.rs:7
            await %22                                                             op_1 at src/main.rs:7
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
            %4: f32[4], %5: f32[3, 4] = loop 3 rounds, last first
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
    fn labels_are_letters_while_there_are_letters() {
        let letters: Vec<_> = [0, 3, 4, 8, 19, 20].map(|label| letter(label, 4)).into();
        assert_eq!(letters, ["a", "d", "k", "o", "z", "l20"]);
        assert_eq!(letter(12, 12), "m");
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
}
