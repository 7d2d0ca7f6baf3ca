//! Loop nests over strided operands.

use super::rows::{self, Source, by_size};
use super::transpose::Turn;
use crate::program::{Block, Dims, Operand, ValueId};
use smallvec::SmallVec;

/// Strides of the operands of a nest along one dim, in elements.
pub(super) type Strides = SmallVec<[isize; 3]>;

/// One loop: how often, and how far each operand travels per turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    pub(super) extent: usize,
    pub(super) strides: Strides,
}

/// Nested loops over several operands, outermost first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Nest {
    pub(super) loops: SmallVec<[Loop; 4]>,
    pub(super) operands: usize,
}

impl Nest {
    /// Loops of the given extents; `strides[k][i]` is how far operand `k` travels along dim `i`.
    pub(super) fn new(extents: &[usize], strides: &[&[isize]]) -> Self {
        let one = |(i, &extent): (usize, &usize)| Loop {
            extent,
            strides: strides.iter().map(|of| of[i]).collect(),
        };
        Self { loops: extents.iter().enumerate().map(one).collect(), operands: strides.len() }
    }

    /// Puts loops with long strides of `operand` outside; of equal ones the order stays.
    pub(super) fn sort_by(&mut self, operand: usize) {
        self.loops.sort_by_key(|l| std::cmp::Reverse(l.strides[operand].unsigned_abs()));
    }

    /// Drops loops of one turn and joins neighbours that are one loop for every operand.
    pub(super) fn collapse(mut self) -> Self {
        let mut kept: SmallVec<[Loop; 4]> = SmallVec::new();
        for inner in self.loops.drain(..).filter(|l| l.extent != 1) {
            let joins = |outer: &Loop| {
                let mut pairs = outer.strides.iter().zip(&inner.strides);
                pairs.all(|(&o, &i)| o == i * inner.extent as isize)
            };
            match kept.last_mut() {
                Some(outer) if joins(outer) => {
                    outer.extent *= inner.extent;
                    outer.strides = inner.strides;
                }
                _ => kept.push(inner),
            }
        }
        Self { loops: kept, operands: self.operands }
    }

    /// Turns of all loops together.
    pub(super) fn len(&self) -> usize {
        self.loops.iter().map(|l| l.extent).product()
    }

    /// Splits off the innermost loop; a nest without loops has one of one turn.
    pub(super) fn split_inner(mut self) -> (Self, Loop) {
        let strides = SmallVec::from_elem(1, self.operands);
        let inner = self.loops.pop().unwrap_or(Loop { extent: 1, strides });
        (self, inner)
    }

    /// Calls `body` with every combination of offsets, in order.
    #[inline]
    pub(super) fn walk<const N: usize>(
        &self,
        start: [isize; N],
        body: &mut impl FnMut([isize; N]),
    ) {
        debug_assert_eq!(self.operands, N);
        walk(&self.loops, start, body);
    }

    /// One operand's offset at every combination, in order.
    pub(super) fn offsets(&self, operand: usize) -> Vec<isize> {
        let mut all = vec![0];
        for l in &self.loops {
            let turn =
                |base: isize| (0..l.extent as isize).map(move |i| base + i * l.strides[operand]);
            all = all.into_iter().flat_map(turn).collect();
        }
        all
    }
}

fn walk<const N: usize>(loops: &[Loop], mut at: [isize; N], body: &mut impl FnMut([isize; N])) {
    let Some((first, rest)) = loops.split_first() else { return body(at) };
    for _ in 0..first.extent {
        walk(rest, at, body);
        for (offset, stride) in at.iter_mut().zip(&first.strides) {
            *offset += stride;
        }
    }
}

/// A step's labels: the extent of each, and each operand's stride along each (0 where absent).
pub(super) struct Labels {
    /// One per label.
    pub(super) extents: Vec<usize>,
    /// Per operand, one per label.
    pub(super) strides: Vec<Vec<isize>>,
    /// Per operand, whether it has the label.
    pub(super) has: Vec<Vec<bool>>,
}

