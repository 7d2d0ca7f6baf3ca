//! Placements: how a tensor lies on a mesh.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

use smallvec::SmallVec;

use super::dimension::DimName;
use super::dtype::DType;
use super::mesh::{Axis, AxisList, Mesh};
use super::shape::Shape;

/// How a reduction combines values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ReduceKind {
    /// By addition.
    Sum,
    /// By multiplication.
    Prod,
    /// By their maximum.
    Max,
    /// By their minimum.
    Min,
    /// By logical and.
    All,
    /// By logical or.
    Any,
    /// By taking the one value that is there. At most one processor holds the value of an element
    /// and the others hold zero bits, which are combined bit by bit. So the result has the bits of
    /// that value, also for -0.0 and NaN. This kind combines parts of processors only, never
    /// elements of a tensor.
    Select,
}

impl ReduceKind {
    /// The name in programs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::All => "all",
            Self::Any => "any",
            Self::Select => "select",
        }
    }

    /// The dtype in which partial values of `dtype` are held until they are combined: f32 for bf16,
    /// except for `Select`, which needs no more bits than the dtype has.
    pub fn held(self, dtype: DType) -> DType {
        if self == Self::Select { dtype } else { dtype.reduction() }
    }
}

impl fmt::Display for ReduceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a tensor lies on the mesh. Along each axis it is either *split* along one of its dims, or
/// *pending* (every processor holds a partial value that is still to be reduced), or *owned* by one
/// coordinate, or *replicated*.
///
/// Placements with one meaning are equal. Illegal placements can be expressed (two dims on one
/// axis, a size that does not divide); the layout check reports them.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(from = "PlacementParts", into = "PlacementParts")]
pub struct Placement {
    /// Sorted by name. No list of axes is empty.
    splits: SmallVec<[(DimName, AxisList); 2]>,
    /// The axes are sorted and not empty.
    pending: Option<(ReduceKind, AxisList)>,
    /// Sorted by axis.
    owned: SmallVec<[(Axis, usize); 1]>,
}

/// A placement in a file: splits, what is pending, owners.
type PlacementParts =
    (Vec<(DimName, AxisList)>, Option<(ReduceKind, AxisList)>, Vec<(Axis, usize)>);

impl From<Placement> for PlacementParts {
    fn from(Placement { splits, pending, owned }: Placement) -> Self {
        (splits.into_vec(), pending, owned.into_vec())
    }
}

impl From<PlacementParts> for Placement {
    fn from((splits, pending, owned): PlacementParts) -> Self {
        let split = |placement: Self, (dim, axes): (_, AxisList)| placement.split(dim, &axes);
        let placement = splits.into_iter().fold(Self::replicated(), split);
        let owner = |placement: Self, (axis, owner)| placement.with_owner(axis, owner);
        let placement = owned.into_iter().fold(placement, owner);
        match pending {
            Some((kind, axes)) => placement.with_pending(kind, &axes),
            None => placement,
        }
    }
}

impl Placement {
    /// The whole tensor on every processor.
    pub fn replicated() -> Self {
        Self::default()
    }

    fn find(&self, dim: DimName) -> Result<usize, usize> {
        self.splits.binary_search_by_key(&dim, |(name, _)| *name)
    }

    /// The axes that split `dim`, major first; empty if it is not split.
    pub fn axes(&self, dim: DimName) -> &[Axis] {
        self.find(dim).map_or(&[], |at| &self.splits[at].1)
    }

