//! In which order the dims of a value lie in memory.
//!
//! A product that is repeated for each head of each sequence wants these dims outermost in its
//! factors and its result: then each repetition is a product of dense matrices, and what lies between
//! such products can be done tile by tile (see [`tile`](super::tile)). So the first product that meets
//! a value says how it lies. Elementwise steps pass the wish on to what they read, and what they make
//! lies as what they read does.
//!
//! Only values that nothing but products, maps, reductions and copies meet have a choice: these read
//! and write in any order. All else is in declared order. What one loop stacks and others slice lies as the body of
//! the first wishes, if nothing else meets it there and here: so a gradient's loop finds it as the body left it.

use super::uses::Uses;
use crate::program::forms::Loop;
use crate::program::{Block, Dims, Form, Operand, Step, Value, ValueId};

pub(super) fn run(block: &mut Block) {
    lay(block, &[]);
    for position in 0..block.steps.len() {
        let links = links(block, position);
        if links.iter().all(Option::is_none) {
            continue;
        }
        let Step { form: Form::Loop(form), outs, .. } = &mut block.steps[position] else {
            continue;
        };
        let open: Vec<bool> = links.iter().map(Option::is_some).collect();
        lay(&mut form.body, &open);
        let left: Vec<Value> =
            form.body.results.iter().map(|&id| form.body.value(id).clone()).collect();
        let (outs, count) = (outs.clone(), form.count);
        for (i, readers) in links.into_iter().enumerate() {
            for (reader, param) in readers.into_iter().flatten() {
                if let Form::Loop(form) = &mut block.steps[reader].form {
                    form.body.values[param.index()].order = left[i].order.clone();
                }
                block.values[outs[i].index()] = left[i].stacked(count);
            }
        }
    }
}

/// Per result of the loop at a position, who reads it as slices, and by which parameters, if it is stacked, nobody
/// else reads it and these parameters may lie in any order.
fn links(block: &Block, position: usize) -> Vec<Option<Vec<(usize, ValueId)>>> {
    let step = &block.steps[position];
    let Form::Loop(form) = &step.form else { return Vec::new() };
    let uses = Uses::new(block);
    let readers = |i: usize| {
        let out = step.outs[i];
        let untiled =
            block.value(out).extents.len() > form.body.value(form.body.results[i]).extents.len();
        let mut found = Vec::new();
        for &user in &uses.users[out.index()] {
            let Step { form: Form::Loop(form), inputs, .. } = &block.steps[user] else {
                return None;
            };
            for (at, _) in inputs.iter().enumerate().filter(|(_, input)| input.value == out) {
                let param = form.slices().contains(&at).then(|| form.body.params[at]);
                found.push((user, param.filter(|param| meets_any(form, *param))?));
            }
        }
        let read = untiled && !found.is_empty() && !uses.fetched[out.index()];
        read.then_some(found)
    };
    let stacks = form.stacks();
    let results = 0..form.body.results.len();
    results.map(|i| if stacks.contains(&i) { readers(i) } else { None }).collect()
}

/// Whether a parameter of a loop's body may lie in any order, and be in another in the loop's inputs.
fn meets_any(form: &Loop, param: ValueId) -> bool {
    let mut users = form.body.steps.iter().filter(|step| step.has_input(param));
    users.all(|step| is_any(&step.form)) && !form.body.results.contains(&param)
}

/// Whether steps of a form read and write in any order.
fn is_any(form: &Form) -> bool {
    matches!(form, Form::Map(_) | Form::Reduce(_) | Form::Contract(_) | Form::Move(_))
}

