//! Shapes: ordered sets of dimensions.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::check::check_dimension;
use super::dimension::{DimName, Dimension};
use super::error::{self, NameError};
use super::text::{Piece, nearest, suggestion};

/// The dimensions of a tensor in declared order. No two have the same name. The default is the
/// scalar.
#[derive(PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Dimension>", into = "Vec<Dimension>")]
pub struct Shape(SmallVec<[Dimension; 6]>);

impl From<Shape> for Vec<Dimension> {
    fn from(shape: Shape) -> Self {
        shape.0.into_vec()
    }
}

impl TryFrom<Vec<Dimension>> for Shape {
    type Error = NameError;

    fn try_from(dims: Vec<Dimension>) -> Result<Self, NameError> {
        Self::new(dims)
    }
}

impl Clone for Shape {
    /// Copies all dimensions at once; the derived implementation would copy one by one.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// The most elements of a tensor: more than any memory holds, and few enough that sizes in bytes
    /// do not overflow.
    pub const MAX_ELEMENTS: usize = 1 << 48;

    /// The most elements of a [`union`](Self::union): the multiply-adds of a product. What a cluster
    /// is to compute in a step is planned here, too.
    pub const MAX_UNION: usize = 1 << 60;

    /// The most dimensions of a shape. A program numbers the dims of an operation's inputs with
    /// bytes.
    pub const MAX_DIMENSIONS: usize = error::MAX_DIMENSIONS;

    /// A shape of dimensions in order.
    ///
    /// # Errors
    ///
    /// If there are more than [`MAX_DIMENSIONS`](Self::MAX_DIMENSIONS) dimensions or
    /// [`MAX_ELEMENTS`](Self::MAX_ELEMENTS) elements, two dimensions have the same name, a size is
    /// 0, or [`check_name`](super::check_name) refuses a name.
    pub fn new(dims: impl IntoIterator<Item = Dimension>) -> Result<Self, NameError> {
        let mut shape = Self::scalar();
        dims.into_iter().try_for_each(|dim| shape.push(dim))?;
        Ok(shape)
    }

    /// The shape without dimensions.
    pub fn scalar() -> Self {
        Self::default()
    }

    fn push(&mut self, dim: Dimension) -> Result<(), NameError> {
        check_dimension(dim)?;
        if let Some(first) = self.get(dim.name) {
            return Err(NameError::RepeatedDimension { first, second: dim });
        }
        self.grow(dim)?;
        self.check_elements()
    }

    /// Appends a legal dimension, unless there are then too many.
    fn grow(&mut self, dim: Dimension) -> Result<(), NameError> {
        self.0.push(dim);
        if self.rank() > Self::MAX_DIMENSIONS {
            return Err(NameError::TooManyDimensions { first: dim });
        }
        Ok(())
    }

    /// Whether a tensor may have this shape.
    ///
    /// # Errors
    ///
    /// If there are more than [`MAX_ELEMENTS`](Self::MAX_ELEMENTS) elements, as a union may have.
    pub(crate) fn check_elements(&self) -> Result<(), NameError> {
        if self.size() > Self::MAX_ELEMENTS {
            return Err(NameError::TooManyElements { shape: self.to_string() });
        }
        Ok(())
    }

    /// The dimensions in declared order.
    pub fn dims(&self) -> &[Dimension] {
        &self.0
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Whether the shape has no dimensions.
    pub fn is_scalar(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of elements.
    pub fn size(&self) -> usize {
        self.0.iter().fold(1, |product: usize, dim| product.saturating_mul(dim.size))
    }

    /// The sizes in declared order.
    pub fn sizes(&self) -> Vec<usize> {
        self.0.iter().map(|dim| dim.size).collect()
    }

    /// The dimensions in declared order.
    pub fn iter(&self) -> impl Iterator<Item = Dimension> + Clone + '_ {
        self.0.iter().copied()
    }

    /// The names in declared order.
    pub fn names(&self) -> impl Iterator<Item = DimName> + Clone + '_ {
        self.0.iter().map(|dim| dim.name)
    }

    /// The dimension called `name`.
    pub fn get(&self, name: DimName) -> Option<Dimension> {
        self.iter().find(|dim| dim.name == name)
    }