    /// The split dims, sorted by name, each with its axes.
    pub fn splits(&self) -> impl Iterator<Item = (DimName, &[Axis])> + '_ {
        self.splits.iter().map(|(dim, axes)| (*dim, axes.as_slice()))
    }

    /// This placement with `dim` split over exactly `axes`, major first.
    pub fn split(mut self, dim: DimName, axes: &[Axis]) -> Self {
        match (self.find(dim), axes.is_empty()) {
            (Ok(at), true) => drop(self.splits.remove(at)),
            (Ok(at), false) => self.splits[at].1 = AxisList::from_slice(axes),
            (Err(_), true) => {}
            (Err(at), false) => self.splits.insert(at, (dim, AxisList::from_slice(axes))),
        }
        self
    }

    /// The dim that is split over `axis`; the first by name if there are several.
    pub fn dim_on(&self, axis: Axis) -> Option<DimName> {
        self.splits().find(|(_, axes)| axes.contains(&axis)).map(|(dim, _)| dim)
    }

    /// The kind of reduction that is pending.
    pub fn pending(&self) -> Option<ReduceKind> {
        self.pending.as_ref().map(|(kind, _)| *kind)
    }

    /// The axes over which a reduction is pending.
    pub fn pending_axes(&self) -> &[Axis] {
        self.pending.as_ref().map_or(&[], |(_, axes)| axes)
    }

    /// The dtype in which a tensor of `dtype` is stored in this placement.
    pub fn held(&self, dtype: DType) -> DType {
        self.pending().map_or(dtype, |kind| kind.held(dtype))
    }

    /// This placement with exactly the reduction `kind` over `axes` (in any order) pending.
    pub fn with_pending(mut self, kind: ReduceKind, axes: &[Axis]) -> Self {
        let mut axes = AxisList::from(axes);
        axes.sort_unstable();
        axes.dedup();
        self.pending = (!axes.is_empty()).then_some((kind, axes));
        self
    }

    /// This placement with no reduction pending.
    pub fn resolved(&self) -> Self {
        Self { pending: None, ..self.clone() }
    }

    /// Whether it splits dims further than `other`, of which each of its slices is a part, and is like that otherwise.
    pub fn refines(&self, other: &Self) -> bool {
        let same = self.pending == other.pending && self.owned == other.owned;
        let mut splits = other.splits();
        same && self != other && splits.all(|(dim, axes)| self.axes(dim).starts_with(axes))
    }

    /// The owning coordinates, sorted by axis.
    pub fn owned(&self) -> &[(Axis, usize)] {
        &self.owned
    }

    /// The owning coordinate along `axis`.
    pub fn owner(&self, axis: Axis) -> Option<usize> {
        self.owned.iter().find(|(owned, _)| *owned == axis).map(|(_, coordinate)| *coordinate)
    }

    /// This placement without owners.
    pub fn everywhere(mut self) -> Self {
        self.owned.clear();
        self
    }

    /// This placement without an owner along `axis`.
    pub fn without_owner(mut self, axis: Axis) -> Self {
        self.owned.retain(|(owned, _)| *owned != axis);
        self
    }

    /// This placement owned by `coordinate` along `axis`.
    pub fn with_owner(mut self, axis: Axis, coordinate: usize) -> Self {
        match self.owned.binary_search_by_key(&axis, |(owned, _)| *owned) {
            Ok(at) => self.owned[at].1 = coordinate,
            Err(at) => self.owned.insert(at, (axis, coordinate)),
        }
        self
    }

    /// This placement with its split dims renamed; `map` must not give two dims one name.
    pub fn renamed(&self, map: impl Fn(DimName) -> DimName) -> Self {
        let unsplit = Self { splits: SmallVec::new(), ..self.clone() };
        self.splits().fold(unsplit, |placement, (dim, axes)| placement.split(map(dim), axes))
    }

    /// This placement without the splits of dims that `shape` lacks.
    pub fn restricted(&self, shape: &Shape) -> Self {
        let mut placement = self.clone();
        placement.splits.retain(|(dim, _)| shape.contains(*dim));
        placement
    }

    /// The number of parts that `dim` is cut into; 1 if it is not split.
    pub fn parts(&self, mesh: &Mesh, dim: DimName) -> usize {
        mesh.group_size(self.axes(dim))
    }

    /// The shape of a processor's slice of `shape`; `None` if a dim does not divide.
    pub fn local_shape(&self, mesh: &Mesh, shape: &Shape) -> Option<Shape> {
        shape.try_resized(|dim| {
            let parts = self.parts(mesh, dim.name);
            dim.size.is_multiple_of(parts).then(|| dim.size / parts)
        })
    }

    /// The slice of a tensor of `shape` that `processor` holds; `None` if a dim does not divide.
    /// Owners are ignored, although a processor that is not an owner holds nothing.
    pub fn slice(&self, mesh: &Mesh, shape: &Shape, processor: usize) -> Option<Slice> {
        let size = self.local_shape(mesh, shape)?.sizes();
        let part = |dim| mesh.group_index(processor, self.axes(dim));
        let begin = shape.names().zip(&size).map(|(dim, size)| part(dim) * size).collect();
        Some(Slice { begin, size })
    }

    /// The placement for people: `shape` with the axes of each split dim, and pending reductions
    /// and owners, as in `[batch:64@rows+cols, hidden:512] pending sum over data`.
    pub fn describe(&self, mesh: &Mesh, shape: &Shape) -> String {
        let mut text = String::from("[");
        for (position, dim) in shape.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            let _ = write!(text, "{separator}{dim}");
            if let axes @ [_, ..] = self.axes(dim.name) {
                let _ = write!(text, "@{}", mesh.list(axes));
            }
        }
        text.push(']');
        if let Some((kind, axes)) = &self.pending {
            let _ = write!(text, " pending {kind} over {}", mesh.list(axes));
        }
        for (position, (axis, coordinate)) in self.owned.iter().enumerate() {
            let joint = if position == 0 { " owned by " } else { ", " };
            let _ = write!(text, "{joint}{}={coordinate}", mesh.name(*axis));
        }
        text
    }
}