/// Chooses how values lie. `open`: which of the results may lie in any order.
fn lay(block: &mut Block, open: &[bool]) {
    let free = free(block, open);
    let mut wishes: Vec<Option<Dims>> = vec![None; block.values.len()];
    let wish = |wishes: &mut Vec<Option<Dims>>, value: ValueId, order: Dims| {
        let wished = &mut wishes[value.index()];
        if free[value.index()] && wished.is_none() {
            *wished = Some(order);
        }
    };
    for step in &block.steps {
        let (Form::Contract(_), [lhs, rhs], &[out]) =
            (&step.form, &step.inputs[..], &step.outs[..])
        else {
            continue;
        };
        let labels: Dims = (0..block.value(out).extents.len() as u8).collect();
        let is_met_by_both = |label: &u8| lhs.dims.contains(label) && rhs.dims.contains(label);
        let repeated: Dims = labels.iter().copied().filter(is_met_by_both).collect();
        // Of factors with the same labels, no matrix is read: they are folded as they lie.
        let is_product = lhs.dims.iter().chain(&rhs.dims).any(|label| !is_met_by_both(label));
        if repeated.is_empty() || !is_product {
            continue;
        }
        for (value, dims) in [(lhs.value, &lhs.dims), (rhs.value, &rhs.dims), (out, &labels)] {
            wish(&mut wishes, value, outermost(dims, &repeated));
        }
    }
    for step in block.steps.iter().rev() {
        let (Form::Map(_) | Form::Move(_)) = &step.form else { continue };
        let Some(labels) = step.outs.iter().find_map(|out| wishes[out.index()].clone()) else {
            continue;
        };
        let inputs = step.inputs.iter();
        let inputs = inputs.map(|input| (input.value, outermost(&input.dims, &labels)));
        let outs = step.outs.iter().map(|&out| (out, labels.clone()));
        inputs.chain(outs).for_each(|(value, order)| wish(&mut wishes, value, order));
    }
    for position in 0..block.steps.len() {
        let step = &block.steps[position];
        let wished = step.outs.iter().find_map(|out| wishes[out.index()].clone());
        if let Some(order) = wished.or_else(|| followed(block, step)) {
            for out in step.outs.iter().filter(|out| free[out.index()]) {
                block.values[out.index()].order = order.clone();
            }
        }
    }
}

/// Per value, whether it may lie in any order.
fn free(block: &Block, open: &[bool]) -> Vec<bool> {
    let uses = Uses::new(block);
    let is_any = |position: &usize| is_any(&block.steps[*position].form);
    let mut bound = vec![false; block.values.len()];
    for (i, result) in block.results.iter().enumerate() {
        bound[result.index()] |= !open.get(i).is_some_and(|open| *open);
    }
    let is_free = |value: usize| {
        let made = uses.maker[value].is_some_and(|maker| {
            is_any(&maker) || matches!(block.steps[maker].form, Form::Generate(_))
        });
        made && !bound[value] && uses.users[value].iter().all(is_any)
    };
    let mut free: Vec<bool> = (0..block.values.len()).map(is_free).collect();
    // The outs of a step lie alike.
    for step in &block.steps {
        let all = step.outs.iter().all(|out| free[out.index()]);
        step.outs.iter().for_each(|out| free[out.index()] = all);
    }
    free
}

/// The order of a value with dims of these labels that has some of them outermost.
fn outermost(dims: &[u8], first: &[u8]) -> Dims {
    let mut order: Dims = (0..dims.len() as u8).collect();
    let rank = |dim: &u8| first.iter().position(|label| *label == dims[usize::from(*dim)]);
    order.sort_by_key(|dim| rank(dim).unwrap_or(first.len()));
    order
}

/// The order in which the outs of a step lie as what it reads does, where that is not as declared.
fn followed(block: &Block, step: &Step) -> Option<Dims> {
    let out = step.outs.first().copied()?;
    let rank = block.value(out).extents.len();
    let labels = |operand: &Operand| -> Dims {
        let value = block.value(operand.value);
        let labels = value.order.iter().map(|&dim| operand.dims[usize::from(dim)]);
        labels.filter(|&label| usize::from(label) < rank).collect()
    };
    let turned = step.inputs.iter().filter(|input| !block.value(input.value).in_order());
    match step.form {
        Form::Map(_) | Form::Reduce(_) => turned.map(labels).find(|labels| labels.len() == rank),
        _ => None,
    }
}
