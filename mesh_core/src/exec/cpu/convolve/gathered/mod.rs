//! Convolutions as matrix products: what windows see is gathered in blocks that stay in cache.
//!
//! A row of the left matrix is what the window at one position sees: for every position of the kernel the
//! channels there. Forward and for the image's gradient the right matrix is the kernel, and the product
//! the result; for the kernel's gradient the right matrix is the output's gradient, and the left one is
//! transposed.

mod run;

use super::matrices::{Ends, Matrices, Part, Tap};
use super::parts::Parts;
use crate::exec::cpu::blocks::Blocks;
use crate::exec::cpu::gemm::Number;
use crate::exec::cpu::strided::Labels;
use crate::program::Window;

/// Most rows of a block, and fewest if there are as many.
const ROWS: [usize; 2] = [1024, 256];
/// Elements of a row of a block, about.
const DEPTH: usize = 256;
/// Elements of a block: 1 MiB of f32.
const BLOCK: usize = 256 << 10;

/// Fewest images for which products apart for the ends of images are worth the zeros that they spare.
const IMAGES: usize = 16;

/// Taps whose rows of the kernel follow each other evenly.
struct Group {
    /// Elements of a row that are neighbours in the source: where, how many.
    runs: Vec<(isize, usize)>,
    /// Where the first row of the kernel is.
    kernel: isize,
    /// Elements of a row.
    depth: usize,
}

/// The products of a [`Part`].
struct Planned<T: Number> {
    part: Part,
    groups: Vec<Group>,
    /// From a row to the next in the result, if that is even.
    even: Option<isize>,
    /// By rows and depth.
    products: Vec<([usize; 2], Blocks<T>)>,
}

pub(super) struct Gathered<T: Number> {
    matrices: Matrices,
    parts: Vec<Planned<T>>,
    /// Images of a block; 1 if an image has several blocks.
    images: usize,
    /// Positions of a block of one image.
    positions: usize,
    /// The kernel's rows in the order of all groups, if it has to be packed for them.
    packed: Option<Vec<isize>>,
}

impl<T: Number> Gathered<T> {
    /// `None` where the matrices are not even, or the products too small to pay for gathering.
    pub(super) fn new(labels: &Labels, windows: &[Window], parts: &Parts) -> Option<Self> {
        let mut matrices = Matrices::new(labels, windows, parts, Ends::Padded)?;
        if !matrices.makes_kernel() && matrices.images.len() >= IMAGES {
            let clipped = Matrices::new(labels, windows, parts, Ends::Clipped)?;
            if clipped.terms() * 8 <= matrices.terms() * 7 {
                matrices = clipped;
            }
        }
        let parts = std::mem::take(&mut matrices.parts);
        let of_kernel = matrices.makes_kernel();
        // Large rows of the kernel are multiplied tap by tap where they lie.
        let small = matrices.depth.0 < DEPTH;
        let packs = !of_kernel && small && parts.iter().any(|part| !is_even(part, &matrices));
        let mut packed = Vec::new();
        let mut grouped = Vec::new();
        for part in parts {
            let groups = groups(&part.taps, &matrices, packs.then_some(&mut packed));
            grouped.push((part, groups));
        }
        let all = || grouped.iter().flat_map(|(_, groups)| groups);
        let depth = all().map(|group| group.depth).max()?;
        let positions = grouped.iter().map(|(part, _)| part.rows.len()).max()?;
        let most = (BLOCK / depth).clamp(ROWS[1], ROWS[0]);
        let images = (most / positions).clamp(1, matrices.images.len());
        let positions = positions.div_ceil(positions.div_ceil(most));
        let mut plan = Self {
            parts: Vec::new(),
            images,
            positions,
            packed: packs.then_some(packed),
            matrices,
        };
        for (part, groups) in grouped {
            let even = plan.even(&part);
            if of_kernel && even.is_none() {
                return None;
            }
            let products = plan.products(&part, &groups, even);
            plan.parts.push(Planned { part, groups, even, products });
        }
        Some(plan)
    }

