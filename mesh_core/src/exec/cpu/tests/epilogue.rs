use super::contract::operand;
use super::*;
use crate::exec::cpu::{Kernel, prepare_joined};
use crate::program::{Body, Expr};
use smallvec::smallvec;

/// The bits of the last value after each of some kernels has run, in memory that the product and the map
/// share.
fn bits(values: &[Value], factors: &[Tensor], kernels: &[&dyn Kernel]) -> Vec<u8> {
    let blocks: Vec<_> = values.iter().map(|value| Block::new(value.bytes())).collect();
    let memory = memory(&blocks);
    for (tensor, &at) in factors.iter().zip(&memory.pointers) {
        // SAFETY: the block has the value's size.
        unsafe { tensor.write(at) };
    }
    let scratch = kernels.iter().map(|kernel| kernel.scratch_bytes()).max();
    let scratch = Block::new(scratch.unwrap_or_default());
    for kernel in kernels {
        // SAFETY: all blocks are of the values' sizes, aligned and apart; the map works in place.
        unsafe { kernel.run(&memory, scratch.pointer()) };
    }
    assert!(blocks.iter().chain([&scratch]).all(Block::is_guarded), "wrote beyond a value");
    let (result, bytes) = (memory.pointers[values.len() - 1], values[values.len() - 1].bytes());
    // SAFETY: the block has the value's size.
    unsafe { std::slice::from_raw_parts(result, bytes) }.to_vec()
}

/// The map's out lies where the product's result does.
fn memory(blocks: &[Block]) -> Memory {
    let mut pointers: Vec<_> = blocks.iter().map(Block::pointer).collect();
    pointers[4] = pointers[3];
    Memory { pointers }
}

/// `max(lhs rhs + bias, 0)`: values lhs, rhs, bias, product, result; the bias has label `along`, and
/// `turned` are left factor and result.
fn dense(
    [m, n, k]: [usize; 3],
    dtype: DType,
    along: u8,
    turned: [bool; 2],
) -> ([Value; 5], [Step; 2]) {
    let value = |extents: [usize; 2], turned: bool| {
        let mut value = Value::new(dtype, extents);
        if turned {
            value.order.reverse();
        }
        value
    };
    let (lhs, result) = (value([m, k], turned[0]), value([m, n], turned[1]));
    let (rhs, bias) = (value([k, n], false), Value::new(dtype, [[m, n][usize::from(along)]]));
    let body = (Expr::input(0) + Expr::input(1)).max(0.0);
    let map = Step::Map {
        body: Body::new(&[dtype; 2], &[(body, dtype)]).unwrap(),
        inputs: vec![operand(3, &[0, 1]), operand(2, &[along])],
        outs: smallvec![id(4)],
    };
    let product = Step::Contract { lhs: operand(0, &[0, 2]), rhs: operand(1, &[2, 1]), out: id(3) };
    ([lhs, rhs, bias, result.clone(), result], [product, map])
}

#[test]
fn a_map_within_a_product_gives_the_bits_of_one_behind_it() {
    for (shape, dtype, along, turned) in [
        ([500, 4300, 40], DType::F32, 1, [false, false]),
        ([2100, 1030, 300], DType::F32, 1, [true, false]),
        ([2100, 1030, 300], DType::F32, 0, [false, true]),
        ([140_000, 16, 32], DType::F32, 0, [false, false]),
        ([90, 12_000, 600], DType::F64, 1, [false, false]),
    ] {
        let (values, [product, map]) = dense(shape, dtype, along, turned);
        let factors: Vec<_> = (0..3).map(|k| whole(&values[k], [3, 4, 5][k])).collect();
        let program = Program { values: values.to_vec(), ..Program::default() };
        let one = |step: &Step| {
            let kernel = prepare(&program, step, &Mesh::single(), 0, &Seed::new(7));
            kernel.unwrap().unwrap()
        };
        let blocks: Vec<_> = values.iter().map(|_| Block::new(64)).collect();
        let joined = prepare_joined(&program, [&product, &map], &memory(&blocks)).unwrap();
        let joined = joined.expect("not joined");
        let apart = bits(&values, &factors, &[&*one(&product), &*one(&map)]);
        assert!(
            apart == bits(&values, &factors, &[&*joined]),
            "{shape:?} {dtype} {along} {turned:?}"
        );
        assert!(apart.iter().any(|&byte| byte != 0));
    }
}

/// Results that stay in a cache, one that lies elsewhere, a second large operand, another dtype.
#[test]
fn maps_that_would_not_gain_follow_the_product() {
    let is_joined = |values: &[Value], steps: &[Step; 2], memory: &Memory| {
        let program = Program { values: values.to_vec(), ..Program::default() };
        prepare_joined(&program, [&steps[0], &steps[1]], memory).unwrap().is_some()
    };
    let blocks: Vec<_> = (0..5).map(|_| Block::new(64)).collect();
    let shared = memory(&blocks);
    let elsewhere = Memory { pointers: blocks.iter().map(Block::pointer).collect() };
    let (values, steps) = dense([1024, 4096, 64], DType::F32, 1, [false; 2]);
    assert!(is_joined(&values, &steps, &shared));
    assert!(!is_joined(&values, &steps, &elsewhere));
    let (mut residual, mut both) = (values.clone(), steps.clone());
    residual[2] = values[3].clone();
    let Step::Map { inputs, .. } = &mut both[1] else { unreachable!() };
    inputs[1] = operand(2, &[0, 1]);
    assert!(!is_joined(&residual, &both, &shared));
    let (small, steps) = dense([256, 1024, 64], DType::F32, 1, [false; 2]);
    assert!(!is_joined(&small, &steps, &shared));
    let (whole, steps) = dense([4096, 4096, 64], DType::I32, 1, [false; 2]);
    assert!(!is_joined(&whole, &steps, &shared));
}
