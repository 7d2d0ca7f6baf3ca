//! Rotary positions: queries and keys are turned by angles that grow with their position, so that
//! products depend on how far apart they are (RoFormer, arXiv 2104.09864; halves paired as in
//! GPT-NeoX).

use crate::elementwise::{cast, cos, sin};
use crate::layers::fit::Fit;
use crate::room::*;
use mesh_core::array::Array;

/// Cosines and sines for some positions; made once, used by every layer.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::Rotation;
/// # let g = mesh_ops::graph();
/// let (length, heads, kv) = (dim("length", 16), dim("heads", 4), dim("kv", 8));
/// let rotation = Rotation::new(mesh_ops::range(&g, length, I32), kv, 10_000.0);
/// let q = g.input("q", [length, heads, kv], F32);
/// assert_eq!(rotation.apply(q, kv).shape(), q.shape());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'g> {
    /// `cos(angle)`, with the positions' dims and `kv`.
    pub cos: Tensor<'g>,
    /// `sin(angle)`, negative in the first half of `kv`.
    pub sin: Tensor<'g>,
}
crate::layers::parameters::weights!(Rotation { cos, sin });

impl<'g> Rotation<'g> {
    /// For positions of any dims, i32: index `i` and `i + half` of `kv` are turned together by
    /// `position * base^(-i / half)`. Angles are computed in f32.
    #[track_caller]
    pub fn new(positions: Tensor<'g>, kv: Dimension, base: f64) -> Self {
        Self::new_in(DType::F32, positions, kv, base)
    }

    /// As [`new`](Self::new), with angles computed in f32 or f64.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::attention::Rotation;
    /// # let g = mesh_ops::graph();
    /// let positions = mesh_ops::range(&g, dim("length", 16), I32);
    /// let rotation = Rotation::new_in(F64, positions, dim("kv", 8), 10_000.0);
    /// assert_eq!(rotation.cos.dtype(), F64);
    /// ```
    #[track_caller]
    pub fn new_in(dtype: DType, positions: Tensor<'g>, kv: Dimension, base: f64) -> Self {
        let _layer = positions.graph().for_layer("rotary");
        let graph = positions.graph();
        let own = positions.shape().contains(kv.name);
        let fit = Fit::new()
            .integers("positions", positions)
            .and(positions, || own.then(|| format!("positions {positions:?} have the dim {kv}")))
            .and(positions, || {
                let odd = !kv.size.is_multiple_of(2);
                odd.then(|| format!("{kv} cannot be turned in pairs: make it even"))
            })
            .and(positions, || {
                let legal = base > 0.0 && base.is_finite();
                (!legal).then(|| format!("a base is positive and finite, not {base}"))
            });
        if let Some(poisoned) = fit.refused("rotary", positions) {
            return Self { cos: poisoned, sin: poisoned };
        }
        let _caller = graph.for_caller();
        let half = kv.size / 2;
        let frequency = |i: usize| base.powf(-((i % half) as f64) / half as f64);
        let table = |f: &dyn Fn(usize) -> f64| -> Tensor<'g> {
            let elements = ndarray::Array1::from_shape_fn(kv.size, f).into_dyn();
            let rounded = |element: &f64| *element as f32;
            let array = match dtype {
                DType::F64 => Array::from(elements),
                _ => Array::from(elements.map(rounded)),
            };
            graph.constant(array, [kv])
        };
        let frequencies = table(&frequency);
        let signs = table(&|i| if i < half { -1.0 } else { 1.0 });
        let angle = cast(positions, frequencies.dtype()) * frequencies;
        Self { cos: cos(angle), sin: sin(angle) * signs }
    }

    /// `x`, which has the dims of the positions, with its dim `kv` turned. Every dim may be split; halves of a split `kv` are exchanged.
    #[track_caller]
    pub fn apply(&self, x: Tensor<'g>, kv: Dimension) -> Tensor<'g> {
        let _layer = x.graph().for_layer("rotary");
        let fit = Fit::new().floats("the input", x).has("the input", x, kv).has(
            "the rotation",
            self.cos,
            kv,
        );
        let fit = fit.among("positions", self.cos, &x.shape());
        if let Some(poisoned) = fit.refused("rotary", x) {
            return poisoned;
        }
        let wide = x.dtype().reduction();
        let other = crate::shift(x, kv, (kv.size / 2) as i64, true);
        let (cos, sin) = (cast(self.cos, wide), cast(self.sin, wide));
        cast(cast(x, wide) * cos + cast(other, wide) * sin, x.dtype())
    }
}
