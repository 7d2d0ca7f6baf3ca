//! An op of another crate that fails for some numbers.

use mesh_core::graph::{Op, OpError, Signature, TensorType};
use mesh_core::lower::LocalCx;
use mesh_core::program::{Elements, ElementsMut, UserKernel, Value, View, ViewMut};
use mesh_core::split::SplitRule;

/// Copies its input, and fails at a number below 0.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Picky;

impl UserKernel for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn flops(&self, _: &[&Value], _: &[&Value]) -> u64 {
        0
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        if let (Elements::F32(x), ElementsMut::F32(y)) = (inputs[0].elements, &mut outs[0].elements)
        {
            assert!(x.iter().all(|&x| x >= 0.0), "not below 0, please");
            y.copy_from_slice(x);
        }
    }
}

impl Op for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let outs = [(cx.output_shape(0), cx.output_dtype(0))];
        let made = cx.call(Self, &cx.inputs(), &outs);
        made.into_iter().try_for_each(|value| cx.finish(0, value))
    }
}
