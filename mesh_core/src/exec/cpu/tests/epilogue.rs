use super::contract::operand;
use super::*;
use crate::exec::cpu::{Kernel, prepare_joined};
use crate::program::{Body, Expr};
use smallvec::{SmallVec, smallvec};

/// The left factor.
const LHS: usize = 0;
/// What the map reads besides the product's result.
const OTHER: usize = 2;
const PRODUCT: usize = 3;
const RESULT: usize = 4;
/// A second result.
const MOMENT: usize = 5;

/// What the map does with the product `x`, and what it reads.
#[derive(Clone, Copy, Debug)]
enum Epilogue {
    /// `max(x + bias, 0)`, the bias along this dim; where `x` lies.
    Bias(u8),
    /// `x + other`, elsewhere.
    Residual,
    /// `m = 0.9 other + x` where `other` lies, and `m * x` elsewhere.
    Update,
}

struct Case {
    program: Program,
    product: Step,
    map: Step,
    /// Which value lies where another does.
    alias: SmallVec<[(usize, usize); 1]>,
}

/// Of `lhs rhs`, where `turned` are left factor and result.
fn case([m, n, k]: [usize; 3], dtype: DType, epilogue: Epilogue, turned: [bool; 2]) -> Case {
    let value = |extents: [usize; 2], turned: bool| {
        let mut value = Value::new(dtype, extents);
        if turned {
            value.order.reverse();
        }
        value
    };
    let (lhs, rhs, result) =
        (value([m, k], turned[0]), value([k, n], false), value([m, n], turned[1]));
    let (x, other) = (Expr::input(0), Expr::input(1));
    let (other_value, dims, results, alias) = match epilogue {
        Epilogue::Bias(dim) => {
            let bias = Value::new(dtype, [[m, n][usize::from(dim)]]);
            (bias, vec![dim], vec![(x + other).max(0.0)], (RESULT, PRODUCT))
        }
        Epilogue::Residual => (result.clone(), vec![0, 1], vec![x + other], (RESULT, RESULT)),
        Epilogue::Update => {
            let moment = other * 0.9 + x.clone();
            (result.clone(), vec![0, 1], vec![moment.clone() * x, moment], (MOMENT, OTHER))
        }
    };
    let outs =
        if results.len() == 1 { smallvec![id(RESULT)] } else { smallvec![id(RESULT), id(MOMENT)] };
    let results: Vec<_> = results.into_iter().map(|result| (result, dtype)).collect();
    let map = Step::Map {
        body: Body::new(&[dtype; 2], &results).unwrap(),
        inputs: vec![operand(PRODUCT, &[0, 1]), operand(OTHER, &dims)],
        outs,
    };
    let product =
        Step::Contract { lhs: operand(LHS, &[0, 2]), rhs: operand(1, &[2, 1]), out: id(PRODUCT) };
    let values = vec![lhs, rhs, other_value, result.clone(), result.clone(), result];
    Case {
        program: Program { values, ..Program::default() },
        product,
        map,
        alias: smallvec![alias],
    }
}

impl Case {
    fn memory(&self, blocks: &[Block]) -> Memory {
        let mut pointers: Vec<_> = blocks.iter().map(Block::pointer).collect();
        for &(value, at) in &self.alias {
            pointers[value] = pointers[at];
        }
        Memory { pointers }
    }

    fn joined(&self, memory: &Memory) -> Option<Box<dyn Kernel>> {
        prepare_joined(&self.program, [&self.product, &self.map], memory).unwrap()
    }

    fn alone(&self, step: &Step) -> Box<dyn Kernel> {
        prepare(&self.program, step, &Mesh::single(), 0, &Seed::new(7)).unwrap().unwrap()
    }

    /// The bits of the results after some kernels have run.
    fn bits(&self, blocks: &[Block], kernels: &[&dyn Kernel]) -> Vec<Vec<u8>> {
        let (values, memory) = (&self.program.values, self.memory(blocks));
        for (index, value) in values.iter().enumerate().take(PRODUCT) {
            // SAFETY: the block has the value's size.
            unsafe { whole(value, 3 + index as u64).write(memory.pointers[index]) };
        }
        let scratch = kernels.iter().map(|kernel| kernel.scratch_bytes()).max();
        let scratch = Block::new(scratch.unwrap_or_default());
        for kernel in kernels {
            // SAFETY: all blocks are of the values' sizes, aligned and apart, but for the alias.
            unsafe { kernel.run(&memory, scratch.pointer()) };
        }
        assert!(blocks.iter().chain([&scratch]).all(Block::is_guarded), "wrote beyond a value");
        let bits = |&out: &ValueId| {
            let bytes = self.program.value(out).bytes();
            // SAFETY: the block has the value's size.
            unsafe { std::slice::from_raw_parts(memory.pointer(out), bytes) }.to_vec()
        };
        self.map.outs().iter().map(bits).collect()
    }
}

