//! Pooling by a fold of each window's elements, and what its gradients' ops mean.

use super::op::Pooling;
use super::*;
use crate::testing::proof::*;

pub(crate) static PROOF: Proof = Proof {
    meanings: &[&Outputs::<Pooling>(|op, x, types| {
        let mut made = Dense::zeros(types[0].clone());
        if op.kind == PoolKind::Max {
            let least =
                if types[0].dtype == DType::I32 { f64::from(i32::MIN) } else { f64::NEG_INFINITY };
            made.data.fill(least);
        }
        let (own, other) = (At::all(&types[0].shape), other_side(op, &types[0].shape));
        for (at, out) in own.iter().zip(&mut made.data) {
            for from in At::all(&other) {
                let (seen, window) = if op.spreads { (at, &from) } else { (&from, at) };
                if !is_tied(op, &types[0].shape, seen, window) {
                    continue;
                }
                *out = match op.kind {
                    PoolKind::Max => greatest(&[*out, x[0].at(&from)]),
                    PoolKind::Sum => *out + x[0].at(&from),
                    PoolKind::Count => *out + f64::from(x[0].at(seen) == x[1].at(window)),
                    PoolKind::Ties if x[0].at(seen) == x[1].at(window) => *out + x[2].at(&from),
                    PoolKind::Ties => *out,
                };
            }
        }
        vec![made]
    })],
    cases: || {
        vec![
            max("max_pool", "n:2;h:12", || Pool::over([("h", 2)])),
            max("max", "n:2;h:8;w:4", square),
            max("max, overlapping, same", "h:12;c:2", overlapping),
            max("max, overlapping, valid", "h:14;c:2", || Pool::over([("h", 3)]).strides([1])),
            max("max, drifting", "h:10;c:2", drifting),
            avg("avg, drifting", "h:10;c:2", drifting),
            max("max, three dims", "d:6;h:4;w:3", || Pool::over([("d", 3), ("h", 2), ("w", 3)])),
            Case::new("max with ties", |_, x| max_pool(x[0], &Pool::over([("h", 4), ("w", 2)])))
                .computes(|x, ty| pooled(&Pool::over([("h", 4), ("w", 2)]), x[0], ty, greatest))
                .without_gradient()
                .input("x", "h:8;w:4", F32, Fill::Integers(0, 1))
                .meshes(LINES),
            Case::new("max: i32", |_, x| max_pool(x[0], &overlapping()))
                .computes(|x, ty| pooled(&overlapping(), x[0], ty, greatest))
                .without_gradient()
                .input("x", "h:12", I32, Fill::Integers(-9, -1))
                .meshes(LINES),
            avg("avg_pool", "n:2;h:12", overlapping),
            avg("avg", "n:2;h:8;w:4", square),
            avg("avg, overlapping, same", "h:12;c:2", overlapping),
            avg("avg, every position, same", "h:12", || overlapping().strides([1])),
            avg("avg, windows apart", "h:12", || Pool::over([("h", 2)]).strides([3])),
            avg("avg, two dims, same", "h:6;w:5", || square().padding(Padding::Same)),
        ]
    },
};

fn square() -> Pool {
    Pool::over([("h", 2), ("w", 2)])
}

fn overlapping() -> Pool {
    Pool::over([("h", 3)]).strides([2]).padding(Padding::Same)
}

/// Windows that move away from the image: 2 of 4 see more than 5 of 10 positions.
fn drifting() -> Pool {
    Pool::over([("h", 4)]).strides([3]).padding(Padding::Same)
}

fn max(name: &str, x: &str, pool: fn() -> Pool) -> Case {
    Case::new(name, move |_, x| max_pool(x[0], &pool()))
        .computes(move |x, ty| pooled(&pool(), x[0], ty, greatest))
        .input("x", x, F32, Fill::Distinct)
        .meshes(LINES)
}

fn avg(name: &str, x: &str, pool: fn() -> Pool) -> Case {
    Case::new(name, move |_, x| avg_pool(x[0], &pool()))
        .computes(move |x, ty| pooled(&pool(), x[0], ty, mean))
        .normal("x", x, F32)
        .meshes(LINES)
}

fn greatest(elements: &[f64]) -> f64 {
    elements.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(elements: &[f64]) -> f64 {
    elements.iter().sum::<f64>() / elements.len() as f64
}

/// What a fold makes of the elements under each window, those beyond the ends left out.
fn pooled(pool: &Pool, x: &Dense, ty: &TensorType, fold: fn(&[f64]) -> f64) -> Dense {
    let under = |from: &At, at: &At, i: usize| {
        let (dim, size) = (pool.windows[i].0, pool.windows[i].1);
        let step = pool.strides.get(i).copied().unwrap_or(size);
        let (n, count) = (extent(&x.ty.shape, dim), extent(&ty.shape, dim));
        let beyond = match pool.padding {
            Padding::Same => ((count - 1) * step + size).saturating_sub(n),
            Padding::Valid => 0,
        };
        let begin = at.along(dim.as_str()) * step;
        let position = from.along(dim.as_str()) + beyond / 2;
        (begin..begin + size).contains(&position)
    };
    let others = x.ty.shape.without(&pool.windows.iter().map(|w| w.0).collect::<Vec<_>>());
    let all = At::all(&x.ty.shape);
    Dense::each(ty, |at| {
        let same =
            |from: &At| others.names().all(|d| from.along(d.as_str()) == at.along(d.as_str()));
        let seen = |from: &&At| same(from) && (0..pool.windows.len()).all(|i| under(from, at, i));
        fold(&all.iter().filter(seen).map(|from| x.at(from)).collect::<Vec<_>>())
    })
}

/// The shape on the other side of the windows.
fn other_side(op: &Pooling, own: &Shape) -> Shape {
    let other = own.iter().map(|d| {
        let window = op.windows.iter().find(|window| window.dim == d.name);
        window.map_or(d, |w| d.resized(if op.spreads { w.count } else { w.seen }))
    });
    Shape::new(other).unwrap_or_default()
}

/// Whether a window sees a position and both agree in all other dims.
fn is_tied(op: &Pooling, shape: &Shape, seen: &At, window: &At) -> bool {
    shape.names().all(|dim| {
        let [seen, at] = [seen, window].map(|at| at.along(dim.as_str()));
        let tie = op.windows.iter().find(|window| window.dim == dim);
        tie.map_or(seen == at, |window| window.sees(at).contains(&seen))
    })
}
