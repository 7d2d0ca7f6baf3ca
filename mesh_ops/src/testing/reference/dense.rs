//! A tensor of the reference: all elements as f64, in declared order.

use mesh_core::array::Array;
use mesh_core::graph::TensorType;
use mesh_core::names::{DType, DimName, Dimension, Shape};

/// A whole tensor. Every dtype is held as f64: i32 and bool exactly, floats without rounding.
#[derive(Clone, PartialEq, Debug)]
pub struct Dense {
    /// Named dims and what the elements stand for.
    pub ty: TensorType,
    /// Row-major in declared order; `true` is 1.
    pub data: Vec<f64>,
}

impl Dense {
    /// Zeros.
    pub fn zeros(ty: TensorType) -> Self {
        Self::filled(ty, 0.0)
    }

    /// Equal elements.
    pub fn filled(ty: TensorType, value: f64) -> Self {
        let data = vec![value; ty.shape.size()];
        Self { ty, data }
    }

    /// A tensor whose elements are made one by one.
    pub fn each(ty: &TensorType, element: impl Fn(&At) -> f64) -> Self {
        Self { ty: ty.clone(), data: At::all(&ty.shape).iter().map(element).collect() }
    }

    /// The elements changed one by one.
    #[must_use]
    pub fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        self.data.iter_mut().for_each(|x| *x = f(*x));
        self
    }

    /// The element there; indices along other dims count for nothing. NaN beyond the ends.
    pub fn at(&self, at: &At) -> f64 {
        self.data.get(at.number(&self.ty.shape)).copied().unwrap_or(f64::NAN)
    }

    /// An array under named dims.
    pub fn from_array(array: &Array, shape: &Shape) -> Self {
        let ty = TensorType::new(shape.clone(), array.dtype());
        Self { ty, data: array.to_f64().iter().copied().collect() }
    }

    /// The elements as an array, rounded to the dtype.
    ///
    /// # Errors
    /// If there are more or fewer elements than the dims say.
    pub fn to_array(&self) -> Result<Array, String> {
        fn array<T: Clone>(
            dense: &Dense,
            element: impl Fn(f64) -> T,
        ) -> Result<ndarray::ArrayD<T>, String> {
            let data = dense.data.iter().map(|&x| element(x)).collect();
            ndarray::ArrayD::from_shape_vec(dense.ty.shape.sizes(), data).map_err(|e| e.to_string())
        }
        match self.ty.dtype {
            DType::F32 => Ok(array(self, |x| x as f32)?.into()),
            DType::F64 => Ok(array(self, |x| x)?.into()),
            DType::I32 => Ok(array(self, |x| x as i32)?.into()),
            DType::Bool => Ok(array(self, |x| x != 0.0)?.into()),
            DType::BF16 => Ok(array(self, half::bf16::from_f64)?.into()),
        }
    }
}

/// Where an element lies: an index along each of some dims, by name. What a composition means is said
/// with it, element by element.
///
/// ```
/// use mesh_ops::testing::{At, Dense};
/// # use mesh_core::graph::TensorType;
/// # use mesh_ops::prelude::*;
/// let ty = TensorType::new("p:2;q:3".parse()?, F32);
/// let x = Dense { ty: ty.clone(), data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
/// let reversed = Dense::each(&ty, |at| x.at(&at.with("q", 2 - at.along("q"))));
/// assert_eq!(reversed.data, [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct At(Vec<(&'static str, usize)>);

impl At {
    /// All places of a tensor of this shape, in row-major order.
    pub fn all(shape: &Shape) -> Vec<Self> {
        let along = |number, dim: Dimension| (dim.name.as_str(), along(shape, number, dim.name));
        let place = |number| Self(shape.iter().map(|dim| along(number, dim)).collect());
        (0..shape.size()).map(place).collect()
    }

    /// The index along a dim; 0 if there is none.
    pub fn along(&self, dim: &str) -> usize {
        self.0.iter().find(|(own, _)| *own == dim).map_or(0, |&(_, index)| index)
    }