    /// The position of the dimension called `name`.
    pub fn position(&self, name: DimName) -> Option<usize> {
        self.names().position(|known| known == name)
    }

    /// Whether a dimension is called `name`.
    pub fn contains(&self, name: DimName) -> bool {
        self.position(name).is_some()
    }

    /// The dimensions whose names are not in `names`, some of which may be unknown.
    pub fn without(&self, names: &[DimName]) -> Self {
        Self(self.iter().filter(|dim| !names.contains(&dim.name)).collect())
    }

    /// The dimensions of this shape, then those of `other` that it lacks. It may be larger than a
    /// tensor.
    ///
    /// # Errors
    ///
    /// If a name has two sizes, or the union has more than [`MAX_UNION`](Self::MAX_UNION) elements.
    pub fn union(&self, other: &Shape) -> Result<Self, NameError> {
        let mut union = self.clone();
        for second in other.iter() {
            match self.get(second.name) {
                Some(first) if first.size != second.size => {
                    return Err(NameError::SizeClash { first, second });
                }
                Some(_) => {}
                None => union.grow(second)?,
            }
        }
        if union.size() > Self::MAX_UNION {
            return Err(NameError::TooLargeUnion { shape: union.to_string() });
        }
        Ok(union)
    }

    /// Whether both shapes have the same dimensions, in any order.
    pub fn is_permutation_of(&self, other: &Shape) -> bool {
        self.rank() == other.rank() && self.iter().all(|dim| other.get(dim.name) == Some(dim))
    }

    /// The end of a message about a dimension that the shape lacks: in brackets, the dimension that
    /// may be meant.
    ///
    /// ```
    /// use mesh_core::names::{Shape, dim};
    /// let shape: Shape = "batch:4;length:16".parse()?;
    /// assert_eq!(shape.hint(dim("lenght", 16)), " (did you mean `length`?)");
    /// assert_eq!(shape.hint(dim("batch", 8)), " (batch is of size 4)");
    /// assert_eq!(shape.hint(dim("vocab", 8)), "");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hint(&self, dim: Dimension) -> String {
        match self.get(dim.name) {
            Some(own) => format!(" ({} is of size {})", own.name, own.size),
            None => suggestion(&nearest(dim.name.as_str(), self.names().map(DimName::as_str))),
        }
    }

    /// The same names with new sizes. `None` if `size` gives `None` or 0 for a dimension.
    pub(super) fn try_resized(&self, size: impl Fn(Dimension) -> Option<usize>) -> Option<Self> {
        let resized = |dim| size(dim).filter(|&size| size > 0).map(|size| dim.resized(size));
        self.iter().map(resized).collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Shape {
    type Err = NameError;

    /// Reads `batch:200;hidden:512`, where `,`, `.`, `;` and whitespace separate the pairs. Also
    /// reads the printed form in brackets.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let whole = Piece::new(text);
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let mut shape = Self::scalar();
        for piece in whole.part(inner.unwrap_or(text)).pairs() {
            let (name, size) = piece.name_and_size()?;
            shape.push(Dimension::new(name, size)).map_err(|problem| piece.locate(problem))?;
        }
        Ok(shape)
    }
}

/// The dimensions of a [`Shape`] by value.
#[derive(Clone, Debug)]
pub struct Dimensions(smallvec::IntoIter<[Dimension; 6]>);

impl Iterator for Dimensions {
    type Item = Dimension;

    fn next(&mut self) -> Option<Dimension> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Dimensions {}

impl IntoIterator for Shape {
    type Item = Dimension;
    type IntoIter = Dimensions;

    fn into_iter(self) -> Dimensions {
        Dimensions(self.0.into_iter())
    }
}

impl<'s> IntoIterator for &'s Shape {
    type Item = Dimension;
    type IntoIter = std::iter::Copied<std::slice::Iter<'s, Dimension>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::dim;
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Shape>().unwrap_err().to_string()
    }

