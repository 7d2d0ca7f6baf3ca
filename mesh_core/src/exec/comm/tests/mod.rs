//! What every [`Comm`] has to do, against left folds and copies written out.
#![allow(unsafe_code, reason = "calls collectives")]

use std::fmt::Debug;
use std::ptr;

use half::bf16;

use super::super::memory::Buffer;
use super::fold::Fold;
use super::{Collective, Comm, Exchange, Part, Parts};
use crate::names::{Axis, DType, Mesh, ReduceKind};
use crate::program::{FoldOrder, Pairs};
use ReduceKind::{All, Any, Max, Min, Prod, Select, Sum};

/// A way to run collectives.
pub(in crate::exec) trait Suite {
    /// What is tested.
    type Comm: Comm;

    /// Runs `body` on every processor of a mesh and gives what it returned, with the processors, as
    /// far as they are of this process. None, if there are too few processors.
    fn everywhere<R: Send>(
        mesh: &Mesh,
        body: impl Fn(usize, &mut Self::Comm) -> R + Sync,
    ) -> Vec<(usize, R)>;

    /// Waits for every processor of the mesh.
    fn barrier(mesh: &Mesh, comm: &mut Self::Comm);
}

/// All of it, as tests of a [`Comm`].
macro_rules! suite {
    ($comm:ty: $($test:ident)*) => {
        $(#[test]
        fn $test() {
            crate::exec::comm::tests::$test::<$comm>();
        })*
    };
    ($comm:ty) => {
        crate::exec::comm::tests::suite! { $comm:
            all_reduce_is_a_left_fold_for_every_group_size
            all_reduce_along_some_axes
            all_reduce_of_every_kind_and_dtype
            nan_is_greater_and_less_than_everything
            small_and_large_may_follow_each_other
            other_collectives_match_the_naive_ones
            all_to_all_of_any_rank
            inputs_may_be_changed_at_once
        }
    };
}
pub(in crate::exec) use suite;

pub(in crate::exec) fn line(processors: usize) -> Mesh {
    Mesh::new([("all", processors)]).unwrap()
}

fn axes(mesh: &Mesh, names: &[&str]) -> Vec<Axis> {
    names.iter().map(|name| mesh.axis(name).unwrap()).collect()
}

/// An aligned copy.
fn buffer<T: Copy>(elements: &[T]) -> Buffer {
    let buffer = Buffer::zeroed(size_of_val(elements)).unwrap();
    // SAFETY: this large, and new.
    unsafe { ptr::copy_nonoverlapping(elements.as_ptr(), buffer.pointer().cast(), elements.len()) };
    buffer
}

fn elements<T: Copy>(buffer: &Buffer, count: usize) -> Vec<T> {
    // SAFETY: tests ask for what they put in.
    unsafe { std::slice::from_raw_parts(buffer.pointer().cast::<T>(), count).to_vec() }
}

