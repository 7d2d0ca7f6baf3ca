//! Which operands of a product are packed first, and how.

use super::loops::{Groups, LHS, Loops, OUT, Prepare, RHS, Side};
use crate::exec::cpu::product::aligned;
use crate::exec::cpu::strided::{Labels, Nest};
use crate::names::DType;

/// Time per element that is packed before or unpacked after, in multiplications.
const PACK: f64 = 40.0;

/// Which operands to pack, and all strides after that.
pub(super) fn cheapest(
    labels: &Labels,
    groups: &Groups,
    sides: &[Side; 3],
) -> (Vec<usize>, Vec<Vec<isize>>) {
    let is_free = |k: &usize| matches!(sides[*k].prepare, Prepare::Nothing);
    let mut best = (f64::INFINITY, Vec::new(), labels.strides.clone());
    // Of equals the first.
    let plans: [&[usize]; 8] =
        [&[], &[LHS], &[RHS], &[LHS, RHS], &[OUT], &[LHS, OUT], &[RHS, OUT], &[LHS, RHS, OUT]];
    for plan in plans {
        let plan: Vec<_> = plan.iter().copied().filter(is_free).collect();
        let strides = packed(labels, groups, &plan);
        let trial = Labels {
            extents: labels.extents.clone(),
            strides: strides.clone(),
            has: labels.has.clone(),
        };
        let len = |&k: &usize| -> f64 {
            let of = labels.select(|l| labels.has[k][l]);
            of.iter().map(|&l| labels.extents[l] as f64).product()
        };
        let copied: f64 = plan.iter().map(len).sum();
        let cost = Loops::new(&trial, groups).cost() + PACK * copied;
        if cost < best.0 {
            best = (cost, plan, strides);
        }
    }
    (best.1, best.2)
}

/// Strides of labels packed in the given order, 0 for others.
pub(super) fn pack_strides(extents: &[usize], order: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; extents.len()];
    let mut step = 1;
    for &l in order.iter().rev() {
        strides[l] = step as isize;
        step *= extents[l];
    }
    strides
}

/// Strides of all operands once those in `plan` are packed as the others would have them.
fn packed(labels: &Labels, groups: &Groups, plan: &[usize]) -> Vec<Vec<isize>> {
    let by = |of: &[usize], prefer: usize, otherwise: usize| {
        let k = if plan.contains(&prefer) { otherwise } else { prefer };
        let mut order = of.to_vec();
        order.sort_by_key(|&l| std::cmp::Reverse(labels.strides[k][l]));
        order
    };
    let rows = by(&groups.rows, OUT, LHS);
    let columns = by(&groups.columns, OUT, RHS);
    let depth = match plan.contains(&LHS) && plan.contains(&RHS) {
        true => by(&groups.depth, OUT, LHS),
        false => by(&groups.depth, LHS, RHS),
    };
    let mut strides = labels.strides.clone();
    for &k in plan {
        let (outer, inner) = match k {
            LHS => (&rows, &depth),
            RHS => (&depth, &columns),
            _ => (&rows, &columns),
        };
        let order: Vec<_> = groups.batch.iter().chain(outer).chain(inner).copied().collect();
        strides[k] = pack_strides(&labels.extents, &order);
    }
    strides
}

/// The copy between an operand and its packed form.
pub(super) fn pack(labels: &Labels, packed: &[isize], k: usize, dtype: DType) -> Side {
    let of = labels.select(|l| labels.has[k][l]);
    let pick = |strides: &[isize]| -> Vec<isize> { of.iter().map(|&l| strides[l]).collect() };
    let extents: Vec<_> = of.iter().map(|&l| labels.extents[l]).collect();
    let (memory, scratch) = (pick(&labels.strides[k]), pick(packed));
    let mut nest = match k {
        OUT => Nest::new(&extents, &[&scratch, &memory]),
        _ => Nest::new(&extents, &[&memory, &scratch]),
    };
    nest.sort_by(1);
    let bytes = aligned(nest.len(), dtype.size());
    Side { prepare: Prepare::Pack(nest.collapse()), bytes }
}