impl Labels {
    /// The labels of `inputs`, and of `out`, which comes last and has labels `0..rank`.
    pub(super) fn new(block: &Block, inputs: &[&Operand], out: ValueId) -> Self {
        let value = block.value(out);
        let dims: Dims = (0..value.extents.len() as u8).collect();
        let out = Operand { value: out, dims };
        let operands: Vec<&Operand> = inputs.iter().copied().chain([&out]).collect();
        let labels = operands.iter().flat_map(|o| &o.dims).map(|&d| d as usize + 1).max();
        let count = labels.unwrap_or(0);
        let mut all = Self {
            extents: vec![1; count],
            strides: vec![vec![0; count]; operands.len()],
            has: vec![vec![false; count]; operands.len()],
        };
        for (k, operand) in operands.iter().enumerate() {
            let value = block.value(operand.value);
            let strides = value.strides();
            for (i, &label) in operand.dims.iter().enumerate() {
                all.extents[label as usize] = value.extents[i];
                all.strides[k][label as usize] = strides[i] as isize;
                all.has[k][label as usize] = true;
            }
        }
        all
    }

    /// A nest over the chosen labels for the chosen operands.
    pub(super) fn nest(&self, labels: &[usize], operands: &[usize]) -> Nest {
        let extents: Vec<_> = labels.iter().map(|&l| self.extents[l]).collect();
        let strides: Vec<Vec<_>> = operands
            .iter()
            .map(|&k| labels.iter().map(|&l| self.strides[k][l]).collect())
            .collect();
        let views: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
        Nest::new(&extents, &views)
    }

    /// The labels for which `choose` is true.
    pub(super) fn select(&self, choose: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.extents.len()).filter(|&l| choose(l)).collect()
    }
}

/// Copies elements of `size` bytes over a nest with strides (from, to), the first loop cut to
/// `first` turns.
///
/// # Safety
///
/// Both sides are valid at every offset of the nest, and do not overlap.
pub(super) unsafe fn copy(nest: &[Loop], first: usize, size: usize, from: *const u8, to: *mut u8) {
    let Some((outer, rest)) = nest.split_first() else {
        // SAFETY: one element at offset 0.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
    };
    let (s, t) = (outer.strides[0], outer.strides[1]);
    let Some(next) = rest.first() else {
        // SAFETY: `from` and `to` are good for `first` elements at these strides.
        return unsafe { copy_run(first, size, (from, s), (to, t)) };
    };
    let inner: isize = rest.iter().map(|l| l.extent as isize).product();
    let packed = rest.last().is_some_and(|l| l.strides[1] == 1) && t == inner;
    if s == 0 && packed && is_packed(rest) {
        // SAFETY: the first turn as promised; then what is written is repeated behind itself.
        unsafe {
            copy(rest, next.extent, size, from, to);
            repeat(to, inner as usize * size, first);
        }
        return;
    }
    if let [Loop { extent, strides }] = rest
        && strides[..] == [1, 1]
        && rows::SHORT.contains(&(extent * size))
    {
        let step = size as isize;
        let source = Source { from, step: s * step, bytes: extent * size, to: 0 };
        // SAFETY: `from` and `to` are good for `first` rows of this length at these strides.
        return unsafe { rows::copy_rows(first, &[source], (to, t * step)) };
    }
    if let [Loop { extent, strides }] = rest
        && strides[..] == [0, 1]
    {
        // SAFETY: `from` and `to` are good for the two loops at these strides.
        return unsafe { rows::spread([first, *extent], size, (from, s), (to, t)) };
    }
    if let [next] = rest
        && (s.abs() == 1 || next.strides[0].abs() == 1)
        && next.strides[0] != next.strides[1]
        && next.strides[0] != 0
    {
        // SAFETY: `from` and `to` are good for the two loops at these strides.
        return unsafe { transpose([first, next.extent], [s, t], next, size, from, to) };
    }
    for i in 0..first as isize {
        let step = size as isize;
        // SAFETY: offsets of the nest.
        unsafe {
            let (from, to) = (from.offset(i * s * step), to.offset(i * t * step));
            copy(rest, next.extent, size, from, to);
        }
    }
}