#[test]
fn a_map_within_a_product_gives_the_bits_of_one_behind_it() {
    use Epilogue::{Bias, Residual, Update};
    for (shape, dtype, epilogue, turned) in [
        ([500, 4300, 40], DType::F32, Bias(1), [false, false]),
        ([500, 4300, 40], DType::F32, Residual, [false, true]),
        ([2100, 1030, 900], DType::F32, Bias(1), [true, false]),
        ([2100, 1030, 8], DType::F32, Residual, [false, false]),
        ([2100, 1030, 5], DType::F32, Update, [true, false]),
        ([2100, 1030, 300], DType::F32, Bias(0), [false, true]),
        ([2100, 1030, 300], DType::F32, Update, [true, false]),
        ([1030, 2100, 700], DType::F32, Update, [false, true]),
        ([140_000, 16, 32], DType::F32, Bias(0), [false, false]),
        ([140_000, 16, 9], DType::F32, Residual, [false, false]),
        ([90, 24_000, 20], DType::F32, Bias(1), [false, false]),
        ([90, 24_000, 20], DType::F32, Residual, [true, true]),
        ([140_000, 16, 32], DType::F32, Update, [false, false]),
        ([90, 12_000, 600], DType::F64, Bias(1), [false, false]),
        ([90, 12_000, 600], DType::F64, Residual, [true, false]),
    ] {
        let case = case(shape, dtype, epilogue, turned);
        let blocks = || {
            case.program.values.iter().map(|value| Block::new(value.bytes())).collect::<Vec<_>>()
        };
        let (one, two) = (blocks(), blocks());
        let joined = case.joined(&case.memory(&one)).expect("not joined");
        let (product, map) = (case.alone(&case.product), case.alone(&case.map));
        let apart = case.bits(&two, &[&*product, &*map]);
        let what = format!("{shape:?} {dtype} {epilogue:?} {turned:?}");
        assert!(apart == case.bits(&one, &[&*joined]), "{what}");
        assert!(apart.iter().all(|bits| bits.iter().any(|&byte| byte != 0)), "{what}");
    }
}

/// A result that stays in a cache, a deep product, a result that lies where a factor does, one that lies
/// across the product's, an input in another order, many large inputs, another dtype.
#[test]
fn maps_that_would_not_gain_or_write_too_early_follow_the_product() {
    const SHAPE: [usize; 3] = [1024, 4096, 512];
    let blocks: Vec<_> = (0..6).map(|_| Block::new(64 << 20)).collect();
    let is_joined = |case: &Case| case.joined(&case.memory(&blocks)).is_some();
    let of = |shape, dtype| case(shape, dtype, Epilogue::Residual, [false; 2]);
    assert!(is_joined(&of(SHAPE, DType::F32)));
    assert!(!is_joined(&of([256, 1024, 64], DType::F32)));
    assert!(!is_joined(&of([1024, 4096, 1100], DType::F32)));
    assert!(!is_joined(&of(SHAPE, DType::I32)));
    let mut on_factor = of(SHAPE, DType::F32);
    on_factor.alias[0] = (RESULT, LHS);
    assert!(!is_joined(&on_factor));
    let across = of(SHAPE, DType::F32);
    let mut memory = across.memory(&blocks);
    memory.pointers[RESULT] = memory.pointers[PRODUCT].wrapping_add(4096);
    assert!(across.joined(&memory).is_none());
    let mut turned = of([2048, 2048, 64], DType::F32);
    let Step::Map { inputs, .. } = &mut turned.map else { unreachable!() };
    inputs[0] = operand(PRODUCT, &[1, 0]);
    assert!(!is_joined(&turned));
    let mut many = of(SHAPE, DType::F32);
    let Step::Map { inputs, .. } = &mut many.map else { unreachable!() };
    inputs.extend([operand(OTHER, &[0, 1]), operand(OTHER, &[0, 1])]);
    assert!(!is_joined(&many));
}