    #[test]
    fn any_mixture_of_separators() {
        let expected = Shape::new([dim("x", 4), dim("y", 8)]).unwrap();
        for text in ["x:4,y:8", "x:4.y:8", "x:4;y:8", "x:4 y:8", " x:4 ;,\n. y:8;", "[x:4, y:8]"] {
            assert_eq!(shape(text), expected, "{text:?}");
        }
        assert_eq!(shape(""), Shape::scalar());
        assert_eq!(shape("[]"), Shape::scalar());
        assert_eq!(expected.to_string(), "[x:4, y:8]");
    }

    #[test]
    fn what_is_wrong_with_a_string() {
        let table = [
            ("x;4", "`x` has no size: write `name:size`, as in `batch:200`\n  x;4\n  ^"),
            (
                "y:1 x:4:5",
                "`4:5` is not a size: a size is one whole number, as in `batch:200`\n  \
                 y:1 x:4:5\n        ^^^",
            ),
            (
                "x:a",
                "`a` is not a size: a size is one whole number, as in `batch:200`\n  x:a\n    ^",
            ),
            ("x:0", "`x` has size 0: sizes are 1 or more\n  x:0\n  ^^^"),
            (":3", "a name is missing: names need at least one character\n  :3\n  ^^"),
            (
                "x:2,x:3",
                "a tensor cannot have two dimensions of one name (`x:2` and `x:3`): rename one\n  \
                 x:2,x:3\n      ^^^",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(refusal(text), expected);
        }
        for text in ["x:+4", "x:-4", "x:", "x:99999999999999999999999", "x:4]", "a*b:2"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }

    #[test]
    fn new_refuses_what_parsing_refuses() {
        let repeated = Shape::new([dim("x", 2), dim("x", 2)]);
        assert!(matches!(repeated, Err(NameError::RepeatedDimension { .. })));
        assert!(matches!(Shape::new([dim("x", 0)]), Err(NameError::EmptySize { .. })));
        assert!(matches!(Shape::new([dim("a b", 1)]), Err(NameError::BadName { .. })));
    }

    #[test]
    fn set_operations_keep_order() {
        let abc = shape("a:2 b:3 c:4");
        assert_eq!((abc.size(), abc.rank(), abc.sizes()), (24, 3, vec![2, 3, 4]));
        assert_eq!(abc.without(&["b".into(), "z".into()]), shape("a:2 c:4"));
        assert_eq!(shape("c:4 d:5").union(&abc), Ok(shape("c:4 d:5 a:2 b:3")));
        assert_eq!(
            shape("c:5").union(&abc).unwrap_err().to_string(),
            "`c:5` meets `c:4`: dimensions of one name need one size; rename or reshape"
        );
        assert!(shape("c:4 a:2 b:3").is_permutation_of(&abc));
        assert!(!shape("c:4 a:2 b:4").is_permutation_of(&abc));
        assert!(!shape("a:2 b:3").is_permutation_of(&abc));
        assert_eq!(abc.position("c".into()), Some(2));
        let large = refusal("x:9999999999 y:9999999999");
        assert!(large.contains("is too large: a tensor has at most 2^48 elements"), "{large}");
        let [x, y, z] = ["x", "y", "z"].map(|name| shape(&format!("{name}:{}", 1_usize << 30)));
        let xy = x.union(&y).unwrap();
        let large = xy.check_elements().unwrap_err().to_string();
        assert!(large.contains("a tensor has at most 2^48 elements"), "{large}");
        let larger = xy.union(&z).unwrap_err().to_string();
        assert!(larger.contains("are too large together: the dims of an operation's"), "{larger}");
        assert_eq!(Shape::new(&abc), Ok(abc.clone()));
        assert_eq!(abc.clone().into_iter().count(), 3);
    }

    proptest! {
        #[test]
        fn printing_round_trips(
            dims in prop::collection::btree_map("[a-zé_\\-\\[\\]0-9]{1,5}", 1..200_usize, 0..7)
        ) {
            let shape = Shape::new(dims.iter().map(|(name, &size)| dim(name, size))).unwrap();
            prop_assert_eq!(shape.to_string().parse(), Ok(shape.clone()));
            let plain: Vec<_> = shape.iter().map(|dim| dim.to_string()).collect();
            prop_assert_eq!(plain.join(";").parse(), Ok(shape));
        }
    }
}
