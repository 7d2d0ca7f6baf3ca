//! Elements elsewhere, again or together: shapes, scatters, searches and scans in random graphs.

use crate::recipe::{Draw, SMALL, one};
use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;
use mesh_ops::{
    AssociativeScan, Padding, Scatter, Side, associative_scan_with, einsum_filled_in_blocks,
    linear_recurrence, scatter, searchsorted,
};

/// The same elements in other shapes.
pub fn shapes<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let (a, along, b) = (d.a, d.dim()?, usize::from(d.pick.b));
    let shape = a.shape();
    let times = |times: usize| shape.size() * times <= d.sizes.most;
    let other = shape.iter().find(|other| *other != along);
    let k = (b / 16) as i32 % 3 - 1;
    match b % 10 {
        0 if times(2) => d.resized(mesh_ops::tile(a, along, 2), along).and_then(one),
        1 if times(2) => d.resized(mesh_ops::repeat(a, along, 2), along).and_then(one),
        2 if times(2) => {
            let ways = [Padding::Reflect, Padding::Symmetric, Padding::Edge, Padding::Wrap];
            let padded = mesh_ops::pad_with(a, along, 1, along.size - 1, ways[b / 16 % 4]);
            d.resized(padded, along).and_then(one)
        }
        3 => one(mesh_ops::roll(a, along, i64::from(k) * 3)),
        4 => one(mesh_ops::flip(a, d.some_dims())),
        5 => one(mesh_ops::tril(a, along, other?, k)),
        6 => one(mesh_ops::triu(a, along, other?, k)),
        7 => d.resized(mesh_ops::diagonal(a, along, other?, 0), along).and_then(one),
        8 => {
            let order = d.choice(a).argsort(along, mesh_ops::Order::Ascending);
            one(mesh_ops::take_along(a, order, along))
        }
        9 if along.size.is_multiple_of(2) => {
            let (halved, doubled) =
                (along.resized(along.size / 2), other?.resized(other?.size * 2));
            let deep = mesh_ops::space_to_depth(a, &[along], 2, other?);
            one(mesh_ops::depth_to_space(deep + deep, &[halved], 2, doubled))
        }
        _ => None,
    }
}

/// Elements that meet others at positions that are computed.
pub fn scattered<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let (along, b) = (d.dim()?, usize::from(d.pick.b));
    let shape = d.a.shape();
    if shape.contains("put".into()) {
        return None;
    }
    let put = along.renamed("put");
    let updates = mesh_ops::rename(d.choice(d.a), along, "put");
    let own = d.b.shape();
    let away: Vec<_> =
        own.iter().filter(|x| x.name == along.name || !shape.contains(x.name)).collect();
    let at = d.b.max(away).cast(I32) + mesh_ops::range(d.graph, put, I32);
    let x = d.choice(d.a);
    match b % 6 {
        0 => one(scatter(x, updates, at, along, Scatter::Set)),
        1 => one(scatter(d.a, updates, at, along, Scatter::Add)),
        2 => one(scatter(x, updates, at, along, Scatter::Max)),
        3 => one(scatter(x, updates, at, along, Scatter::Min)),
        // Of signs, whose products stay small.
        4 => one(scatter(x, updates.sign(), at, along, Scatter::Mul)),
        _ => {
            let segments = dim(&format!("{}_segments", along.name), 2);
            if shape.contains(segments.name) {
                return None;
            }
            let most = mesh_ops::segment_max(updates, at, put, segments);
            let sums = mesh_ops::segment_sum(updates, at, put, segments);
            // What nothing comes to is no whole number.
            one(maximum(most, sums - 9.0))
        }
    }
}

/// A row in the place of another, and products with the positions before it.
pub fn kept<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let (along, other) = (d.dim()?, d.alike()?);
    let row = d.choice(d.a).max([along]);
    let own = d.b.shape();
    let away: Vec<_> = own.iter().filter(|x| !row.shape().contains(x.name)).collect();
    let at = d.b.max(away).cast(I32);
    let kept = mesh_ops::update_at(d.a, along, at, row);
    if d.heads() {
        return one(kept);
    }
    let mut output = d.some_of(&d.all());
    // Two of the factors and the product have the dim that is filled.
    if !own.contains(along.name) && !output.contains(&along) {
        output.push(along);
    }
    one(einsum_filled_in_blocks(kept, other, output, along, at, 2))
}

/// Places of some elements among others.
pub fn searched<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let along = d.dim()?;
    let x = d.indices(along).cast(d.a.dtype());
    let sorted = d.choice(d.a).sort(along, mesh_ops::Order::Ascending);
    // What it means is told element by element, which takes long for large tensors.
    let fits = x.shape().union(&sorted.shape()).ok()?.size() <= SMALL.most;
    let side = if d.heads() { Side::Left } else { Side::Right };
    fits.then(|| vec![searchsorted(sorted, x, along, side)])
}

/// Scans of associative functions, whole or in blocks, from either end.
pub fn scanned<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let along = d.dim()?;
    let blocks = Some(2).filter(|_| along.size.is_multiple_of(2) && d.pick.b.is_multiple_of(3));
    let how = AssociativeScan { reverse: d.heads(), blocks };
    if d.pick.b.is_multiple_of(2) {
        return one(linear_recurrence(sign(d.choice(d.a)), d.a, along, how));
    }
    let made = associative_scan_with(&[d.a, d.choice(d.a)], along, how, |before, x| {
        vec![before[0] + x[0], maximum(before[1], x[1])]
    });
    Some(made)
}
