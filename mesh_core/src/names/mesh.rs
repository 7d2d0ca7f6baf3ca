//! The mesh: processors as a grid with named axes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::check::check_name;
use super::error::{self, NameError};
use super::text::Piece;

/// One axis of a mesh, by its position among the mesh's axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Axis(u8);

impl Axis {
    /// The position among the mesh's axes.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis{}", self.0)
    }
}

/// A short list of axes.
pub type AxisList = SmallVec<[Axis; 2]>;

/// `stride` is the difference between the numbers of two neighbours along the axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct NamedAxis {
    name: String,
    size: usize,
    stride: usize,
}

/// A grid of processors, numbered row-major: the last axis varies fastest.
///
/// A method that takes an [`Axis`] expects an axis of this mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "MeshParts", into = "MeshParts")]
pub struct Mesh {
    axes: Vec<NamedAxis>,
    /// Empty stands for the identity.
    order: Vec<usize>,
}

/// A mesh in a file: names and sizes of its axes, and its order.
type MeshParts = (Vec<(String, usize)>, Vec<usize>);

impl From<Mesh> for MeshParts {
    fn from(mesh: Mesh) -> Self {
        (mesh.axes.into_iter().map(|axis| (axis.name, axis.size)).collect(), mesh.order)
    }
}

impl TryFrom<MeshParts> for Mesh {
    type Error = NameError;

    fn try_from((axes, order): MeshParts) -> Result<Self, NameError> {
        let mesh = Self::new(axes.iter().map(|(name, size)| (name.as_str(), *size)))?;
        if order.is_empty() { Ok(mesh) } else { mesh.with_order(order) }
    }
}

impl Mesh {
    /// The most axes a mesh may have.
    pub const MAX_AXES: usize = error::MAX_AXES;
    /// The most processors a mesh may have.
    pub const MAX_PROCESSORS: usize = error::MAX_PROCESSORS;

