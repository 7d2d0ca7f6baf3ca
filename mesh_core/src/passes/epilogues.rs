//! A map behind a product becomes the product's epilogue: it is done for every piece of the product
//! while that is in cache (a bias, an activation, a residual, a step of gradient descent), and a product
//! that nobody else reads is never in memory.
//!
//! Smaller products are in a cache when the map comes. Numbers stay as they are, to the bit.

use super::uses::Uses;
use super::{Machine, compact};
use crate::names::DType;
use crate::program::forms::{Contract, Map};
use crate::program::{Block, Body, Form, Instr, Operand, Origin, Reg, Step, Value, ValueId};

/// Most depth of a product: beside more, what is saved is lost in the noise.
const DEPTH: usize = 1024;
/// Most bytes of the map's other inputs, in those of the product: beside more (Adam's moments), what is
/// saved is less than smaller blocks cost.
const OTHERS: usize = 2;

pub(super) fn run(block: &mut Block, machine: &Machine) {
    let uses = Uses::new(block);
    let mut at = 0;
    let mut gone = vec![false; block.steps.len()];
    while at + 1 < block.steps.len() {
        let [product, map] = [&block.steps[at], &block.steps[at + 1]];
        if let Some(joined) = joined(block, &uses, [product, map], machine) {
            block.steps[at + 1] = joined;
            gone[at] = true;
            at += 1;
        }
        at += 1;
    }
    let mut gone = gone.into_iter();
    block.steps.retain(|_| gone.next() != Some(true));
    compact(block);
}

/// A product and the map behind it as one step, if that pays.
fn joined(
    block: &Block,
    uses: &Uses,
    [product, map]: [&Step; 2],
    machine: &Machine,
) -> Option<Step> {
    let (Form::Contract(Contract { epilogue: None }), Form::Map(Map { body })) =
        (&product.form, &map.form)
    else {
        return None;
    };
    let made = product.outs[0];
    let value = block.value(made);
    let floats = matches!(value.dtype, DType::F32 | DType::F64);
    let pays = floats && value.bytes() >= machine.product_bytes && depth(block, product) <= DEPTH;
    if !pays || product.owners != map.owners || !suits(block, made, map) {
        return None;
    }
    let kept = uses.fetched[made.index()] || uses.users[made.index()].len() > 1;
    let (body, others) = epilogue(body, &map.inputs, made, kept);
    let inputs = product.inputs.iter().cloned().chain(others);
    let outs: Vec<_> = map.outs.iter().copied().chain(kept.then_some(made)).collect();
    let step = product.instead(Contract { epilogue: Some(body) }, inputs, &outs);
    Some(Step { origin: Origin::merge(&product.origin, &map.origin), ..step })
}

/// Whether a map reads a value element by element, and not too much else, and makes what lies like it.
fn suits(block: &Block, made: ValueId, map: &Step) -> bool {
    let read = block.value(made);
    let (own, others): (Vec<_>, Vec<_>) = map.inputs.iter().partition(|i| i.value == made);
    let others: usize = others.iter().map(|input| block.value(input.value).bytes()).sum();
    let alike = |out: &Value| (&out.extents, &out.order) == (&read.extents, &read.order);
    !own.is_empty()
        && own.iter().all(|input| input.is_whole())
        && others <= OTHERS * read.bytes()
        && map.outs.iter().all(|&out| alike(block.value(out)))
}

/// Number of products in a sum.
fn depth(block: &Block, product: &Step) -> usize {
    let (rank, lhs) = (block.value(product.outs[0]).extents.len(), &product.inputs[0]);
    let dims = lhs.dims.iter().zip(&block.value(lhs.value).extents);
    dims.filter(|(label, _)| usize::from(**label) >= rank).map(|(_, extent)| extent).product()
}

/// A map's body over the product's element and the map's other inputs; if the product is kept, the last
/// result is the product itself.
fn epilogue(body: &Body, inputs: &[Operand], made: ValueId, kept: bool) -> (Body, Vec<Operand>) {
    let mut others: Vec<Operand> = Vec::new();
    let mut place = |input: &Operand| {
        if input.value == made {
            return 0;
        }
        others.push(input.clone());
        others.len() as u8
    };
    let places: Vec<u8> = inputs.iter().map(&mut place).collect();
    let mut body = body.clone();
    for (instr, _) in &mut body.code {
        if let Instr::Input(input) = instr {
            *input = places[usize::from(*input)];
        }
    }
    let own = body.code.iter().position(|(instr, _)| *instr == Instr::Input(0));
    body.results.extend(own.filter(|_| kept).map(|own| Reg(own as u16)));
    (body, others)
}
