//! Two and three operations that a map makes in one loop.

use super::map::{Case, equal, expected, step};
use super::{Tensor, run, run_with};
use crate::names::{DType, Mesh};
use crate::program::{Body, Expr, Prim, Value};

/// Two operations in one loop give the bits of one after the other, each rounded, whichever argument
/// is the same for many elements.
#[test]
fn pairs_round_twice() {
    let prims = [Prim::Add, Prim::Sub, Prim::Mul, Prim::Div, Prim::Max, Prim::Min];
    let pairs = prims.into_iter().flat_map(|inner| prims.map(|outer| (inner, outer)));
    let labels: [&[u8]; 4] = [&[0, 1], &[0], &[1], &[]];
    let labels = (0..64).map(|i| [i % 4, i / 4 % 4, i / 16].map(|k| labels[k].to_vec()));
    for ((inner, outer), dims) in pairs.flat_map(|pair| labels.clone().map(move |l| (pair, l))) {
        for (last, extents) in [(false, [3, 1100]), (true, [3, 1100]), (false, [40, 50])] {
            let pair = Expr::apply(inner, [Expr::input(0), Expr::input(1)]);
            let pair = if last { [Expr::input(2), pair] } else { [pair, Expr::input(2)] };
            let body = (Expr::apply(outer, pair), DType::F32);
            let body = Body::new(&[DType::F32; 3], &[body]).unwrap();
            let input = |(k, dims): (usize, &Vec<u8>)| {
                let extents = dims.iter().map(|&l| extents[usize::from(l)]);
                let value = Value::new(DType::F32, extents);
                let data = (0..value.len()).map(|i| f64::from((i as f32 + 1.7).sin() + k as f32));
                Tensor::new(value.clone(), data)
            };
            let inputs = dims.iter().enumerate().map(input).collect();
            let outs = vec![Value::new(DType::F32, extents)];
            let case = Case { body, inputs, dims: dims.to_vec(), outs };
            let got = run(&case.inputs, &case.outs, &step(&case)).unwrap();
            let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
            assert!(equal(&got, &want), "{inner:?} {outer:?} {dims:?} {last}");
        }
    }
}

/// Three operations in one loop round thrice, whichever argument is the same for many elements, one is met twice,
/// or the out lies where an argument does.
#[test]
fn triples_round_thrice() {
    let [a, b, c, d] = [0, 1, 2, 3].map(Expr::input);
    let exprs = [
        (c.clone() - a.clone() * b.clone()) * d.clone(),
        d.clone() * (c.clone() - b.clone() * a.clone()),
        a.clone() * (c.clone() - a.clone() * b.clone()) + d.clone(),
        (a.clone() * b.clone() - c.clone()) * d.clone(),
        (a.clone() - b.clone()) * c.clone() + d.clone(),
        d + c * (a - b),
    ];
    let labels: [&[u8]; 3] = [&[0, 1], &[1], &[]];
    let labels = (0..81).map(|i| [i % 3, i / 3 % 3, i / 9 % 3, i / 27].map(|k| labels[k].to_vec()));
    for (expr, dims) in exprs.iter().flat_map(|expr| labels.clone().map(move |l| (expr, l))) {
        let extents = [3, 1100];
        let body = Body::new(&[DType::F32; 4], &[(expr.clone(), DType::F32)]).unwrap();
        let input = |(k, dims): (usize, &Vec<u8>)| {
            let value = Value::new(DType::F32, dims.iter().map(|&l| extents[usize::from(l)]));
            let data = (0..value.len()).map(|i| f64::from((i as f32 + 1.7).sin() + k as f32));
            Tensor::new(value.clone(), data)
        };
        let inputs = dims.iter().enumerate().map(input).collect();
        let outs = vec![Value::new(DType::F32, extents)];
        let case = Case { body, inputs, dims: dims.to_vec(), outs };
        let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
        let whole = (0..4).filter(|&k| dims[k].len() == 2).map(|k| vec![(0, k)]);
        for shared in whole.chain([Vec::new()]) {
            let mesh = Mesh::single();
            let got = run_with(&case.inputs, &case.outs, &step(&case), &mesh, 0, &shared).unwrap();
            assert!(equal(&got, &want), "{} {dims:?} {shared:?}", case.body);
        }
    }
}