/// Numbers of all sizes that differ by processor and position.
fn noise(processor: usize, index: usize) -> f64 {
    let mixed = (processor * 1_000_003 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let exponent = (mixed % 41) as i32 - 20;
    ((mixed >> 8) as f64 / 1e9 - 4.0) * 2.0_f64.powi(exponent)
}

/// All-reduces `counts` elements per part over the axes in both orders, in place or not, and compares
/// with folds.
fn all_reduce<C: Suite, T: Copy + PartialEq + Debug + Send + Sync>(
    mesh: &Mesh,
    names: &[&str],
    what: (ReduceKind, DType),
    counts: &[usize],
    element: impl Fn(usize, usize) -> T + Sync,
    fold: impl Fn(&[T]) -> T,
    in_place: bool,
) {
    for order in [FoldOrder::Group, FoldOrder::Ring] {
        all_reduce_in::<C, T>(order, mesh, names, what, counts, &element, &fold, in_place);
    }
}

#[allow(clippy::too_many_arguments, reason = "a table's columns")]
fn all_reduce_in<C: Suite, T: Copy + PartialEq + Debug + Send + Sync>(
    order: FoldOrder,
    mesh: &Mesh,
    names: &[&str],
    (kind, dtype): (ReduceKind, DType),
    counts: &[usize],
    element: &(impl Fn(usize, usize) -> T + Sync),
    fold: &impl Fn(&[T]) -> T,
    in_place: bool,
) {
    let axes = axes(mesh, names);
    let part = |processor, part: usize, count| -> Vec<T> {
        (0..count).map(|i| element(processor, i + 7 * part)).collect()
    };
    let results = C::everywhere(mesh, |processor, comm| {
        let group = comm.group(&axes);
        let inputs: Vec<_> = counts
            .iter()
            .enumerate()
            .map(|(p, &count)| buffer(&part(processor, p, count)))
            .collect();
        let outs: Vec<_> =
            inputs.iter().zip(counts).map(|(_, &n)| buffer(&vec![0_u64; n])).collect();
        let outs = if in_place { &inputs } else { &outs };
        let parts: Parts = (inputs.iter().zip(outs).zip(counts))
            .map(|((i, o), &elements)| Part { input: i.pointer(), out: o.pointer(), elements })
            .collect();
        let fold = Fold::new(kind, dtype).unwrap();
        let collective = Collective::AllReduce { fold, order, parts };
        // SAFETY: buffers of these sizes, kept until all have returned.
        unsafe { comm.meet(group, &collective).unwrap() };
        C::barrier(mesh, comm);
        let results = outs.iter().zip(counts).map(|(out, &count)| elements::<T>(out, count));
        results.collect::<Vec<_>>()
    });
    let total: usize = counts.iter().sum();
    for (processor, result) in &results {
        let members = mesh.group(*processor, &axes);
        let first = |i: usize| match order {
            FoldOrder::Group => 0,
            FoldOrder::Ring => {
                let begin = |share: usize| total * share / members.len() / 64 * 64;
                (0..members.len()).rfind(|&share| begin(share) <= i).unwrap() + 1
            }
        };
        for (p, &count) in counts.iter().enumerate() {
            let inputs: Vec<_> = members.iter().map(|&m| part(m, p, count)).collect();
            let before: usize = counts[..p].iter().sum();
            let folded = |i: usize| {
                let mut column: Vec<_> = inputs.iter().map(|input| input[i]).collect();
                column.rotate_left(first(before + i) % members.len());
                fold(&column)
            };
            let expected: Vec<T> = (0..count).map(folded).collect();
            assert!(result[p] == expected, "{order:?} {kind} {dtype} {mesh} {names:?} {counts:?}");
        }
    }
}

pub(in crate::exec) fn sum_f32<C: Suite>(
    mesh: &Mesh,
    names: &[&str],
    counts: &[usize],
    in_place: bool,
) {
    let element = |p, i| noise(p, i) as f32;
    let fold = |x: &[f32]| x[1..].iter().fold(x[0], |a, b| a + b);
    all_reduce::<C, _>(mesh, names, (Sum, DType::F32), counts, element, fold, in_place);
}

pub(in crate::exec) fn all_reduce_is_a_left_fold_for_every_group_size<C: Suite>() {
    for members in [1, 2, 3, 4, 8] {
        let mesh = line(members);
        for count in [1, 5, 63, 1023, 1024, 1025, 3001, 10_007, 140_003] {
            sum_f32::<C>(&mesh, &["all"], &[count], false);
            sum_f32::<C>(&mesh, &["all"], &[count], true);
        }
        sum_f32::<C>(&mesh, &["all"], &[1, 700, 3], true);
        sum_f32::<C>(&mesh, &["all"], &[1, 70, 5000, 1, 64, 2000], false);
        sum_f32::<C>(&mesh, &["all"], &[130; 40], true);
    }
}

pub(in crate::exec) fn all_reduce_along_some_axes<C: Suite>() {
    let mesh: Mesh = "x:2;y:2;z:2".parse().unwrap();
    let groups: [&[&str]; 7] =
        [&["x"], &["z"], &["x", "y"], &["z", "x"], &["y", "z"], &["z", "y", "x"], &[]];
    for names in groups {
        sum_f32::<C>(&mesh, names, &[17], true);
        sum_f32::<C>(&mesh, names, &[5001], true);
    }
}

pub(in crate::exec) fn all_reduce_of_every_kind_and_dtype<C: Suite>() {
    for count in [3, 3000] {
        let mesh = line(3);
        let check_f64 = |kind, fold: fn(f64, f64) -> f64| {
            let whole = |x: &[f64]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            all_reduce::<C, _>(&mesh, &["all"], (kind, DType::F64), &[count], noise, whole, true);
        };
        check_f64(Sum, |a, b| a + b);
        check_f64(Prod, |a, b| a * b);
        check_f64(Max, f64::max);
        check_f64(Min, f64::min);
        let check_f32 = |kind, fold: fn(f32, f32) -> f32| {
            let whole = |x: &[f32]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i) as f32;
            all_reduce::<C, _>(&mesh, &["all"], (kind, DType::F32), &[count], element, whole, true);
        };
        check_f32(Prod, |a, b| a * b);
        check_f32(Max, f32::max);
        check_f32(Min, f32::min);
        let check_bf16 = |kind, fold: fn(f32, f32) -> f32| {
            // Rounded once, after the fold.
            let whole = |x: &[bf16]| {
                bf16::from_f32(x[1..].iter().fold(x[0].to_f32(), |a, b| fold(a, b.to_f32())))
            };
            let element = |p, i| bf16::from_f64(noise(p, i));
            all_reduce::<C, _>(
                &mesh,
                &["all"],
                (kind, DType::BF16),
                &[count],
                element,
                whole,
                false,
            );
        };
        check_bf16(Sum, |a, b| a + b);
        check_bf16(Prod, |a, b| a * b);
        check_bf16(Max, f32::max);
        check_bf16(Min, f32::min);
        let check_i32 = |kind, fold: fn(i32, i32) -> i32| {
            let whole = |x: &[i32]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i).to_bits() as i32;
            all_reduce::<C, _>(&mesh, &["all"], (kind, DType::I32), &[count], element, whole, true);
        };
        check_i32(Sum, i32::wrapping_add);
        check_i32(Prod, i32::wrapping_mul);
        check_i32(Max, i32::max);
        check_i32(Min, i32::min);
        let check_bool = |kind, fold: fn(bool, bool) -> bool| {
            let whole = |x: &[bool]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i) > -1.0;
            all_reduce::<C, _>(
                &mesh,
                &["all"],
                (kind, DType::Bool),
                &[2 * count],
                element,
                whole,
                true,
            );
        };
        check_bool(All, |a, b| a && b);
        check_bool(Any, |a, b| a || b);
        // Each element has one owner, whose bits arrive, whatever number they are.
        fn selected<C: Suite, B: Copy + PartialEq + Default + Debug + Send + Sync>(
            count: usize,
            dtype: DType,
            bits: impl Fn(f64) -> B + Sync,
        ) {
            let numbers = [-0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY, 1.5, -3e38];
            let element =
                |p, i: usize| if i % 3 == p { bits(numbers[i % 6]) } else { B::default() };
            let owned =
                |x: &[B]| x.iter().copied().find(|&b| b != B::default()).unwrap_or_default();
            let what = (Select, dtype);
            all_reduce::<C, _>(&line(3), &["all"], what, &[count], element, owned, true);
        }
        selected::<C, _>(count, DType::F32, |x| (x as f32).to_bits());
        selected::<C, _>(count, DType::F64, f64::to_bits);
        selected::<C, _>(count, DType::BF16, |x| bf16::from_f64(x).to_bits());
        selected::<C, _>(count, DType::I32, |x| x as i32);
        selected::<C, _>(2 * count, DType::Bool, |x| x > 0.0);
    }
    assert!(Fold::new(Sum, DType::Bool).is_none() && Fold::new(Any, DType::F32).is_none());
}

