//! `resize`: an image, or anything along dims, sampled at other positions.
//!
//! A composition, dim by dim: new positions are weighted sums of a few old ones, or copies of one. Blocks of
//! positions depend on their neighbourhood only, so a split dim exchanges margins (`Bands`).

mod kernel;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof;

use crate::banded::{Bands, greatest_divisor};
use crate::room::*;

/// How new positions are made of old ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// A copy of the nearest position, by the middles of pixels (`jax.image`'s nearest, torch's nearest-exact);
    /// any dtype.
    Nearest,
    /// A copy of the position `floor(i old / new)`: torch's nearest, which the beginnings of pixels decide; any dtype.
    NearestBelow,
    /// Linear between two positions.
    Linear,
    /// Keys' cubic convolution of four positions with the coefficient -1/2; at the ends the weights of those that
    /// there are add up to 1 (`jax.image`'s cubic).
    Cubic,
    /// The same with the coefficient -3/4; beyond the ends the last position is repeated (torch's bicubic).
    CubicRepeated,
}

/// New sizes of some dims, and how they are reached. The middles of pixels are aligned: new position i
/// is at `(i + 1/2) old / new - 1/2`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::resize::{Method, Resize, resize};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", "batch:2;h:14;w:14;colour:3".parse::<Shape>()?, F32);
/// let doubled = Resize::to([("h", 28), ("w", 28)]);
/// assert_eq!(resize(x, &doubled).shape().to_string(), "[batch:2, h:28, w:28, colour:3]");
/// let corners = doubled.clone().method(Method::CubicRepeated).corners();
/// let small = Resize::to([("h", 7)]).antialias();
/// assert_eq!(x.resize(&corners).resize(&small).shape().to_string(), "[batch:2, h:7, w:28, colour:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Resize {
    sizes: Vec<(DimName, usize)>,
    method: Method,
    corners: bool,
    antialias: bool,
}

impl Resize {
    /// These dims get these sizes; linear.
    pub fn to<D: Into<DimName>>(sizes: impl IntoIterator<Item = (D, usize)>) -> Self {
        let sizes = sizes.into_iter().map(|(dim, size)| (dim.into(), size)).collect();
        Self { sizes, method: Method::Linear, corners: false, antialias: false }
    }

    /// How new positions are made of old ones.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Aligns the first and the last positions instead: new position i is at `i (old - 1) / (new - 1)` (torch's
    /// `align_corners`). Not for the nearest.
    pub fn corners(mut self) -> Self {
        self.corners = true;
        self
    }

    /// Where a dim shrinks, new positions are made of as many more old ones, so that nothing between them is lost
    /// (`jax.image`'s default). For [`Method::Linear`] and [`Method::Cubic`].
    pub fn antialias(mut self) -> Self {
        self.antialias = true;
        self
    }

    fn copies(&self) -> bool {
        matches!(self.method, Method::Nearest | Method::NearestBelow)
    }

    /// What is wrong with it for `x`.
    fn problem(&self, x: Tensor<'_>) -> Option<String> {
        let shape = x.shape();
        for (i, (dim, size)) in self.sizes.iter().enumerate() {
            if !shape.contains(*dim) {
                return Some(format!("{x:?} has no dim {dim}"));
            }
            if *size == 0 {
                return Some(format!("{dim} gets at least 1 position"));
            }
            if self.sizes[..i].iter().any(|(other, _)| other == dim) {
                return Some(format!("the dim {dim} is given twice"));
            }
        }
        if self.copies() && (self.corners || self.antialias) {
            return Some("the nearest has neither corners nor antialiasing".to_owned());
        }
        if self.antialias && self.method == Method::CubicRepeated {
            return Some("antialiasing is for the linear and cubic methods".to_owned());
        }
        let problem =
            || format!("{:?} needs floats, and {x:?} is of {}; cast it", self.method, x.dtype());
        (!self.copies() && !x.dtype().is_float()).then(problem)
    }
}

/// `x` with other sizes of some dims, one dim after the other, copies or else sums of all positions near by, weighted
/// with zeros among others.
///
/// So NaN or an infinity reaches new positions that give it the weight 0, as NaN: in all of its block of the dim, of
/// which there are as many as the greatest common divisor of the two sizes. `jax.image.resize` has it in all of the dim;
/// torch's linear method reads two positions alone, and keeps the others. Copies stay apart.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::resize::{Resize, resize};
/// # let g = mesh_ops::graph();
/// let (batch, time) = (dim("batch", 2), dim("time", 10));
/// let x = g.input("x", [batch, time], F32);
/// assert_eq!(resize(x, &Resize::to([("time", 15)])).shape().to_string(), "[batch:2, time:15]");
/// ```
#[track_caller]
pub fn resize<'g>(x: Tensor<'g>, resize: &Resize) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    if x.is_poisoned() {
        return x;
    }
    if let Some(problem) = resize.problem(x) {
        x.graph().record("resize", problem);
        return x.poisoned();
    }
    let shape = x.shape();
    let changed = resize.sizes.iter().filter_map(|&(name, size)| {
        shape.get(name).filter(|dim| dim.size != size).map(|dim| (dim, size))
    });
    let mut resized = x;
    for (dim, size) in changed {
        resized = match resize.copies() {
            true => copied(resized, dim, size, resize.method == Method::NearestBelow),
            false => {
                Bands::new(dim, size, |to| kernel::seen(resize, dim.size, size, to)).sums(resized)
            }
        };
    }
    resized
}

/// The nearest positions. Those of a block are in the same block of the old dim: nothing travels.
#[track_caller]
fn copied(x: Tensor<'_>, dim: Dimension, size: usize, below: bool) -> Tensor<'_> {
    let count = greatest_divisor(dim.size, size);
    let (old, new) = (dim.size / count, size / count);
    let shape = x.shape();
    let (blocks, within) = (dim.resized(count), apart(&shape, dim, "within").resized(old));
    let phase = apart(&shape, dim, "phase").resized(new);
    let spread = |inner: Dimension| {
        let dims = |d: Dimension| if d == dim { vec![blocks, inner] } else { vec![d] };
        shape.iter().flat_map(dims).collect::<Vec<_>>()
    };
    // In halves of an old position, so that it is exact.
    let nearest = |to: usize| (2 * to + usize::from(!below)) * old / (2 * new);
    let indices: Vec<i32> = (0..new).filter_map(|to| i32::try_from(nearest(to)).ok()).collect();
    let indices = x.graph().constant(ndarray::Array1::from(indices), [phase]);
    let parts = crate::reshape(x, spread(within));
    let found = crate::transpose(crate::gather(parts, indices, within), spread(phase));
    let whole = |d: Dimension| if d == dim { dim.resized(size) } else { d };
    crate::reshape(found, shape.iter().map(whole).collect::<Vec<_>>())
}
