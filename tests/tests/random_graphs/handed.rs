//! Loops whose iterations pass on what they get: slices, captured and carried tensors, in any
//! order.

use crate::exact::ROUNDS_MOST;
use crate::recipe::Draw;
use mesh_ops::prelude::*;

/// Digits of the number that is left of a pick.
struct Digits(usize);

impl Digits {
    fn below(&mut self, count: usize) -> usize {
        let digit = self.0 % count;
        self.0 /= count;
        digit
    }
}

/// The same elements computed in another way: under another name, or after another op.
fn disguised<'g>(x: Tensor<'g>, way: usize) -> Tensor<'g> {
    let shape = x.shape();
    match (way, shape.iter().next()) {
        (1, _) => x.stop_gradient(),
        (2, Some(first)) => {
            let there = mesh_ops::rename(x, first, "elsewhere");
            mesh_ops::rename(there, first.renamed("elsewhere"), &first.name.to_string())
        }
        (3, Some(_)) => {
            let flat = [dim("all", shape.size())];
            mesh_ops::reshape(mesh_ops::reshape(x, flat), x.shape())
        }
        _ => x,
    }
}

/// Two carried tensors, two slices, two captured tensors, and results of them. Any two are carried
/// on and any two are stacked.
pub fn on<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let along = d.dim().filter(|d| d.size <= ROUNDS_MOST)?;
    let kept = d.a.shape().without(&[along.name]);
    let wide = d.fits(&kept.union(&d.b.shape()).ok()?);
    let away: Vec<_> = d.b.shape().iter().filter(|x| !kept.contains(x.name)).collect();
    let captured = wide.then(|| d.b.cast(d.a.dtype()).sum(away).broadcast(&kept))?;
    let carried = [d.a.sum([along]), d.a.pick(along, 0)];
    let own = captured + captured;
    let digits = usize::from(d.pick.a) << 16 | usize::from(d.pick.b) << 8 | usize::from(d.pick.op);
    // So that neighbouring numbers differ in every digit.
    let mut digits = Digits(digits.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (last, stacks) = d.graph.scan_lists(along, &carried, &[d.a, -d.a], |h, x| {
        let twice = captured + captured;
        let all = [h[0], h[1], x[0], x[1], captured, own, twice, h[0] + x[1], h[1] - captured];
        let mut any = || {
            let chosen = all[digits.below(all.len())];
            disguised(chosen, digits.below(6))
        };
        (vec![any(), any()], vec![any(), any()])
    });
    Some([last, stacks].concat())
}
