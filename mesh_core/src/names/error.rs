//! The errors of names, sizes, shapes and meshes.

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
    /// A name is empty.
    #[error("a name is missing: names need at least one character")]
    EmptyName,
    /// A name has a character that layout strings use otherwise.
    #[error(
        "the name `{name}` holds {found:?}: names hold none of `: ; , . + * / @` or whitespace"
    )]
    BadName {
        /// The refused name.
        name: String,
        /// Its first illegal character.
        found: char,
    },
    /// A dimension or a mesh axis has size 0.
    #[error("`{name}` has size 0: sizes are 1 or more")]
    EmptySize {
        /// The dimension or axis.
        name: String,
    },
    /// A shape has more elements than [`Shape::MAX_ELEMENTS`](super::Shape::MAX_ELEMENTS).
    #[error("{shape} is too large: a tensor has at most 2^48 elements")]
    TooManyElements {
        /// The shape.
        shape: String,
    },
    /// The dims of several tensors have more elements together than
    /// [`Shape::MAX_UNION`](super::Shape::MAX_UNION).
    #[error(
        "{shape} are too large together: the dims of an operation's inputs have at most 2^60 elements"
    )]
    TooLargeUnion {
        /// All dims.
        shape: String,
    },
    /// A shape has more dimensions than [`Shape::MAX_DIMENSIONS`](super::Shape::MAX_DIMENSIONS).
    #[error(
        "`{first}` is one dimension too many: a tensor, and what is computed from several, has at most {}",
        MAX_DIMENSIONS
    )]
    TooManyDimensions {
        /// The first dimension that is too many.
        first: Dimension,
    },
    /// A part of a string has no `:size`.
    #[error("`{name}` has no size: write `name:size`, as in `batch:200`")]
    NoSize {
        /// The part.
        name: String,
    },
    /// A size is not a number.
    #[error("`{size}` is not a size: a size is one whole number, as in `batch:200`")]
    BadSize {
        /// The text after the first `:`.
        size: String,
    },
    /// A shape has two dimensions of one name.
    #[error(
        "a tensor cannot have two dimensions of one name (`{first}` and `{second}`): rename one"
    )]
    RepeatedDimension {
        /// The first of the two.
        first: Dimension,
        /// The second.
        second: Dimension,
    },
    /// Two shapes that are united have one name with two sizes.
    #[error("`{first}` meets `{second}`: dimensions of one name need one size; rename or reshape")]
    SizeClash {
        /// The dimension of the first shape.
        first: Dimension,
        /// The dimension of the second shape.
        second: Dimension,
    },
    /// A text names no dtype.
    #[error("there is no dtype `{found}`: the dtypes are f32, f64, bf16, i32 and bool")]
    UnknownDType {
        /// The text.
        found: String,
    },
    /// Two mesh axes have one name.
    #[error("the mesh has two axes called `{name}`: axis names differ")]
    RepeatedAxis {
        /// The name.
        name: String,
    },
    /// A mesh has more axes than are supported.
    #[error("a mesh has at most {} axes", MAX_AXES)]
    TooManyAxes,
    /// A mesh has more processors than are supported.
    #[error(
        "the mesh has too many processors: the product of its sizes is at most {}",
        MAX_PROCESSORS
    )]
    TooManyProcessors,
    /// A processor order has the wrong length.
    #[error("the processor order lists {listed} processors, but the mesh has {processors}")]
    OrderLength {
        /// The number of processors in the order.
        listed: usize,
        /// The number of processors in the mesh.
        processors: usize,
    },
    /// A processor order repeats some processors and misses others.
    #[error(
        "the processor order misses {missing}: it names each of 0 to {} once", .processors - 1
    )]
    OrderMisses {
        /// The first processor that the order misses.
        missing: usize,
        /// The number of processors in the mesh.
        processors: usize,
    },
    /// Tiles do not fill a machine.
    #[error(
        "the tiles do not fill a machine of {machine:?}: along each of its dims they multiply to its size, \
         and only the first may be left open"
    )]
    Tiles {
        /// The sizes of the machine's dims.
        machine: Vec<usize>,
    },
    /// The number of processes does not divide the number of processors.
    #[error(
        "mesh {mesh} has {processors} processors, but {processes} ranks were started: start as many as \
         divide {processors}, or change the mesh"
    )]
    Processes {
        /// The mesh.
        mesh: String,
        /// The number of processors in the mesh.
        processors: usize,
        /// The number of processes.
        processes: usize,
    },
    /// A problem with the place in the string where it was found.
    #[error("{problem}\n{at}")]
    At {
        /// The problem.
        problem: Box<NameError>,
        /// The place.
        at: Excerpt,
    },
}
