//! The algorithms of all-reduce: other programs and other orders of additions, the same sums.

use mesh_core::lower::{AllReduce, Options};
use mesh_core::program::{FoldOrder, Step};
use mesh_ops::prelude::*;

const WAYS: [AllReduce; 4] =
    [AllReduce::Direct, AllReduce::Ring, AllReduce::Hierarchical, AllReduce::ReduceToOne];

/// Sums of `size` elements over a dim of 8 that is split over the whole mesh.
fn sums(mesh: &str, layout: &str, size: usize, way: AllReduce, x: &[f32]) -> (Array, Vec<Step>) {
    let g = mesh_ops::graph();
    let (terms, d) = (dim("terms", 8), dim("d", size));
    let input = g.input("x", [terms, d], F32);
    let f = g.function("f", [input], [input.sum([terms])], []);
    let (mesh, layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
    let module =
        g.lower_with(&mesh, &layout, &Options { all_reduce: way, ..Options::default() }).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    let x = ndarray::ArrayView2::from_shape((8, size), x).unwrap();
    let [once] = session.call(&f, [x.into()]).unwrap();
    let [twice] = session.call(&f, [x.into()]).unwrap();
    assert_eq!(once, twice, "{way}");
    (once, module.functions()[0].steps().to_vec())
}

/// Numbers of many magnitudes.
fn odd(count: usize) -> Vec<f32> {
    let number = |i: usize| {
        let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        (mixed % 2001) as f32 / 1000.0 - 1.0
    };
    (0..count).map(number).collect()
}

/// Eight terms below 2 in magnitude, where each addition is rounded to half a unit in the last
/// place.
const ROUNDING: f64 = 8.0 * 16.0 * f32::EPSILON as f64;

#[test]
fn ways_differ_by_rounding_only() {
    for (mesh, layout) in [("all:4", "terms:all"), ("h:2;l:2", "terms:h+l"), ("all:8", "terms:all")]
    {
        for size in [3, 700, 5000] {
            let x = odd(8 * size);
            let whole: Vec<f32> = x.iter().map(|x| (x * 8.0).round()).collect();
            let (direct, _) = sums(mesh, layout, size, AllReduce::Direct, &x);
            let (exact, _) = sums("", "", size, AllReduce::Direct, &whole);
            for way in WAYS {
                let (found, _) = sums(mesh, layout, size, way, &x);
                let gap = (found.to_f64() - direct.to_f64()).mapv(f64::abs);
                assert!(gap.iter().all(|&gap| gap <= ROUNDING), "{way} {mesh} {size}");
                let (found, _) = sums(mesh, layout, size, way, &whole);
                assert_eq!(found, exact, "{way} {mesh} {size}");
            }
        }
    }
}

/// Each algorithm has its order of additions, which is repeated here one by one.
#[test]
fn each_way_has_its_order() {
    let size = 300;
    let x = odd(8 * size);
    let at = |term: usize, i: usize| x[term * size + i];
    let fold = |terms: &[f32]| terms[1..].iter().fold(terms[0], |sum, x| sum + x);
    // Each of four processors has added two neighbouring terms.
    let own = |i: usize| [0, 2, 4, 6].map(|term| at(term, i) + at(term + 1, i));
    let around = |i: usize| {
        let share =
            (0..4).rfind(|share| size * share / 4 / FoldOrder::SHARE * FoldOrder::SHARE <= i);
        let mut own = own(i);
        own.rotate_left((share.unwrap() + 1) % 4);
        fold(&own)
    };
    let rows = |i: usize| {
        let own = own(i);
        (own[0] + own[1]) + (own[2] + own[3])
    };
    let table: [(AllReduce, &dyn Fn(usize) -> f32); 4] = [
        (AllReduce::Direct, &|i| fold(&own(i))),
        (AllReduce::ReduceToOne, &|i| fold(&own(i))),
        (AllReduce::Ring, &around),
        (AllReduce::Hierarchical, &rows),
    ];
    for (way, expected) in table {
        let (found, _) = sums("h:2;l:2", "terms:h+l", size, way, &x);
        let expected: ndarray::Array1<f32> = (0..size).map(expected).collect();
        assert_eq!(found, expected.into(), "{way}");
    }
}

#[test]
fn each_way_is_another_program() {
    let forms = |way| {
        let (_, steps) = sums("h:2;l:2", "terms:h+l", 5, way, &odd(40));
        let sent = steps.iter().filter(|step| step.axes().is_some());
        sent.map(|step| format!("{} {}", step.form.name(), step.axes().unwrap().len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(forms(AllReduce::Direct), ["all_reduce 2"]);
    assert_eq!(forms(AllReduce::Ring), ["all_reduce 2"]);
    assert_eq!(forms(AllReduce::Hierarchical), ["all_reduce 1", "all_reduce 1"]);
    assert_eq!(forms(AllReduce::ReduceToOne), ["reduce_to 2", "broadcast 2"]);
    for way in WAYS {
        assert_eq!(way.to_string().parse(), Ok(way));
    }
    let error = "nccl".parse::<AllReduce>().unwrap_err();
    assert_eq!(
        error,
        "`nccl` is no way to reduce among all; legal are direct, ring, hierarchical, reduce_to_one"
    );
}
