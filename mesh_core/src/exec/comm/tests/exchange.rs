//! Everything but all-reduce.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::*;

/// What processor `p` gives: `[outer, members * chunk]`.
fn given(members: usize, outer: usize, chunk: usize, p: usize) -> Vec<f64> {
    (0..outer * members * chunk).map(|i| noise(p, i)).collect()
}

/// Gathered, scattered, turned, and shifted, wrapped, sent, summed.
pub(in crate::exec) type Collected = (Vec<f64>, Vec<f64>, Vec<f64>, [Vec<f64>; 4]);

/// What every collective but all-reduce makes of what the processors give.
pub(in crate::exec) fn collected<C: Suite>(
    members: usize,
    outer: usize,
    chunk: usize,
) -> Vec<(usize, Collected)> {
    let mesh = line(members);
    let all = axes(&mesh, &["all"]);
    let whole = members * chunk;
    let input = |p: usize| given(members, outer, chunk, p);
    C::everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let input = buffer(&input(processor));
        let zeros = || buffer(&vec![-1.0; outer * whole * members]);
        let [gathered, scattered, turned, shifted, wrapped, sent, summed] =
            [(); 7].map(|()| zeros());
        let root = members / 2;
        let exchange = Exchange::new(&[outer, whole], 1, 0, members, 8).into();
        let from = input.pointer();
        let fold = Fold::new(Sum, DType::F64).unwrap();
        let bytes = 8 * outer * whole;
        let permute = |pairs: Pairs, out: &Buffer| {
            let source = pairs.source(group.rank, members);
            let target = pairs.target(group.rank, members);
            Collective::Permute { source, target, bytes, input: from, out: out.pointer() }
        };
        // Nothing is at address zero.
        let (given, taken) = match group.rank == root {
            true => (from, summed.pointer()),
            false => (ptr::null_mut(), ptr::null_mut()),
        };
        let (gathers, out) = (8 * whole, gathered.pointer());
        let collectives = [
            Collective::AllGather { outer, chunk: gathers, input: from, out },
            Collective::ReduceScatter { fold, outer, chunk, input: from, out: scattered.pointer() },
            Collective::AllToAll { exchange, input: from, out: turned.pointer() },
            permute(Pairs::Shift { by: 1, wrap: false }, &shifted),
            permute(Pairs::Shift { by: -1, wrap: true }, &wrapped),
            Collective::Broadcast { root, bytes, input: given, out: sent.pointer() },
            Collective::ReduceTo { fold, root, elements: outer * whole, input: from, out: taken },
        ];
        for collective in &collectives {
            // SAFETY: buffers are large enough, and kept until all have passed the barrier.
            unsafe { comm.meet(group, collective).unwrap() };
        }
        C::barrier(&mesh, comm);
        let (some, one) = (outer * whole, outer * chunk);
        (
            elements::<f64>(&gathered, some * members),
            elements::<f64>(&scattered, one),
            elements::<f64>(&turned, some),
            [&shifted, &wrapped, &sent, &summed].map(|buffer| elements::<f64>(buffer, some)),
        )
    })
}

fn collectives<C: Suite>(members: usize, outer: usize, chunk: usize) {
    let whole = members * chunk;
    let input = |p: usize| given(members, outer, chunk, p);
    let results = collected::<C>(members, outer, chunk);
    for (p, (gathered, scattered, turned, rest)) in results {
        let [shifted, wrapped, sent, summed] = rest;
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
        assert!(sent == inputs[members / 2], "broadcast {members}");
        let total = |i: usize| (1..members).fold(inputs[0][i], |sum, m| sum + inputs[m][i]);
        let total: Vec<_> = (0..outer * whole).map(total).collect();
        let expected = if p == members / 2 { total } else { vec![-1.0; outer * whole] };
        assert!(summed == expected, "reduce_to {members}");
    }
}

pub(in crate::exec) fn other_collectives_match_the_naive_ones<C: Suite>() {
    for members in [1, 2, 3, 4, 8] {
        for (outer, chunk) in [(1, 1), (3, 2), (5, 33), (7, 129)] {
            collectives::<C>(members, outer, chunk);
        }
    }
}

pub(in crate::exec) fn all_to_all_of_any_rank<C: Suite>() {
    // Several processes draw the same.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::with_cases(64), rng);
    let extents = prop::collection::vec(1..5_usize, 1..5);
    let cases = (extents, (0..4_usize, 0..4_usize), 1..5_usize);
    let run = |(mut extents, dims, members): (Vec<usize>, (usize, usize), usize)| {
        let rank = extents.len();
        let (split, concat) = (dims.0 % rank, dims.1 % rank);
        extents[split] *= members;
        let count: usize = extents.iter().product();
        let mesh = line(members);
        let all = axes(&mesh, &["all"]);
        let exchange = Exchange::new(&extents, split, concat, members, 4);
        let input = |p| (0..count).map(|i| (p * count + i) as i32).collect::<Vec<_>>();
        let results = C::everywhere(&mesh, |processor, comm| {
            let group = comm.group(&all);
            let (from, to) = (buffer(&input(processor)), buffer(&vec![-1; count]));
            let exchange = exchange.clone().into();
            let (input, out) = (from.pointer(), to.pointer());
            let collective = Collective::AllToAll { exchange, input, out };
            // SAFETY: as large as the exchange says; kept until all have passed the barrier.
            unsafe { comm.meet(group, &collective).unwrap() };
            C::barrier(&mesh, comm);
            elements::<i32>(&to, count)
        });
        for (p, result) in results {
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
        Ok(())
    };
    runner.run(&cases, run).unwrap();
}

pub(in crate::exec) fn inputs_may_be_changed_at_once<C: Suite>() {
    let mesh = line(4);
    let all = axes(&mesh, &["all"]);
    C::everywhere(&mesh, |processor, comm| {
        let group = comm.group(&all);
        let fold = Fold::new(Sum, DType::F64).unwrap();
        for round in 0..400 {
            // Through a mailbox or not.
            let chunk = [1, 20_000][round / 4 % 2];
            let count = 4 * chunk;
            let input = buffer(&vec![(processor + round) as f64; count]);
            let (from, result) = (input.pointer(), buffer(&vec![-1.0; 4 * count]));
            let (input, out) = (from.cast_const(), result.pointer());
            let collective = match round % 4 {
                0 => Collective::AllGather { outer: 1, chunk: 8 * count, input, out },
                1 => Collective::ReduceScatter { fold, outer: 1, chunk, input, out },
                2 => {
                    let exchange = Exchange::new(&[count], 0, 0, 4, 8).into();
                    Collective::AllToAll { exchange, input, out }
                }
                _ => {
                    let [source, target] = [3, 1].map(|far| Some((group.rank + far) % 4));
                    Collective::Permute { source, target, bytes: 8 * count, input, out }
                }
            };
            // SAFETY: buffers are large enough, and kept until all have passed the barrier.
            unsafe {
                comm.meet(group, &collective).unwrap();
                ptr::write_bytes(from, 0x55, 8 * count);
            }
            let out = elements::<f64>(&result, 4 * count);
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
            C::barrier(&mesh, comm);
        }
    });
}
