//! Weights: how layers make them, and how they are handled as one.
//!
//! A layer with weights has three parts: a description (plain data), `weights`, which makes
//! variables, and a method that takes them. So the same weights serve several functions, and weights
//! of many equal layers can be one variable each with a dim in front, of which a loop takes slices.
//!
//! A variable has a dtype that it is stored in and another that layers compute in; in Mesh TensorFlow's
//! words the first is both the master and the slice dtype, the second the activation dtype. Optimizers
//! update what is stored. Gradients have the dtype that is computed in where they arise, and the stored
//! one at the variable. A sum of bf16 that is owed is f32 until it is settled, and the cast to f32 is
//! carried through it: gradients of bf16 activations are reduced in f32.

use crate::elementwise::cast;
use crate::room::*;
use mesh_core::graph::{Graph, Initializer, Scope};

/// Makes the variables that layers ask for.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{Dense, Parameters};
/// # let g = mesh_ops::graph();
/// let (layers, x, y) = (dim("layers", 6), dim("x", 4), dim("y", 3));
/// let stacked = Parameters::new(&g, F32).stacked([layers]);
/// let weights = Dense::onto([y]).over([x]).weights(&stacked, "hidden");
/// assert_eq!(weights.kernel.shape().to_string(), "[layers:6, x:4, y:3]");
/// ```
#[derive(Clone, Debug)]
pub struct Parameters<'g> {
    graph: &'g Graph,
    stored: DType,
    computed: DType,
    stacked: Vec<Dimension>,
}

impl<'g> Parameters<'g> {
    /// Variables stored and computed in this dtype.
    pub fn new(graph: &'g Graph, dtype: DType) -> Self {
        Self { graph, stored: dtype, computed: dtype, stacked: Vec::new() }
    }

    /// As activations are: computed in the dtype of `x`, and stored in it, but for bf16, which is
    /// stored in f32: an update much smaller than a value would vanish in bf16.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// # let g = mesh_ops::graph();
    /// let x = g.input("x", [dim("batch", 4), dim("x", 8)], F32);
    /// assert!(std::ptr::eq(Parameters::like(x).graph(), &g));
    /// let y = x.cast(BF16).dense(dim("y", 3), "layer");
    /// assert_eq!(y.dtype(), BF16);
    /// assert!(g.trainable_variables().iter().all(|variable| variable.dtype() == F32));
    /// ```
    pub fn like(x: Tensor<'g>) -> Self {
        Self::new(x.graph(), x.dtype().reduction()).computed_in(x.dtype())
    }

    /// Layers get the values in this dtype, whatever the variables are stored in.
    pub fn computed_in(mut self, dtype: DType) -> Self {
        self.computed = dtype;
        self
    }

    /// Every variable gets these dims in front; initial values are as without them.
    pub fn stacked(mut self, dims: impl IntoIterator<Item = Dimension>) -> Self {
        self.stacked = dims.into_iter().collect();
        self
    }

    /// The graph.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Names made while the returned scope lives begin with `name/`.
    #[must_use = "the scope ends when this value is dropped"]
    pub fn scope(&self, name: &str) -> Scope<'g> {
        self.graph.scope(name)
    }

    /// The value of a new trainable variable.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// # let g = mesh_ops::graph();
    /// let parameters = Parameters::new(&g, F32).computed_in(BF16);
    /// let scope = parameters.scope("layer");
    /// let scale = parameters.variable("scale", [dim("x", 4)], Initializer::ONES);
    /// drop(scope);
    /// assert_eq!((scale.dtype(), g.trainable_variables()[0].name()), (BF16, "layer/scale".into()));
    /// ```
    #[track_caller]
    pub fn variable(
        &self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        initializer: Initializer,
    ) -> Tensor<'g> {
        let dims = self.stacked.iter().copied().chain(dims);
        cast(self.graph.variable(name, dims, self.stored, initializer).value(), self.computed)
    }
}

/// The weights of a layer: a fixed structure of tensors.
pub trait Weights<'g>: Sized + Clone {
    /// The same structure with every tensor replaced, in a fixed order.
    fn mapped(self, f: &mut dyn FnMut(Tensor<'g>) -> Tensor<'g>) -> Self;

    /// Every tensor, in the order of [`mapped`](Self::mapped).
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Dense, Parameters, Weights};
    /// # let g = mesh_ops::graph();
    /// let (x, y) = (dim("x", 4), dim("y", 3));
    /// let weights = Dense::onto([y]).over([x]).weights(&Parameters::new(&g, F32), "hidden");
    /// assert_eq!(weights.tensors().len(), 2);
    /// ```
    fn tensors(&self) -> Vec<Tensor<'g>> {
        let mut all = Vec::new();
        let _ = self.clone().mapped(&mut |tensor| {
            all.push(tensor);
            tensor
        });
        all
    }
}

impl<'g> Weights<'g> for Tensor<'g> {
    fn mapped(self, f: &mut dyn FnMut(Tensor<'g>) -> Tensor<'g>) -> Self {
        f(self)
    }
}

impl<'g, T: Weights<'g>> Weights<'g> for Option<T> {
    fn mapped(self, f: &mut dyn FnMut(Tensor<'g>) -> Tensor<'g>) -> Self {
        self.map(|weights| weights.mapped(f))
    }
}

impl<'g, T: Weights<'g>> Weights<'g> for Vec<T> {
    fn mapped(self, f: &mut dyn FnMut(Tensor<'g>) -> Tensor<'g>) -> Self {
        self.into_iter().map(|weights| weights.mapped(f)).collect()
    }
}

/// Weights field by field.
macro_rules! weights {
    ($name:ident { $($field:ident),* }) => {
        impl<'g> $crate::layers::Weights<'g> for $name<'g> {
            fn mapped(
                self,
                f: &mut dyn FnMut(
                    mesh_core::graph::Tensor<'g>,
                ) -> mesh_core::graph::Tensor<'g>,
            ) -> Self {
                Self { $($field: $crate::layers::Weights::mapped(self.$field, f)),* }
            }
        }
    };
}
pub(super) use weights;