    /// Makes a mesh of axes, each a name and a size.
    ///
    /// # Errors
    ///
    /// If a name is illegal or occurs twice, a size is 0, or there are too many axes or processors.
    pub fn new<'a>(axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Self, NameError> {
        let mut mesh = Self::single();
        axes.into_iter().try_for_each(|(name, size)| mesh.push(name, size))?;
        Ok(mesh)
    }

    /// One processor and no axes.
    pub fn single() -> Self {
        Self::default()
    }

    fn push(&mut self, name: &str, size: usize) -> Result<(), NameError> {
        check_name(name)?;
        if size == 0 {
            return Err(NameError::EmptySize { name: name.to_owned() });
        }
        if self.axis(name).is_some() {
            return Err(NameError::RepeatedAxis { name: name.to_owned() });
        }
        if self.axes.len() == Self::MAX_AXES {
            return Err(NameError::TooManyAxes);
        }
        let processors = self.processors().checked_mul(size);
        if processors.is_none_or(|processors| processors > Self::MAX_PROCESSORS) {
            return Err(NameError::TooManyProcessors);
        }
        for axis in &mut self.axes {
            axis.stride *= size;
        }
        self.axes.push(NamedAxis { name: name.to_owned(), size, stride: 1 });
        Ok(())
    }

    /// Maps logical to physical processors: `order[logical] = physical`, a permutation. It may
    /// change the speed of a program, never its results.
    ///
    /// # Errors
    ///
    /// If `order` is no permutation of the processors.
    pub fn with_order(mut self, order: Vec<usize>) -> Result<Self, NameError> {
        let processors = self.processors();
        if order.len() != processors {
            return Err(NameError::OrderLength { listed: order.len(), processors });
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let missing = (0..processors).find(|&processor| sorted.get(processor) != Some(&processor));
        if let Some(missing) = missing {
            return Err(NameError::OrderMisses { missing, processors });
        }
        self.order = if order == sorted { Vec::new() } else { order };
        Ok(self)
    }

    /// The physical place of each processor, if that is not the place of its number for all.
    pub fn order(&self) -> Option<&[usize]> {
        (!self.order.is_empty()).then_some(&self.order)
    }

    /// The number of processors.
    pub fn processors(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// The axes in declared order.
    pub fn axes(&self) -> impl Iterator<Item = Axis> + '_ {
        (0..).take(self.axes.len()).map(Axis)
    }

    /// The axis called `name`.
    pub fn axis(&self, name: &str) -> Option<Axis> {
        self.axes().find(|&axis| self.name(axis) == name)
    }

    /// The name of `axis`.
    pub fn name(&self, axis: Axis) -> &str {
        &self.axes[axis.index()].name
    }

    /// The number of coordinates along `axis`.
    pub fn size(&self, axis: Axis) -> usize {
        self.axes[axis.index()].size
    }

    /// The coordinates of `processor`, one per axis.
    pub fn coordinates(&self, processor: usize) -> Vec<usize> {
        self.axes().map(|axis| self.coordinate(processor, axis)).collect()
    }

    /// The processor at `coordinates`.
    pub fn processor(&self, coordinates: &[usize]) -> usize {
        self.axes.iter().zip(coordinates).map(|(axis, coordinate)| axis.stride * coordinate).sum()
    }

    /// The coordinate of `processor` along `axis`.
    pub fn coordinate(&self, processor: usize, axis: Axis) -> usize {
        let NamedAxis { size, stride, .. } = self.axes[axis.index()];
        processor / stride % size
    }

    /// The number of processors in a group along `axes`: those that differ only along these axes.
    pub fn group_size(&self, axes: &[Axis]) -> usize {
        axes.iter().map(|&axis| self.size(axis)).product()
    }

    /// The index of `processor` in its group along `axes`, of which the first is the major one.
    pub fn group_index(&self, processor: usize, axes: &[Axis]) -> usize {
        axes.iter()
            .fold(0, |index, &axis| index * self.size(axis) + self.coordinate(processor, axis))
    }

    /// The processors that differ from `processor` only along `axes`, itself included, in
    /// [`group_index`](Self::group_index) order.
    pub fn group(&self, processor: usize, axes: &[Axis]) -> Vec<usize> {
        let stride = |axis: Axis| self.axes[axis.index()].stride;
        let first =
            axes.iter().fold(processor, |p, &axis| p - self.coordinate(p, axis) * stride(axis));
        axes.iter().fold(vec![first], |members, &axis| {
            let along = |member| (0..self.size(axis)).map(move |i| member + i * stride(axis));
            members.into_iter().flat_map(along).collect()
        })
    }

    /// All groups along `axes`, in the order of their first members.
    pub fn groups(&self, axes: &[Axis]) -> Vec<Vec<usize>> {
        (0..self.processors())
            .filter(|&processor| self.group_index(processor, axes) == 0)
            .map(|processor| self.group(processor, axes))
            .collect()
    }

    /// The physical processor of the logical `processor`.
    pub fn physical(&self, processor: usize) -> usize {
        self.order.get(processor).copied().unwrap_or(processor)
    }

    /// The names of `axes` as a layout has them: `rows+cols`.
    pub fn list(&self, axes: &[Axis]) -> String {
        axes.iter().map(|&axis| self.name(axis)).collect::<Vec<_>>().join("+")
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, axis) in self.axes.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            write!(f, "{separator}{}:{}", axis.name, axis.size)?;
        }
        Ok(())
    }
}

impl FromStr for Mesh {
    type Err = NameError;

    /// Reads `rows:2;cols:2`. The separators are those of a shape; `""` is one processor.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut mesh = Self::single();
        for piece in Piece::new(text).pairs() {
            let (name, size) = piece.name_and_size()?;
            mesh.push(name, size).map_err(|problem| piece.locate(problem))?;
        }
        Ok(mesh)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mesh(text: &str) -> Mesh {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Mesh>().unwrap_err().to_string()
    }