/// The part of a tensor that a processor holds, one entry per dim. A dim that is split over the
/// axes `a` and `b` is cut into `|a| * |b|` parts, of which the processor at (`a`, `b`) holds part
/// `a * |b| + b`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The global index of the first element.
    pub begin: Vec<usize>,
    /// The number of elements.
    pub size: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, Rules};
    use super::*;

    fn mesh() -> Mesh {
        "r:2,c:4".parse().unwrap()
    }

    /// The two axes of `mesh()`.
    fn axes() -> (Axis, Axis) {
        (mesh().axis("r").unwrap(), mesh().axis("c").unwrap())
    }

    fn begins(placement: &Placement, shape: &Shape) -> Vec<Vec<usize>> {
        let mesh = mesh();
        (0..8).map(|p| placement.slice(&mesh, shape, p).unwrap().begin).collect()
    }

    fn golden<const RANK: usize>(shape: &str, size: [usize; RANK], expected: [[usize; RANK]; 8]) {
        let layout: Layout = "batch:r,d_ff:c,heads:c".parse().unwrap();
        let shape: Shape = shape.parse().unwrap();
        let placement = Rules::bind(&layout, &mesh()).unwrap().compute(&shape);
        assert_eq!(placement.slice(&mesh(), &shape, 0).unwrap().size, size);
        assert_eq!(begins(&placement, &shape), expected);
    }

    #[test]
    fn slices_of_the_golden_table() {
        golden(
            "batch:8,d_ff:16",
            [4, 4],
            [[0, 0], [0, 4], [0, 8], [0, 12], [4, 0], [4, 4], [4, 8], [4, 12]],
        );
        golden(
            "batch:8,len:5",
            [4, 5],
            [[0, 0], [0, 0], [0, 0], [0, 0], [4, 0], [4, 0], [4, 0], [4, 0]],
        );
        golden(
            "d_ff:16,batch:8",
            [4, 4],
            [[0, 0], [4, 0], [8, 0], [12, 0], [0, 4], [4, 4], [8, 4], [12, 4]],
        );
        golden("x:3", [3], [[0]; 8]);
    }

    #[test]
    fn a_dim_over_several_axes_counts_the_first_as_major() {
        let (r, c) = axes();
        let shape: Shape = "x:16".parse().unwrap();
        let by = |axes: &[Axis]| Placement::replicated().split("x".into(), axes);
        let first = |axes: &[Axis]| begins(&by(axes), &shape).concat();
        assert_eq!(first(&[r, c]), [0, 2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(first(&[c, r]), [0, 4, 8, 12, 2, 6, 10, 14]);
        assert_ne!(by(&[r, c]), by(&[c, r]));
        assert_eq!(by(&[r, c]).parts(&mesh(), "x".into()), 8);
        assert_eq!(by(&[r, c]).local_shape(&mesh(), &"x:12".parse().unwrap()), None);
    }

    #[test]
    fn equal_placements_compare_equal() {
        let (r, c) = axes();
        let (x, y) = (DimName::new("x"), DimName::new("y"));
        let a = Placement::replicated().split(x, &[r]).split(y, &[c]);
        let b = Placement::replicated().split(y, &[r]).split(x, &[r]).split(y, &[c]);
        assert_eq!(a, b);
        assert_eq!(a.clone().split(x, &[]).split(y, &[]), Placement::replicated());
        assert_eq!(
            a.clone().with_pending(ReduceKind::Sum, &[c, r, c]),
            b.with_pending(ReduceKind::Sum, &[r, c])
        );
        assert_eq!(a.clone().with_pending(ReduceKind::Max, &[]), a);
        assert_eq!(a.clone().with_pending(ReduceKind::Max, &[r]).resolved(), a);
        let owned = Placement::replicated().with_owner(c, 1).with_owner(r, 0);
        assert_eq!(owned, Placement::replicated().with_owner(r, 0).with_owner(c, 1));
    }

    #[test]
    fn dims_are_found_renamed_and_dropped() {
        let (r, c) = axes();
        let (x, y) = (DimName::new("x"), DimName::new("y"));
        let placement = Placement::replicated().split(x, &[r]).split(y, &[c]);
        assert_eq!((placement.dim_on(r), placement.dim_on(c)), (Some(x), Some(y)));
        let swapped = placement.renamed(|dim| if dim == x { y } else { x });
        assert_eq!((swapped.axes(x), swapped.axes(y)), (&[c][..], &[r][..]));
        let only_x = placement.restricted(&"x:2 z:2".parse().unwrap());
        assert_eq!(only_x, Placement::replicated().split(x, &[r]));
        assert_eq!(only_x.dim_on(c), None);
    }

    #[test]
    fn two_dims_on_one_axis_can_be_said() {
        let (r, _) = axes();
        let placement = Placement::replicated().split("y".into(), &[r]).split("x".into(), &[r]);
        assert_eq!(placement.dim_on(r), Some("x".into()));
        assert_eq!(placement.splits().count(), 2);
    }

    #[test]
    fn descriptions() {
        let (r, c) = axes();
        let shape: Shape = "batch:64 hidden:512".parse().unwrap();
        let split = Placement::replicated().split("batch".into(), &[r, c]);
        let pending = Placement::replicated().with_pending(ReduceKind::Sum, &[c, r]);
        let owned = Placement::replicated().with_owner(r, 0).with_owner(c, 3);
        let say = |placement: &Placement| placement.describe(&mesh(), &shape);
        assert_eq!(say(&split), "[batch:64@r+c, hidden:512]");
        assert_eq!(say(&pending), "[batch:64, hidden:512] pending sum over r+c");
        assert_eq!(say(&owned), "[batch:64, hidden:512] owned by r=0, c=3");
        assert_eq!(owned.describe(&mesh(), &Shape::scalar()), "[] owned by r=0, c=3");
    }
}
