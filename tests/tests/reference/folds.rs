//! Collectives fold in the order that their form states: threads and the reference agree to the bit.

use mesh_core::lower::Options;
use mesh_core::passes::AllReduce;
use mesh_ops::prelude::*;

/// Numbers of many sizes, so that another order of a sum is another sum.
fn odd(len: usize) -> Array {
    let number = |i: usize| ((i * 7919 % 104_729) as f32 - 5e4) * 10f32.powi((i % 7) as i32 - 3);
    ndarray::Array1::from_shape_fn(len, number).into()
}

/// The bits of what one call makes of the numbers.
fn bits(mut session: Session, x: &Array) -> Vec<u64> {
    let fetched = session.call_named("f", &[("x", x.view())]).unwrap();
    fetched.iter().flat_map(|(_, array)| array.to_f64().mapv(f64::to_bits).into_iter()).collect()
}

#[test]
fn sums_over_processors_have_one_order() {
    const MEMBERS: usize = 4;
    for dtype in [F32, BF16, F64, I32] {
        for each in [1, 5, 700] {
            let g = mesh_ops::graph();
            // Each processor has one row, whose sum over processors is no sum within one.
            let x = g.input("x", [dim("x", MEMBERS * each)], F32);
            let row = dim("row", MEMBERS);
            let rows = x.reshape([row, dim("column", each)]).cast(dtype);
            let sums = [rows.sum([row]), rows.max([row]), rows.prod([row])];
            g.function("f", [x], sums, []);
            let mesh: Mesh = "h:2;l:2".parse().unwrap();
            let layout: Layout = "x:h+l;row:h+l".parse().unwrap();
            for all_reduce in [
                AllReduce::Direct,
                AllReduce::Ring,
                AllReduce::Hierarchical,
                AllReduce::ReduceToOne,
            ] {
                let options = Options { all_reduce, ..Options::default() };
                let module = g.lower_with(&mesh, &layout, &options).unwrap();
                let x = odd(MEMBERS * each);
                let found = bits(Session::reference(&module, 0).unwrap(), &x);
                let expected = bits(Session::threads(&module, 0).unwrap(), &x);
                assert_eq!(found, expected, "{dtype}, {each} each, {all_reduce}");
            }
        }
    }
}