/// A number times a function of it in one loop gives the bits of the function and then the product, in either
/// order; a product with another number is no such loop.
#[test]
fn gates_round_twice() {
    let [x, z] = [0, 1].map(Expr::input);
    let data = |n: usize| (0..n).map(|i| f64::from((i as f32 * 0.37).sin() * 14.0));
    let value = Value::new(DType::F32, [1100]);
    let of = |results: &[Expr], inputs: usize| {
        let results: Vec<_> = results.iter().map(|expr| (expr.clone(), DType::F32)).collect();
        let body = Body::new(&vec![DType::F32; inputs], &results).unwrap();
        let input = |k| Tensor::new(value.clone(), data(1100).map(move |x| x + f64::from(k)));
        let outs = vec![value.clone(); results.len()];
        let dims = vec![vec![0]; inputs];
        let inputs = (0..inputs as u8).map(input).collect();
        let case = Case { body, inputs, dims, outs };
        run(&case.inputs, &case.outs, &step(&case)).unwrap()
    };
    for function in [Prim::Logistic, Prim::NormalCdf] {
        let made = || Expr::apply(function, [x.clone()]);
        // What is an out as well has a loop of its own.
        let apart = of(&[x.clone() * made(), made()], 1);
        for gated in [x.clone() * made(), made() * x.clone()] {
            assert!(equal(&of(&[gated], 1)[..1], &apart[..1]), "{function:?}");
        }
        let product = |(x, y): (&f64, &f64)| f64::from(*x as f32 * *y as f32);
        let expected: Vec<_> = data(1100).map(|x| x + 1.0).collect();
        let other = of(&[z.clone() * made()], 2);
        let want = expected.iter().zip(&apart[1].data).map(product);
        assert!(other[0].data.iter().copied().eq(want), "{function:?}");
    }
}

/// A choice by a comparison in one loop gives the bits of both one after the other, whichever arguments
/// are the same for many elements, and with NaN and equal numbers; and so does a comparison as a number.
#[test]
fn choices_by_comparisons() {
    let compares = [Prim::Lt, Prim::Le, Prim::Gt, Prim::Ge, Prim::Eq, Prim::Ne];
    let labels: [&[u8]; 3] = [&[0, 1], &[0], &[]];
    let labels = (0..81).map(|i| [i % 3, i / 3 % 3, i / 9 % 3, i / 27].map(|k| labels[k].to_vec()));
    let dtypes = [DType::F32, DType::I32];
    for (i, (compare, dims)) in
        compares.into_iter().flat_map(|p| labels.clone().map(move |l| (p, l))).enumerate()
    {
        for (extents, of, to) in
            [([3, 1100], i), ([40, 50], i / 2)].map(|(e, i)| (e, dtypes[i % 2], dtypes[i / 2 % 2]))
        {
            let compared = || Expr::apply(compare, [0, 1].map(Expr::input));
            let chosen = [compared(), Expr::input(2), Expr::input(3)];
            let chosen = Expr::apply(Prim::Select, chosen);
            let results = [(chosen, to), (compared().cast(to), to)];
            for result in results {
                let body = Body::new(&[of, of, to, to], &[result]).unwrap();
                let input = |(k, dims): (usize, &Vec<u8>)| {
                    let extents = dims.iter().map(|&l| extents[usize::from(l)]);
                    let dtype = if k < 2 { of } else { to };
                    let value = Value::new(dtype, extents);
                    let number = |i: usize| match (i * (k + 2)) % 11 {
                        10 if dtype == DType::F32 => f64::NAN,
                        n => n as f64 - 4.0,
                    };
                    Tensor::new(value.clone(), (0..value.len()).map(|i| number(i + k)))
                };
                let inputs = dims.iter().enumerate().map(input).collect();
                let outs = vec![Value::new(to, extents)];
                let case = Case { body, inputs, dims: dims.to_vec(), outs };
                let got = run(&case.inputs, &case.outs, &step(&case)).unwrap();
                let want = expected(&case.body, &case.inputs, &case.dims, &case.outs);
                assert!(equal(&got, &want), "{compare:?} of {of}, {to}, {dims:?} {extents:?}");
            }
        }
    }
}