    /// The number, in row-major order, of the element of this shape; past the last if there is none.
    pub fn number(&self, shape: &Shape) -> usize {
        let mut number = 0;
        for dim in shape {
            let index = self.along(dim.name.as_str());
            if index >= dim.size {
                return shape.size();
            }
            number = number * dim.size + index;
        }
        number
    }

    /// With the indices along the dims of another place.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        other.0.iter().fold(self.clone(), |at, &(dim, index)| at.with(dim, index))
    }

    /// Another index along a dim.
    #[must_use]
    pub fn with(&self, dim: &'static str, index: usize) -> Self {
        let others = self.0.iter().filter(|(own, _)| *own != dim);
        Self(others.copied().chain([(dim, index)]).collect())
    }
}

/// How far apart neighbours along a dim lie; 0 if there is no such dim.
pub(crate) fn stride(shape: &Shape, dim: DimName) -> usize {
    shape.position(dim).map_or(0, |at| shape.sizes()[at + 1..].iter().product())
}

/// Where each element of `over`, in row-major order, lies in a tensor of shape `of`: by name; a
/// dim that `of` lacks is repeated, one that `over` lacks is at 0.
pub(crate) fn offsets(of: &Shape, over: &Shape) -> Vec<usize> {
    let mut all = vec![0];
    for dim in over {
        let step = stride(of, dim.name);
        let along = |&base: &usize| (0..dim.size).map(move |i| base + i * step);
        all = all.iter().flat_map(along).collect();
    }
    all
}

/// How many elements there are along a dim.
pub(crate) fn extent(shape: &Shape, dim: DimName) -> usize {
    shape.get(dim).map_or(1, |d| d.size)
}

/// The index along a dim of the element of this number in row-major order; 0 if there is no such dim.
pub(crate) fn along(shape: &Shape, number: usize, dim: DimName) -> usize {
    shape.get(dim).map_or(0, |d| number / stride(shape, dim) % d.size)
}

/// Under the dims of `ty`: reordered, and repeated along dims that `x` lacks.
pub(crate) fn permuted(x: &Dense, ty: &TensorType) -> Dense {
    let data = offsets(&x.ty.shape, &ty.shape).into_iter().map(|at| x.data[at]).collect();
    Dense { ty: ty.clone(), data }
}

/// Each element from another position along one dim; 0 from beyond the ends.
pub(crate) fn moved(x: &Dense, ty: &TensorType, dim: DimName, from: impl Fn(i64) -> i64) -> Dense {
    let mut out = Dense::zeros(ty.clone());
    let (old, new) = (x.ty.shape.get(dim), ty.shape.get(dim));
    let (Some(old), Some(new)) = (old, new) else { return out };
    // Everything but the dim, at 0 along it; then step by step along it.
    let rest = ty.shape.without(&[dim]);
    let step = |shape: &Shape| stride(shape, dim);
    let (read, write) = (offsets(&x.ty.shape, &rest), offsets(&ty.shape, &rest));
    for i in 0..new.size {
        let j = from(i as i64);
        if !(0..old.size as i64).contains(&j) {
            continue;
        }
        for (read, write) in read.iter().zip(&write) {
            let at = read + j as usize * step(&x.ty.shape);
            out.data[write + i * step(&ty.shape)] = x.data[at];
        }
    }
    out
}

/// A result of i32 arithmetic, wrapped; what fits f64 exactly is wrapped exactly.
pub(crate) fn wrap(dense: &mut Dense) {
    if dense.ty.dtype == DType::I32 {
        for x in &mut dense.data {
            *x = f64::from(*x as i64 as i32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_by_name() {
        let shape = |text: &str| text.parse::<Shape>().unwrap();
        assert_eq!(offsets(&shape("a:2;b:3"), &shape("b:3;a:2")), [0, 3, 1, 4, 2, 5]);
        assert_eq!(offsets(&shape("a:2"), &shape("a:2;b:2")), [0, 0, 1, 1]);
        assert_eq!(offsets(&shape(""), &shape("a:2")), [0, 0]);
    }
}