    /// From a row of a block to the next in the result, if that is even.
    fn even(&self, part: &Part) -> Option<isize> {
        let [first, second] = [0, 1].map(|i| part.rows.get(i).map(|row| row[1]));
        let images = &self.matrices.images;
        let step = match (first, second, &images[..]) {
            (Some(first), Some(second), _) => second - first,
            (_, _, [one, other, ..]) if self.images > 1 => other[1] - one[1],
            _ => 1,
        };
        let rows = part.rows.windows(2).all(|pair| pair[1][1] - pair[0][1] == step);
        let apart = step * part.rows.len() as isize;
        let images = images.windows(2).all(|pair| pair[1][1] - pair[0][1] == apart);
        (rows && (images || self.images == 1)).then_some(step)
    }

    /// The products of all numbers of rows and depths that blocks have.
    fn products(
        &self,
        part: &Part,
        groups: &[Group],
        even: Option<isize>,
    ) -> Vec<([usize; 2], Blocks<T>)> {
        let Matrices { images, columns, .. } = &self.matrices;
        let sizes = |n: usize, most: usize| [most.min(n), n % most].into_iter().filter(|n| *n > 0);
        let rows = sizes(images.len(), self.images)
            .flat_map(|i| sizes(part.rows.len(), self.positions).map(move |p| i * p));
        let mut products: Vec<([usize; 2], _)> = Vec::new();
        for m in rows {
            for &Group { depth, .. } in groups {
                if products.iter().any(|(size, _)| *size == [m, depth]) {
                    continue;
                }
                let kernel = self.kernel_steps();
                let result = match even {
                    Some(step) => [step, columns.1[1]],
                    None => [columns.0 as isize, 1],
                };
                let wide = depth as isize;
                let product = match self.matrices.makes_kernel() {
                    true => Blocks::new([depth, columns.0, m], [[1, wide], result, kernel], true),
                    false => Blocks::new([m, columns.0, depth], [[wide, 1], kernel, result], true),
                };
                products.push(([m, depth], product));
            }
        }
        products
    }

    /// Between rows and between columns of the kernel, packed or as it lies.
    fn kernel_steps(&self) -> [isize; 2] {
        let Matrices { columns, depth, .. } = &self.matrices;
        match self.packed {
            Some(_) => [columns.0 as isize, 1],
            None => [depth.1, columns.1[0]],
        }
    }
}

fn is_even(part: &Part, matrices: &Matrices) -> bool {
    part.taps.windows(2).all(|pair| goes_on(&pair[0], &pair[1], matrices.depth))
}

/// Whether the rows of the kernel at `after` go on those at `before`, so many of them, evenly.
fn goes_on(before: &Tap, after: &Tap, (depth, step): (usize, isize)) -> bool {
    after.kernel - before.kernel == depth as isize * step
}

/// Cuts taps into groups of about [`DEPTH`] rows of the kernel, and where these are not even. With
/// `packed` their rows are listed there, and are even.
fn groups(taps: &[Tap], matrices: &Matrices, packed: Option<&mut Vec<isize>>) -> Vec<Group> {
    let (depth, step) = matrices.depth;
    let most = taps.len().div_ceil((taps.len() * depth).div_ceil(DEPTH).max(1));
    let even = |pair: &Tap, next: &Tap| packed.is_some() || goes_on(pair, next, (depth, step));
    let mut groups: Vec<Group> = Vec::new();
    let mut packed_rows = packed.as_ref().map_or(0, |rows| rows.len());
    for run in taps.chunk_by(even).flat_map(|run| run.chunks(most)) {
        let mut runs: Vec<(isize, usize)> = Vec::new();
        for tap in run {
            match runs.last_mut().filter(|(at, len)| at + *len as isize == tap.source) {
                Some((_, len)) => *len += depth,
                None => runs.push((tap.source, depth)),
            }
        }
        let kernel = match packed {
            Some(_) => (packed_rows * matrices.columns.0) as isize,
            None => run[0].kernel,
        };
        packed_rows += run.len() * depth;
        groups.push(Group { runs, kernel, depth: run.len() * depth });
    }
    if let Some(rows) = packed {
        rows.extend(taps.iter().flat_map(|tap| (0..depth as isize).map(|d| tap.kernel + d * step)));
    }
    groups
}
