//! What a [`Step::Call`](super::Step::Call) runs: kernels that users write.

use super::Value;
use crate::array::Array;
use half::bf16;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use std::any::{Any, TypeId};
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Work that no other step form can express, on one processor's slices.
///
/// Results depend on the inputs and on the kernel's own attributes alone, which its equality and
/// hash compare: calls of equal kernels on equal values are made once. A kernel knows no layout;
/// the op that calls it says in its split rule which dims may be split.
///
/// A panic ends the session's call with an error that names the step and the user's line.
pub trait UserKernel: Debug + Eq + Hash + Send + Sync + 'static {
    /// What programs print, and the target of StableHLO's custom_call.
    fn name(&self) -> &'static str;

    /// Floating-point operations for values of these types.
    fn flops(&self, inputs: &[&Value], outs: &[&Value]) -> u64;

    /// Fills the outs, which begin as zeros. A kernel that needs room to work in declares one more
    /// out: while processors run, nothing should be allocated.
    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]);

    /// The same work in StableHLO, for XLA's devices: the body of a function of the inputs, which are called
    /// `%arg0`, `%arg1`, …, up to and with its `return` of the outs. Types are those of the values, in
    /// declared order: an f32 value of 4 by 8 is `tensor<4x8xf32>`. `None` if there is none; then no XLA device runs
    /// the kernel.
    ///
    /// ```
    /// use mesh_core::program::Value;
    /// /// Of a kernel that doubles one value.
    /// fn stablehlo(inputs: &[&Value], _outs: &[&Value]) -> Option<String> {
    ///     let sizes: String = inputs[0].extents.iter().map(|n| format!("{n}x")).collect();
    ///     let kind = format!("tensor<{sizes}{}>", inputs[0].dtype);
    ///     let sum = format!("%0 = stablehlo.add %arg0, %arg0 : {kind}");
    ///     Some(format!("{sum}\n return %0 : {kind}"))
    /// }
    /// # use mesh_core::names::DType;
    /// # let value = Value::new(DType::F32, [4, 8]);
    /// # assert!(stablehlo(&[&value], &[&value]).unwrap().ends_with("return %0 : tensor<4x8xf32>"));
    /// ```
    fn stablehlo(&self, _inputs: &[&Value], _outs: &[&Value]) -> Option<String> {
        None
    }
}

/// A value that a kernel reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View<'a> {
    /// Local size of each dim.
    pub extents: &'a [usize],
    /// In declared order, the last dim fastest.
    pub elements: Elements<'a>,
}

/// A value that a kernel fills.
#[derive(PartialEq, Debug)]
pub struct ViewMut<'a> {
    /// Local size of each dim.
    pub extents: &'a [usize],
    /// In declared order, the last dim fastest.
    pub elements: ElementsMut<'a>,
}

/// Elements of any of the dtypes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Elements<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// bf16 floats.
    BF16(&'a [bf16]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// Truth values.
    Bool(&'a [bool]),
}

/// Elements of any of the dtypes, to be written.
#[derive(PartialEq, Debug)]
pub enum ElementsMut<'a> {
    /// 32-bit floats.
    F32(&'a mut [f32]),
    /// 64-bit floats.
    F64(&'a mut [f64]),
    /// bf16 floats.
    BF16(&'a mut [bf16]),
    /// 32-bit integers.
    I32(&'a mut [i32]),
    /// Truth values.
    Bool(&'a mut [bool]),
}

impl<'a> Elements<'a> {
    /// Those of an array in declared order.
    pub(super) fn of(array: &'a Array) -> Self {
        match array {
            Array::F32(of) => Self::F32(of.as_slice().unwrap_or_default()),
            Array::F64(of) => Self::F64(of.as_slice().unwrap_or_default()),
            Array::BF16(of) => Self::BF16(of.as_slice().unwrap_or_default()),
            Array::I32(of) => Self::I32(of.as_slice().unwrap_or_default()),
            Array::Bool(of) => Self::Bool(of.as_slice().unwrap_or_default()),
        }
    }
}

impl<'a> ElementsMut<'a> {
    /// Those of an array in declared order.
    pub(super) fn of(array: &'a mut Array) -> Self {
        match array {
            Array::F32(of) => Self::F32(of.as_slice_mut().unwrap_or_default()),
            Array::F64(of) => Self::F64(of.as_slice_mut().unwrap_or_default()),
            Array::BF16(of) => Self::BF16(of.as_slice_mut().unwrap_or_default()),
            Array::I32(of) => Self::I32(of.as_slice_mut().unwrap_or_default()),
            Array::Bool(of) => Self::Bool(of.as_slice_mut().unwrap_or_default()),
        }
    }
}

/// A [`UserKernel`] as programs hold it.
#[derive(Clone)]
pub struct Opaque(Arc<dyn DynKernel>);

impl Opaque {
    /// Holds a kernel.
    pub fn new(kernel: impl UserKernel) -> Self {
        Self(Arc::new(kernel))
    }

    /// See [`UserKernel::name`].
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    pub(super) fn flops(&self, inputs: &[&Value], outs: &[&Value]) -> u64 {
        self.0.flops(inputs, outs)
    }

    pub(crate) fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        self.0.run(inputs, outs);
    }

    pub(super) fn stablehlo(&self, inputs: &[&Value], outs: &[&Value]) -> Option<String> {
        self.0.stablehlo(inputs, outs)
    }
}

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom(format!("kernel `{}` is code, which no file holds", self.name())))
    }
}

impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(de::Error::custom("a kernel is code, which no file holds"))
    }
}

impl Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_dyn(&*other.0)
    }
}

impl Eq for Opaque {}

impl Hash for Opaque {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_dyn(state);
    }
}

/// [`UserKernel`] made object safe.
trait DynKernel: Any + Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn flops(&self, inputs: &[&Value], outs: &[&Value]) -> u64;
    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]);
    fn stablehlo(&self, inputs: &[&Value], outs: &[&Value]) -> Option<String>;
    fn eq_dyn(&self, other: &dyn DynKernel) -> bool;
    fn hash_dyn(&self, state: &mut dyn Hasher);
}

impl<T: UserKernel> DynKernel for T {
    fn name(&self) -> &'static str {
        UserKernel::name(self)
    }

    fn flops(&self, inputs: &[&Value], outs: &[&Value]) -> u64 {
        UserKernel::flops(self, inputs, outs)
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        UserKernel::run(self, inputs, outs);
    }

    fn stablehlo(&self, inputs: &[&Value], outs: &[&Value]) -> Option<String> {
        UserKernel::stablehlo(self, inputs, outs)
    }

    fn eq_dyn(&self, other: &dyn DynKernel) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }

    fn hash_dyn(&self, mut state: &mut dyn Hasher) {
        TypeId::of::<T>().hash(&mut state);
        self.hash(&mut state);
    }
}
