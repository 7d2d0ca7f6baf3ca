//! What can be wrong with names, sizes, shapes and meshes.

use thiserror::Error;

use super::dimension::Dimension;
use super::text::Excerpt;

/// The most dimensions of a shape.
pub(super) const MAX_DIMENSIONS: usize = 64;
/// The most axes of a mesh.
pub(super) const MAX_AXES: usize = 16;
/// The most processors of a mesh.
pub(super) const MAX_PROCESSORS: usize = 1 << 20;

/// Why a name, dimension, shape, dtype or mesh was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// A name without characters.
    #[error("a name is missing: names need at least one character")]
    EmptyName,
    /// A name with a character that layout strings use for something else.
    #[error(
        "the name `{name}` holds {found:?}: names hold none of `: ; , . + * / @` or whitespace"
    )]
    BadName {
        /// The refused name.
        name: String,
        /// Its first illegal character.
        found: char,
    },
    /// A dimension or mesh axis of size 0.
    #[error("`{name}` has size 0: sizes are 1 or more")]
    EmptySize {
        /// The dimension or axis.
        name: String,
    },
    /// More elements than [`Shape::MAX_ELEMENTS`](super::Shape::MAX_ELEMENTS).
    #[error("{shape} is too large: a tensor has at most 2^48 elements")]
    TooManyElements {
        /// The shape.
        shape: String,
    },
    /// More dimensions than [`Shape::MAX_DIMENSIONS`](super::Shape::MAX_DIMENSIONS).
    #[error(
        "`{first}` is one dimension too many: a tensor, and what is computed from several, has at most {}",
        MAX_DIMENSIONS
    )]
    TooManyDimensions {
        /// The first beyond.
        first: Dimension,
    },
    /// A piece of a string without `:size`.
    #[error("`{name}` has no size: write `name:size`, as in `batch:200`")]
    NoSize {
        /// The piece.
        name: String,
    },
    /// A size that is not a number.
    #[error("`{size}` is not a size: a size is one whole number, as in `batch:200`")]
    BadSize {
        /// What stood after the first `:`.
        size: String,
    },
    /// Two dimensions of one name in one shape.
    #[error(
        "a tensor cannot have two dimensions of one name (`{first}` and `{second}`): rename one"
    )]
    RepeatedDimension {
        /// The dimension that was there already.
        first: Dimension,
        /// The one refused.
        second: Dimension,
    },
    /// One name with two sizes in a union of shapes.
    #[error("`{first}` meets `{second}`: dimensions of one name need one size; rename or reshape")]
    SizeClash {
        /// The dimension of the first shape.
        first: Dimension,
        /// The dimension of the second shape.
        second: Dimension,
    },
    /// Text that names no dtype.
    #[error("there is no dtype `{found}`: the dtypes are f32, f64, bf16, i32 and bool")]
    UnknownDType {
        /// The text.
        found: String,
    },
    /// Two mesh axes of one name.
    #[error("the mesh has two axes called `{name}`: axis names differ")]
    RepeatedAxis {
        /// The name.
        name: String,
    },
    /// More mesh axes than are supported.
    #[error("a mesh has at most {} axes", MAX_AXES)]
    TooManyAxes,
    /// More processors than are supported.
    #[error(
        "the mesh has too many processors: the product of its sizes is at most {}",
        MAX_PROCESSORS
    )]
    TooManyProcessors,
    /// A processor order of the wrong length.
    #[error("the processor order lists {listed} processors, but the mesh has {processors}")]
    OrderLength {
        /// How many the order lists.
        listed: usize,
        /// How many the mesh has.
        processors: usize,
    },
    /// A processor order that repeats some processors and misses others.
    #[error(
        "the processor order misses {missing}: it names each of 0 to {} once", .processors - 1
    )]
    OrderMisses {
        /// The first processor not listed.
        missing: usize,
        /// How many the mesh has.
        processors: usize,
    },
    /// Processes that cannot share a mesh evenly.
    #[error(
        "mesh {mesh} has {processors} processors, but {processes} ranks were started: start as many as \
         divide {processors}, or change the mesh"
    )]
    Processes {
        /// The mesh.
        mesh: String,
        /// How many the mesh has.
        processors: usize,
        /// How many processes there are.
        processes: usize,
    },
    /// A problem, shown in the string it was found in.
    #[error("{problem}\n{at}")]
    At {
        /// What is wrong.
        problem: Box<NameError>,
        /// Where.
        at: Excerpt,
    },
}