pub(in crate::exec) fn nan_is_greater_and_less_than_everything<C: Suite>() {
    for (kind, dtype) in [(Max, DType::F32), (Min, DType::F32)] {
        let mesh = line(3);
        let results = C::everywhere(&mesh, |processor, comm| {
            let group = comm.group(&axes(&mesh, &["all"]));
            // Member `i` has its NaN at position `i`.
            let input: Vec<f32> =
                (0..4).map(|i| if i == processor { f32::NAN } else { 1.0 }).collect();
            let input = buffer(&input);
            let part = Part { input: input.pointer(), out: input.pointer(), elements: 4 };
            let fold = Fold::new(kind, dtype).unwrap();
            let (order, parts) = (FoldOrder::Group, [part].into());
            let collective = Collective::AllReduce { fold, order, parts };
            // SAFETY: as large as it says; kept until all have passed the barrier.
            unsafe { comm.meet(group, &collective).unwrap() };
            C::barrier(&mesh, comm);
            elements::<f32>(&input, 4)
        });
        for (_, result) in results {
            assert!(result[..3].iter().all(|x| x.is_nan()) && result[3] == 1.0, "{result:?}");
        }
    }
}

pub(in crate::exec) fn small_and_large_may_follow_each_other<C: Suite>() {
    let mesh = line(4);
    let all = axes(&mesh, &["all"]);
    C::everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let fold = Fold::new(Sum, DType::F32).unwrap();
        for round in 0..300 {
            let count = [1, 3000, 7, 9, 2000][round % 5];
            let data = buffer(&vec![(processor + round) as f32; count]);
            let part = Part { input: data.pointer(), out: data.pointer(), elements: count };
            let (order, parts) = (FoldOrder::Group, [part].into());
            let collective = Collective::AllReduce { fold, order, parts };
            // SAFETY: as large as it says; kept until all have passed the barrier.
            unsafe { comm.meet(group, &collective).unwrap() };
            C::barrier(&mesh, comm);
            let expected = (4 * round + 6) as f32;
            assert!(elements::<f32>(&data, count).iter().all(|&x| x == expected));
        }
    });
}

mod exchange;
#[cfg(feature = "mpi")]
pub(in crate::exec) use exchange::{Collected, collected};
pub(in crate::exec) use exchange::{
    all_to_all_of_any_rank, inputs_may_be_changed_at_once, other_collectives_match_the_naive_ones,
};