/// Whether the `to` side of the loops is one run.
fn is_packed(nest: &[Loop]) -> bool {
    let mut step = 1;
    nest.iter().rev().all(|l| {
        let fits = l.strides[1] == step;
        step *= l.extent as isize;
        fits
    })
}

/// Bytes that are copied from where they are near: a third of a first cache.
const NEAR: usize = 12 << 10;

/// Repeats the first `bytes` bytes until there are `times` copies.
///
/// # Safety
///
/// `to` is valid for `bytes * times` bytes.
pub(super) unsafe fn repeat(to: *mut u8, bytes: usize, times: usize) {
    let (mut done, most) = (1, (NEAR / bytes.max(1)).max(1));
    while done < times {
        let more = done.min(times - done).min(most);
        // SAFETY: within `bytes * times`, behind what is copied.
        unsafe { std::ptr::copy_nonoverlapping(to, to.add(done * bytes), more * bytes) };
        done += more;
    }
}

/// Copies `n` elements along one dim; pairs are pointer and stride.
///
/// # Safety
///
/// As [`copy`].
pub(super) unsafe fn copy_run(
    n: usize,
    size: usize,
    from: (*const u8, isize),
    to: (*mut u8, isize),
) {
    if from.1 == 1 && to.1 == 1 {
        // SAFETY: runs of `n` elements.
        return unsafe { std::ptr::copy_nonoverlapping(from.0, to.0, n * size) };
    }
    by_size!(size, T => {
        let (a, b) = (from.0.cast::<T>(), to.0.cast::<T>());
        // SAFETY: `n` elements apart by the strides.
        unsafe {
            if from.1 == 0 {
                let x = *a;
                if to.1 == 1 {
                    std::slice::from_raw_parts_mut(b, n).fill(x);
                } else {
                    (0..n as isize).for_each(|i| *b.offset(i * to.1) = x);
                }
            } else {
                (0..n as isize).for_each(|i| *b.offset(i * to.1) = *a.offset(i * from.1));
            }
        }
    });
}

/// Two loops that run along different dims of memory, in blocks that stay in cache; in squares that fit registers, where both dims
/// are long and each is packed on its side.
///
/// # Safety
///
/// As [`copy`].
unsafe fn transpose(
    extents: [usize; 2],
    outer: [isize; 2],
    inner: &Loop,
    size: usize,
    from: *const u8,
    to: *mut u8,
) {
    const BLOCK: usize = 32;
    let (si, ti) = (inner.strides[0], inner.strides[1]);
    let [so, to_outer] = outer;
    let [rows, columns] = extents;
    let squares = match rows >= BLOCK && columns >= BLOCK {
        true if so == 1 && ti == 1 => Some(([columns, rows], si, to_outer)),
        true if si == 1 && to_outer == 1 => Some(([rows, columns], so, ti)),
        _ => None,
    };
    by_size!(size, T => {
        let (a, b) = (from.cast::<T>(), to.cast::<T>());
        if let Some((extents, from_stride, to_stride)) = squares {
            let turn = Turn { extents, from: a, from_stride, to: b, to_stride };
            // SAFETY: `from` and `to` are good for the two loops at these strides.
            return unsafe { turn.by_columns() };
        }
        for i in (0..rows).step_by(BLOCK) {
            for j in (0..columns).step_by(BLOCK) {
                for i in (i..rows.min(i + BLOCK)).map(|i| i as isize) {
                    for j in (j..columns.min(j + BLOCK)).map(|j| j as isize) {
                        // SAFETY: offsets of the nest.
                        unsafe { *b.offset(i * to_outer + j * ti) = *a.offset(i * so + j * si) };
                    }
                }
            }
        }
    });
}