    #[test]
    fn numbering_is_row_major() {
        let mesh = mesh("r:2;c:4");
        assert_eq!(mesh.coordinates(6), [1, 2]);
        assert_eq!(mesh.processor(&[1, 2]), 6);
        assert_eq!(Mesh::single().coordinates(0), [0; 0]);
        assert_eq!(Mesh::single().processors(), 1);
    }

    #[test]
    fn groups_differ_along_their_axes_only() {
        let flat = mesh("r:2;c:4");
        let (r, c) = (Axis(0), Axis(1));
        assert_eq!(flat.groups(&[r]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(flat.groups(&[c]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(flat.groups(&[]), [[0], [1], [2], [3], [4], [5], [6], [7]]);
        let cube = mesh("x:2 y:3 z:2");
        let (x, z) = (Axis(0), Axis(2));
        assert_eq!(cube.groups(&[x, z]), [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]);
        assert_eq!(cube.group(9, &[z, x]), [2, 8, 3, 9]);
        assert_eq!(cube.group_index(9, &[z, x]), 3);
        assert_eq!(cube.list(&[z, x]), "z+x");
    }

    #[test]
    fn orders_are_permutations() {
        let mesh = mesh("a:2;b:2");
        assert_eq!(mesh.clone().with_order(vec![0, 1, 2, 3]), Ok(mesh.clone()));
        let turned = mesh.clone().with_order(vec![3, 0, 1, 2]).unwrap();
        assert_eq!((turned.physical(0), turned.physical(3), mesh.physical(3)), (3, 2, 3));
        assert_eq!(
            mesh.clone().with_order(vec![0, 1]).unwrap_err().to_string(),
            "the processor order lists 2 processors, but the mesh has 4"
        );
        assert_eq!(
            mesh.with_order(vec![0, 1, 3, 3]).unwrap_err().to_string(),
            "the processor order misses 2: it names each of 0 to 3 once"
        );
    }

    #[test]
    fn what_is_wrong_with_a_string() {
        let table = [
            ("rows", "`rows` has no size: write `name:size`, as in `batch:200`\n  rows\n  ^^^^"),
            (
                "a:2;a:4",
                "the mesh has two axes called `a`: axis names differ\n  a:2;a:4\n      ^^^",
            ),
            ("a:2;b:0", "`b` has size 0: sizes are 1 or more\n  a:2;b:0\n      ^^^"),
            (
                "a:1024;b:2048",
                "the mesh has too many processors: the product of its sizes is at most 1048576\n  \
                 a:1024;b:2048\n         ^^^^^^",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(refusal(text), expected);
        }
        let names: Vec<_> = (0..17).map(|i| format!("a{i}")).collect();
        let axes = names.iter().map(|name| (name.as_str(), 1));
        assert_eq!(Mesh::new(axes.clone()), Err(NameError::TooManyAxes));
        assert!(Mesh::new(axes.take(16)).is_ok());
    }

    proptest! {
        #[test]
        fn printing_round_trips(
            axes in prop::collection::btree_map("[a-z_0-9]{1,5}", 1..8_usize, 0..5)
        ) {
            let mesh = Mesh::new(axes.iter().map(|(name, &size)| (name.as_str(), size))).unwrap();
            prop_assert_eq!(mesh.to_string().parse(), Ok(mesh.clone()));
            for processor in 0..mesh.processors() {
                prop_assert_eq!(mesh.processor(&mesh.coordinates(processor)), processor);
            }
        }

        #[test]
        fn groups_partition_the_mesh(sizes in prop::collection::vec(1..4_usize, 1..4), mask in 0..8) {
            let names = ["a", "b", "c"];
            let mesh = Mesh::new(names.into_iter().zip(sizes)).unwrap();
            let axes: Vec<_> = mesh.axes().filter(|a| mask >> a.index() & 1 == 1).collect();
            let groups = mesh.groups(&axes);
            let mut all: Vec<_> = groups.concat();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..mesh.processors()));
            for group in groups {
                for (index, &member) in group.iter().enumerate() {
                    prop_assert_eq!(mesh.group_index(member, &axes), index);
                    prop_assert_eq!(&mesh.group(member, &axes), &group);
                }
            }
        }
    }
}
