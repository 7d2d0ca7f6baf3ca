//! Expressions that a map makes in one loop as a whole.

use super::map::{Case, equal, expected, step};
use super::{Tensor, run_with};
use crate::exec::cpu::map::idioms::find;
use crate::names::{DType, Mesh};
use crate::program::{Body, Expr, Instr, Prim, Value};

fn exprs() -> Vec<Expr> {
    let [x, y] = [0, 1].map(Expr::input);
    let hard_sigmoid = |x: &Expr| (x.clone() + 3.0).max(0.0).min(6.0) * f64::from(1.0_f32 / 6.0);
    let slope = Expr::apply(Prim::Select, [x.clone().greater(0.0), 1.0.into(), y.clone()]);
    let cut = |low: f64| (x.clone() - y.clone()).max(low).min(0.75);
    let most = f64::from(f32::MAX);
    let clipped = x.clone().max(-most).min(most);
    let inside = Expr::apply(
        Prim::And,
        [x.clone().greater_equal(-0.5), Expr::apply(Prim::Le, [x.clone(), 3.0.into()])],
    );
    let squared = (x.clone() - y.clone()) * (x.clone() - y.clone());
    vec![
        x.clone() * hard_sigmoid(&x),
        hard_sigmoid(&x),
        x.clone() * slope,
        Expr::apply(Prim::Select, [x.clone().not_equal(x.clone()), 0.0.into(), clipped]),
        cut(-0.75) * ((x.clone() - y.clone()) - cut(-0.75) * 0.5),
        squared,
        (x.clone() - y.clone()).abs(),
        Expr::apply(Prim::Select, [inside, y.clone(), 0.0.into()]),
        Expr::apply(Prim::Select, [y.less(0.4), x * 1.25, 0.0.into()]),
    ]
}

fn number(i: usize) -> f64 {
    match i % 13 {
        12 => f64::NAN,
        11 => f64::INFINITY,
        10 => f64::NEG_INFINITY,
        9 => -0.0,
        _ => f64::from((i as f32 + 1.7).sin() * [0.5, 8.0, f32::MAX][i % 3]),
    }
}

/// The bits are those of one operation after the other, whichever argument is the same for many elements, whether the out
/// lies where an argument does, and whether something within is read elsewhere.
#[test]
fn idioms_round_each_time() {
    let labels: [&[u8]; 4] = [&[0, 1], &[0], &[1], &[]];
    let labels = (0..16).map(|i| [i % 4, i / 4].map(|k| labels[k].to_vec()));
    for (expr, dims) in exprs().iter().flat_map(|expr| labels.clone().map(move |l| (expr, l))) {
        let [shifted, difference] = [Expr::input(0) + 3.0, Expr::input(0) - Expr::input(1)];
        let parts = [shifted.clone(), shifted.max(0.0), difference.clone(), difference.max(-0.75)];
        let parts = parts.into_iter().map(|part| ([40, 50], Some(part)));
        for (extents, part) in [([3, 1100], None), ([40, 50], None)].into_iter().chain(parts) {
            let results: Vec<_> =
                [expr.clone()].into_iter().chain(part).map(|expr| (expr, DType::F32)).collect();
            let body = Body::new(&[DType::F32; 2], &results).unwrap();
            let input = |(k, dims): (usize, &Vec<u8>)| {
                let value = Value::new(DType::F32, dims.iter().map(|&l| extents[usize::from(l)]));
                Tensor::new(value.clone(), (0..value.len()).map(|i| number(i * (k + 1) + k)))
            };
            let inputs = dims.iter().enumerate().map(input).collect();
            let outs = vec![Value::new(DType::F32, extents); results.len()];
            let case = Case { body, inputs, dims: dims.to_vec(), outs };
            let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
            let whole = (0..2).filter(|&k| dims[k].len() == 2).map(|k| vec![(0, k)]);
            for shared in whole.chain([Vec::new()]) {
                let (step, mesh) = (step(&case), Mesh::single());
                let got = run_with(&case.inputs, &case.outs, &step, &mesh, 0, &shared).unwrap();
                assert!(equal(&got, &want), "{} {dims:?} {shared:?}", case.body);
            }
        }
    }
}

/// They are found as wholes, but for a part that is read elsewhere.
#[test]
fn idioms_are_found() {
    for expr in exprs() {
        let body = Body::new(&[DType::F32; 2], &[(expr.clone(), DType::F32)]).unwrap();
        let applied =
            body.code.iter().filter(|(instr, _)| matches!(instr, Instr::Apply(..))).count();
        let found = find(&body, body.code.len() - 1).unwrap();
        assert_eq!(found.inner.len() + 1, applied, "{body}");
        for part in found.inner {
            let mut other = body.clone();
            other.results.push(crate::program::Reg(part as u16));
            assert!(
                find(&other, body.code.len() - 1).is_none_or(|found| !found.inner.contains(&part))
            );
        }
    }
}
