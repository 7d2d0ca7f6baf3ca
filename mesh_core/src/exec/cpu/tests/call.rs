use super::oracle::declared;
use super::{DTYPES, Tensor, run, step, whole};
use crate::names::DType;
use crate::program::forms::Call;
use crate::program::{Elements, ElementsMut, Opaque, Step, UserKernel, Value, View, ViewMut};
use smallvec::smallvec;

/// Every input backwards, but for its first element.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Backwards;

fn turned<T: Copy>(from: &[T], to: &mut [T]) {
    let all_but_first = from.iter().skip(1).rev();
    all_but_first.zip(to).for_each(|(from, to)| *to = *from);
}

impl UserKernel for Backwards {
    fn name(&self) -> &'static str {
        "backwards"
    }

    fn flops(&self, _: &[&Value], _: &[&Value]) -> u64 {
        0
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        for (input, out) in inputs.iter().zip(outs) {
            assert_eq!(input.extents, out.extents);
            match (input.elements, &mut out.elements) {
                (Elements::F32(from), ElementsMut::F32(to)) => turned(from, to),
                (Elements::F64(from), ElementsMut::F64(to)) => turned(from, to),
                (Elements::BF16(from), ElementsMut::BF16(to)) => turned(from, to),
                (Elements::I32(from), ElementsMut::I32(to)) => turned(from, to),
                (Elements::Bool(from), ElementsMut::Bool(to)) => turned(from, to),
                (from, to) => panic!("{from:?} to {to:?}"),
            }
        }
    }
}

fn call(values: &[Value]) -> Step {
    let dims = values.iter().map(|value| declared(value.extents.len()));
    step(Call { kernel: Opaque::new(Backwards) }, dims, values.len())
}

#[test]
fn kernels_see_elements_in_order_and_outs_of_zeros() {
    let sizes = [vec![2, 3], vec![], vec![5], vec![1, 4, 2], vec![7]];
    let value = |(dtype, sizes): (&DType, &Vec<usize>)| Value::new(*dtype, sizes.iter().copied());
    let values: Vec<_> = DTYPES.iter().zip(&sizes).map(value).collect();
    let inputs: Vec<_> = values.iter().zip(1..).map(|(value, seed)| whole(value, seed)).collect();
    let got = run(&inputs, &values, &call(&values)).unwrap();
    for (got, input) in got.iter().zip(&inputs) {
        let behind = input.data.iter().skip(1).rev().copied();
        assert_eq!(got, &Tensor::new(input.value.clone(), behind.chain([0.0])));
    }
}

#[test]
fn other_memory_orders_are_refused() {
    let value = Value { order: smallvec![1, 0], ..Value::new(DType::F32, [2, 3]) };
    let values = std::slice::from_ref(&value);
    let error = run(&[whole(&value, 1)], values, &call(values)).unwrap_err();
    assert_eq!(error, "%0 is f32[2, 3] order [1, 0], not in declared order");
}
