//! `fill` and `constant`: tensors known when the graph is built.
//!
//! Any layout of their dims is legal; each processor makes its own slice.

use crate::array::Array;
use crate::graph::{Op, OpError, Signature, TensorType};
use crate::lower::LocalCx;
use crate::names::{DType, Shape};
use crate::program::{Generator, Scalar};
use crate::split::SplitRule;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    /// As given, in f64.
    given: Scalar,
    ty: TensorType,
}

impl Fill {
    pub(crate) fn new(value: f64, ty: TensorType) -> Self {
        Self { given: Scalar::new(DType::F64, value), ty }
    }

    pub(crate) fn value(&self) -> Scalar {
        Scalar::new(self.ty.dtype, self.given.value())
    }
}

impl Op for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Scalar::checked(self.ty.dtype, self.given.value())?;
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.generate(Generator::Fill(self.value()));
        Ok(())
    }
}

/// Compared by identity of the data: two constants of equal elements are two constants.
#[derive(Debug)]
pub(crate) struct Constant {
    data: Arc<Array>,
    shape: Shape,
}

impl Constant {
    pub(crate) fn new(data: Array, shape: Shape) -> Self {
        Self { data: Arc::new(data), shape }
    }

    pub(crate) fn data(&self) -> &Arc<Array> {
        &self.data
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data) && self.shape == other.shape
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.data).hash(state);
        self.shape.hash(state);
    }
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![TensorType::new(self.shape.clone(), self.data.dtype())])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.generate(Generator::Table(self.data.clone()));
        Ok(())
    }
}
