//! What an elementwise operation folds onto another value is given to the scatter that folds it.

use super::dead;
use super::uses::Uses;
use crate::names::ReduceKind;
use crate::program::forms::Map;
use crate::program::{Block, Form, Instr, Operand, Origin, Prim, Reg, Step, ValueId};

pub(super) fn run(block: &mut Block) {
    let uses = Uses::new(block);
    let mut found = false;
    for position in 0..block.steps.len() {
        if let Some((scatter, onto)) = fold(block, &uses, position) {
            let made = &block.steps[scatter];
            let mut inputs = made.inputs.clone();
            inputs.push(onto);
            let origin = Origin::merge(&made.origin, &block.steps[position].origin);
            let form = made.form.clone();
            let step = &mut block.steps[position];
            *step = Step { form, inputs, origin, ..step.clone() };
            found = true;
        }
    }
    if found {
        dead::run(block);
    }
}

/// The scatter whose result the step at a position alone reads, to fold it onto another value, and that value.
fn fold(block: &Block, uses: &Uses, position: usize) -> Option<(usize, Operand)> {
    let step = &block.steps[position];
    let Form::Map(map) = &step.form else { return None };
    let (kind, [one, other]) = folds(map)?;
    let operand = |reg: Reg| match map.body.code.get(reg.0 as usize)? {
        (Instr::Input(i), _) => step.inputs.get(usize::from(*i)),
        _ => None,
    };
    let out = block.value(step.outs[0]);
    let is_whole = |of: &Operand| (0..out.extents.len() as u8).eq(of.dims.iter().copied());
    let maker = |of: &Operand| {
        let maker = uses.maker[of.value.index()]?;
        let made = &block.steps[maker];
        let scatters = matches!(&made.form, Form::Scatter(form) if form.kind == kind);
        let alone = uses.has_one_reader(of.value) && made.inputs.len() == 2;
        (scatters && alone && made.owners == step.owners).then_some(maker)
    };
    let (one, other) = (operand(one)?, operand(other)?);
    let pairs = [(one, other), (other, one)];
    pairs.into_iter().find_map(|(folded, onto): (&Operand, &Operand)| {
        let legal = folded.value != onto.value && is_whole(folded) && is_whole(onto);
        let like = |id: ValueId| block.value(id) == out;
        (legal && like(folded.value) && like(onto.value)).then_some(())?;
        Some((maker(folded)?, onto.clone()))
    })
}

/// How a map of one operation on two inputs folds them.
pub(super) fn folds(map: &Map) -> Option<(ReduceKind, [Reg; 2])> {
    let [.., (Instr::Apply(prim, [one, other, _]), _)] = map.body.code[..] else { return None };
    let result = Reg(map.body.code.len() as u16 - 1);
    if map.body.code.len() != 3 || map.body.results[..] != [result] || !map.reads_all() {
        return None;
    }
    let kind = match prim {
        Prim::Add => ReduceKind::Sum,
        Prim::Mul => ReduceKind::Prod,
        Prim::Max => ReduceKind::Max,
        Prim::Min => ReduceKind::Min,
        _ => return None,
    };
    Some((kind, [one, other]))
}
