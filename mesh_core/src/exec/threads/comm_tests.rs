use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use half::bf16;
use proptest::prelude::*;

use super::super::super::memory::Buffer;
use super::super::barrier::Stop;
use super::*;
use crate::names::{DType, Mesh, ReduceKind};
use ReduceKind::{All, Any, Max, Min, Prod, Sum};

/// Runs one thread per processor and collects what they return.
fn everywhere<R: Send>(mesh: &Mesh, body: impl Fn(usize, &mut Threads) -> R + Sync) -> Vec<R> {
    let world = World::new(mesh, 0, &Arc::new(Stop::default()));
    thread::scope(|scope| {
        let processors = 0..mesh.processors();
        let threads: Vec<_> = processors
            .map(|processor| {
                let (world, body) = (&world, &body);
                scope.spawn(move || body(processor, &mut Threads::new(world, processor)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn line(processors: usize) -> Mesh {
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

/// All-reduces `counts` elements per part over the axes, in place or not, and compares with a left
/// fold.
fn all_reduce<T: Copy + PartialEq + Debug + Send + Sync>(
    mesh: &Mesh,
    names: &[&str],
    (kind, dtype): (ReduceKind, DType),
    counts: &[usize],
    element: impl Fn(usize, usize) -> T + Sync,
    fold: impl Fn(&[T]) -> T,
    in_place: bool,
) {
    let axes = axes(mesh, names);
    let part = |processor, part: usize, count| -> Vec<T> {
        (0..count).map(|i| element(processor, i + 7 * part)).collect()
    };
    let results = everywhere(mesh, |processor, comm| {
        let group = comm.group(&axes);
        let inputs: Vec<_> = counts
            .iter()
            .enumerate()
            .map(|(p, &count)| buffer(&part(processor, p, count)))
            .collect();
        let outs: Vec<_> =
            inputs.iter().zip(counts).map(|(_, &n)| buffer(&vec![0_u64; n])).collect();
        let outs = if in_place { &inputs } else { &outs };
        let parts: Vec<_> = (inputs.iter().zip(outs).zip(counts))
            .map(|((i, o), &elements)| Part { input: i.pointer(), out: o.pointer(), elements })
            .collect();
        let run = Fold::new(kind, dtype).unwrap();
        // SAFETY: buffers of these sizes, kept until all have returned.
        unsafe { comm.all_reduce(group, run, &parts).unwrap() };
        comm.barrier().unwrap();
        let results = outs.iter().zip(counts).map(|(out, &count)| elements::<T>(out, count));
        results.collect::<Vec<_>>()
    });
    for (processor, result) in results.iter().enumerate() {
        let members = mesh.group(processor, &axes);
        for (p, &count) in counts.iter().enumerate() {
            let inputs: Vec<_> = members.iter().map(|&m| part(m, p, count)).collect();
            let expected: Vec<T> = (0..count)
                .map(|i| fold(&inputs.iter().map(|input| input[i]).collect::<Vec<_>>()))
                .collect();
            assert!(result[p] == expected, "{kind} {dtype} {mesh} {names:?} {counts:?}");
        }
    }
}

fn sum_f32(mesh: &Mesh, names: &[&str], counts: &[usize], in_place: bool) {
    let element = |p, i| noise(p, i) as f32;
    let fold = |x: &[f32]| x[1..].iter().fold(x[0], |a, b| a + b);
    all_reduce(mesh, names, (Sum, DType::F32), counts, element, fold, in_place);
}

#[test]
fn all_reduce_is_a_left_fold_for_every_group_size() {
    for members in [1, 2, 3, 4, 8] {
        let mesh = line(members);
        for count in [1, 5, 63, 1023, 1024, 1025, 3001, 10_007] {
            sum_f32(&mesh, &["all"], &[count], false);
            sum_f32(&mesh, &["all"], &[count], true);
        }
        sum_f32(&mesh, &["all"], &[1, 700, 3], true);
        sum_f32(&mesh, &["all"], &[1, 70, 5000, 1, 64, 2000], false);
        sum_f32(&mesh, &["all"], &[130; 40], true);
    }
}

#[test]
fn all_reduce_along_some_axes() {
    let mesh: Mesh = "x:2;y:2;z:2".parse().unwrap();
    let groups: [&[&str]; 7] =
        [&["x"], &["z"], &["x", "y"], &["z", "x"], &["y", "z"], &["z", "y", "x"], &[]];
    for names in groups {
        sum_f32(&mesh, names, &[17], true);
        sum_f32(&mesh, names, &[5001], true);
    }
}

#[test]
fn all_reduce_of_every_kind_and_dtype() {
    for count in [3, 3000] {
        let mesh = line(3);
        let check_f64 = |kind, fold: fn(f64, f64) -> f64| {
            let whole = |x: &[f64]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            all_reduce(&mesh, &["all"], (kind, DType::F64), &[count], noise, whole, true);
        };
        check_f64(Sum, |a, b| a + b);
        check_f64(Prod, |a, b| a * b);
        check_f64(Max, f64::max);
        check_f64(Min, f64::min);
        let check_f32 = |kind, fold: fn(f32, f32) -> f32| {
            let whole = |x: &[f32]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i) as f32;
            all_reduce(&mesh, &["all"], (kind, DType::F32), &[count], element, whole, true);
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
            all_reduce(&mesh, &["all"], (kind, DType::BF16), &[count], element, whole, false);
        };
        check_bf16(Sum, |a, b| a + b);
        check_bf16(Prod, |a, b| a * b);
        check_bf16(Max, f32::max);
        check_bf16(Min, f32::min);
        let check_i32 = |kind, fold: fn(i32, i32) -> i32| {
            let whole = |x: &[i32]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i).to_bits() as i32;
            all_reduce(&mesh, &["all"], (kind, DType::I32), &[count], element, whole, true);
        };
        check_i32(Sum, i32::wrapping_add);
        check_i32(Prod, i32::wrapping_mul);
        check_i32(Max, i32::max);
        check_i32(Min, i32::min);
        let check_bool = |kind, fold: fn(bool, bool) -> bool| {
            let whole = |x: &[bool]| x[1..].iter().fold(x[0], |a, &b| fold(a, b));
            let element = |p, i| noise(p, i) > -1.0;
            all_reduce(&mesh, &["all"], (kind, DType::Bool), &[2 * count], element, whole, true);
        };
        check_bool(All, |a, b| a && b);
        check_bool(Any, |a, b| a || b);
    }
    assert!(Fold::new(Sum, DType::Bool).is_none() && Fold::new(Any, DType::F32).is_none());
}

#[test]
fn nan_is_greater_and_less_than_everything() {
    for (kind, dtype) in [(Max, DType::F32), (Min, DType::F32)] {
        let results = everywhere(&line(3), |processor, comm| {
            let group = comm.group(&axes(&line(3), &["all"]));
            // Member `i` has its NaN at position `i`.
            let input: Vec<f32> =
                (0..4).map(|i| if i == processor { f32::NAN } else { 1.0 }).collect();
            let input = buffer(&input);
            let part = Part { input: input.pointer(), out: input.pointer(), elements: 4 };
            // SAFETY: as large as it says.
            unsafe { comm.all_reduce(group, Fold::new(kind, dtype).unwrap(), &[part]).unwrap() };
            elements::<f32>(&input, 4)
        });
        for result in results {
            assert!(result[..3].iter().all(|x| x.is_nan()) && result[3] == 1.0, "{result:?}");
        }
    }
}

/// Every collective but all-reduce on processor `p`'s `[outer, n * chunk]` of `noise`.
fn collectives(members: usize, outer: usize, chunk: usize) {
    let mesh = line(members);
    let all = axes(&mesh, &["all"]);
    let whole = members * chunk;
    let input = |p: usize| (0..outer * whole).map(|i| noise(p, i)).collect::<Vec<_>>();
    let results = everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let input = buffer(&input(processor));
        let zeros = || buffer(&vec![-1.0; outer * whole * members]);
        let [gathered, scattered, turned, shifted, wrapped] = [(); 5].map(|()| zeros());
        let exchange = Exchange::new(&[outer, whole], 1, 0, members, 8);
        let from = input.pointer();
        let sum = Fold::new(Sum, DType::F64).unwrap();
        // SAFETY: buffers are large enough, and kept until all have passed the barrier.
        unsafe {
            comm.all_gather(group, outer, 8 * whole, from, gathered.pointer()).unwrap();
            comm.reduce_scatter(group, sum, outer, chunk, from, scattered.pointer()).unwrap();
            comm.all_to_all(group, &exchange, from, turned.pointer()).unwrap();
            let bytes = 8 * outer * whole;
            comm.permute(group, 1, false, bytes, from, shifted.pointer()).unwrap();
            comm.permute(group, -1, true, bytes, from, wrapped.pointer()).unwrap();
        }
        comm.barrier().unwrap();
        let (some, one) = (outer * whole, outer * chunk);
        (
            elements::<f64>(&gathered, some * members),
            elements::<f64>(&scattered, one),
            elements::<f64>(&turned, some),
            [elements::<f64>(&shifted, some), elements::<f64>(&wrapped, some)],
        )
    });
    for (p, (gathered, scattered, turned, [shifted, wrapped])) in results.into_iter().enumerate() {
        let inputs: Vec<_> = (0..members).map(input).collect();
        let row = |m: usize, o: usize| inputs[m][o * whole..][..whole].to_vec();
        let piece = |m: usize, o: usize, k: usize| row(m, o)[k * chunk..][..chunk].to_vec();
        let expected: Vec<_> =
            (0..outer).flat_map(|o| (0..members).flat_map(move |m| row(m, o))).collect();
        assert!(gathered == expected, "all_gather {members} {outer} {chunk}");
        let fold = |o: usize, i: usize| {
            (1..members).fold(piece(0, o, p)[i], |sum, m| sum + piece(m, o, p)[i])
        };
        let expected: Vec<_> =
            (0..outer).flat_map(|o| (0..chunk).map(move |i| fold(o, i))).collect();
        assert!(scattered == expected, "reduce_scatter {members} {outer} {chunk}");
        let expected: Vec<_> =
            (0..members).flat_map(|m| (0..outer).flat_map(move |o| piece(m, o, p))).collect();
        assert!(turned == expected, "all_to_all {members} {outer} {chunk}");
        let before = if p == 0 { vec![0.0; outer * whole] } else { inputs[p - 1].clone() };
        assert!(shifted == before && wrapped == inputs[(p + 1) % members], "permute {members}");
    }
}

#[test]
fn other_collectives_match_the_naive_ones() {
    for members in [1, 2, 3, 4, 8] {
        for (outer, chunk) in [(1, 1), (3, 2), (5, 33), (7, 129)] {
            collectives(members, outer, chunk);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_to_all_of_any_rank(
        mut extents in prop::collection::vec(1..5_usize, 1..5),
        dims in (0..4_usize, 0..4_usize),
        members in 1..5_usize,
    ) {
        let rank = extents.len();
        let (split, concat) = (dims.0 % rank, dims.1 % rank);
        extents[split] *= members;
        let count: usize = extents.iter().product();
        let mesh = line(members);
        let all = axes(&mesh, &["all"]);
        let exchange = Exchange::new(&extents, split, concat, members, 4);
        let input = |p| (0..count).map(|i| (p * count + i) as i32).collect::<Vec<_>>();
        let results = everywhere(&mesh, |processor, comm| {
            let group = comm.group(&all);
            let (from, to) = (buffer(&input(processor)), buffer(&vec![-1; count]));
            // SAFETY: as large as the exchange says.
            unsafe { comm.all_to_all(group, &exchange, from.pointer(), to.pointer()).unwrap() };
            elements::<i32>(&to, count)
        });
        for (p, result) in results.into_iter().enumerate() {
            let pieces: Vec<_> = (0..members)
                .map(|m| {
                    let whole = ndarray::ArrayD::from_shape_vec(extents.clone(), input(m)).unwrap();
                    let size = extents[split] / members;
                    let part = ndarray::Slice::from(p * size..(p + 1) * size);
                    whole.slice_axis(ndarray::Axis(split), part).to_owned()
                })
                .collect();
            let views: Vec<_> = pieces.iter().map(|piece| piece.view()).collect();
            let joined = ndarray::concatenate(ndarray::Axis(concat), &views).unwrap();
            prop_assert_eq!(joined.iter().copied().collect::<Vec<_>>(), result);
        }
    }
}

#[test]
fn small_and_large_may_follow_each_other() {
    let mesh = line(4);
    let all = axes(&mesh, &["all"]);
    everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let fold = Fold::new(Sum, DType::F32).unwrap();
        for round in 0..300 {
            let count = [1, 3000, 7, 9, 2000][round % 5];
            let data = buffer(&vec![(processor + round) as f32; count]);
            let part = Part { input: data.pointer(), out: data.pointer(), elements: count };
            // SAFETY: as large as it says.
            unsafe { comm.all_reduce(group, fold, &[part]).unwrap() };
            let expected = (4 * round + 6) as f32;
            assert!(elements::<f32>(&data, count).iter().all(|&x| x == expected));
        }
    });
}

#[test]
fn inputs_may_be_changed_at_once() {
    let mesh = line(4);
    let all = axes(&mesh, &["all"]);
    everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let fold = Fold::new(Sum, DType::F64).unwrap();
        for round in 0..400 {
            // Through a mailbox or not.
            let chunk = [1, 20_000][round / 4 % 2];
            let count = 4 * chunk;
            let input = buffer(&vec![(processor + round) as f64; count]);
            let (from, out) = (input.pointer(), buffer(&vec![-1.0; 4 * count]));
            let to = out.pointer();
            // SAFETY: buffers are large enough, and kept until all have passed the barrier.
            unsafe {
                match round % 4 {
                    0 => comm.all_gather(group, 1, 8 * count, from, to),
                    1 => comm.reduce_scatter(group, fold, 1, chunk, from, to),
                    2 => {
                        let exchange = Exchange::new(&[count], 0, 0, 4, 8);
                        comm.all_to_all(group, &exchange, from, to)
                    }
                    _ => comm.permute(group, 1, true, 8 * count, from, to),
                }
                .unwrap();
                ptr::write_bytes(from, 0x55, 8 * count);
            }
            let out = elements::<f64>(&out, 4 * count);
            let value = |member: usize| (member + round) as f64;
            let right = match round % 4 {
                0 => out.chunks(count).enumerate().all(|(m, x)| x.iter().all(|&x| x == value(m))),
                1 => out[..chunk].iter().all(|&x| x == 4.0 * round as f64 + 6.0),
                2 => {
                    let pieces = out[..count].chunks(chunk).enumerate();
                    pieces.into_iter().all(|(m, x)| x.iter().all(|&x| x == value(m)))
                }
                _ => out[..count].iter().all(|&x| x == value((processor + 3) % 4)),
            };
            assert!(right, "round {round}");
            comm.barrier().unwrap();
        }
    });
}

#[test]
fn one_failure_stops_everybody() {
    let mesh: Mesh = "x:2;y:2".parse().unwrap();
    let (x, y) = (axes(&mesh, &["x"]), axes(&mesh, &["y"]));
    for round in 0..200 {
        let started = Instant::now();
        let outcomes = everywhere(&mesh, |processor, comm| {
            let groups = [comm.group(&x), comm.group(&y)];
            let fold = Fold::new(Sum, DType::F32).unwrap();
            // Those that go on a little longer read what the one that failed has left behind.
            let data: &Buffer = Box::leak(Box::new(buffer(&[1.0_f32; 2000])));
            let part = |elements| Part { input: data.pointer(), out: data.pointer(), elements };
            let parts: &[Part; 2] = Box::leak(Box::new([part(3), part(2000)]));
            for step in 0.. {
                if processor == round % 4 && step == round % 7 {
                    comm.world.stop.poison("test".to_owned());
                    return Err(Stopped);
                }
                let parts = std::slice::from_ref(&parts[step % 2]);
                // SAFETY: as large as it says.
                unsafe { comm.all_reduce(groups[step / 2 % 2], fold, parts)? };
            }
            Ok(())
        });
        assert_eq!(outcomes, [Err(Stopped); 4]);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
