//! Orders of processors: which physical place each logical processor has.
//!
//! Machines are grids, too: cores of a chip, chips of a host, hosts of a rack. Neighbours along an axis of
//! the mesh should be neighbours in the machine. A tiling says so axis by axis; a ring joins the places of a
//! plane so that each is next to the one before it, and the last next to the first.

use super::error::NameError;

/// An axis of the mesh, and the box of places that its processors fill, counted in boxes of the axes behind
/// it. `None` stands for whatever is left.
pub type Tile = Option<Vec<usize>>;

/// The places of a plane of `rows` by `columns`, each next to the one before: along the first row, then to and
/// fro through the columns but the first, and back along that. The last is next to the first where `rows` is
/// even; no ring exists otherwise, and the order is that of the columns.
///
/// ```
/// assert_eq!(
///     mesh_core::names::ring([2, 4]),
///     [[0, 0], [0, 1], [0, 2], [0, 3], [1, 3], [1, 2], [1, 1], [1, 0]]
/// );
/// ```
pub fn ring([rows, columns]: [usize; 2]) -> Vec<[usize; 2]> {
    if rows == 1 {
        return (0..columns).map(|c| [0, c]).collect();
    }
    if columns == 1 {
        return (0..rows).map(|r| [r, 0]).collect();
    }
    if rows % 2 == 1 {
        return (0..columns).flat_map(|c| (0..rows).map(move |r| [r, c])).collect();
    }
    let mut places: Vec<[usize; 2]> = (0..columns).map(|c| [0, c]).collect();
    for row in 1..rows {
        let inner = 1..columns;
        match row % 2 {
            1 => places.extend(inner.rev().map(|c| [row, c])),
            _ => places.extend(inner.map(|c| [row, c])),
        }
    }
    places.extend((1..rows).rev().map(|r| [r, 0]));
    places
}

/// The order of a mesh whose axes tile a machine: `order[logical]` is the number of the place, counted
/// row-major, as [`Mesh::with_order`](super::Mesh::with_order) takes it. The first axis may be `None`. Within a
/// box the first two dims form a [`ring`] if both are longer than 1.
///
/// ```
/// # use mesh_core::names::{Mesh, NameError, hierarchical};
/// // Two hosts of two by two chips: the four of a host are one axis.
/// let (sizes, order) = hierarchical(&[2, 2, 2], &[None, Some(vec![1, 1, 2])])?;
/// assert_eq!((sizes, order.as_slice()), (vec![4, 2], [0, 1, 2, 3, 6, 7, 4, 5].as_slice()));
/// let mesh = Mesh::new([("data", 4), ("model", 2)])?.with_order(order)?;
/// # Ok::<(), NameError>(())
/// ```
///
/// # Errors
///
/// If the tiles do not fill the machine, or a tile other than the first is `None`.
pub fn hierarchical(
    physical: &[usize],
    tiles: &[Tile],
) -> Result<(Vec<usize>, Vec<usize>), NameError> {
    let mut left = physical.to_vec();
    let mut boxes = Vec::new();
    for (position, tile) in tiles.iter().enumerate().rev() {
        let size = match tile {
            Some(size) => size.clone(),
            None if position == 0 => left.clone(),
            None => return Err(NameError::Tiles { machine: physical.to_vec() }),
        };
        let fits = size.len() == left.len()
            && size.iter().zip(&left).all(|(tile, left)| *tile > 0 && left.is_multiple_of(*tile));
        if !fits {
            return Err(NameError::Tiles { machine: physical.to_vec() });
        }
        left.iter_mut().zip(&size).for_each(|(left, tile)| *left /= tile);
        boxes.push(size);
    }
    if left.iter().any(|left| *left != 1) {
        return Err(NameError::Tiles { machine: physical.to_vec() });
    }
    boxes.reverse();
    let sizes = boxes.iter().map(|size| size.iter().product()).collect();
    // How far apart in the machine the boxes of an axis lie, dim by dim.
    let mut steps = vec![1; physical.len()];
    let mut places: Vec<Vec<usize>> = vec![vec![0; physical.len()]];
    for size in boxes.iter().rev() {
        let along = in_box(size);
        places = along
            .iter()
            .flat_map(|at| places.iter().map(|inner| offset(at, &steps, inner)).collect::<Vec<_>>())
            .collect();
        steps.iter_mut().zip(size).for_each(|(step, tile)| *step *= tile);
    }
    let number = |place: Vec<usize>| {
        place.iter().zip(physical).fold(0, |number, (at, size)| number * size + at)
    };
    Ok((sizes, places.into_iter().map(number).collect()))
}

/// The order of a mesh of axes of these sizes on a machine: the last axis fills the smallest box, and each axis
/// before it the boxes behind it. A box takes the dims of the machine after the first two (the cores of a chip)
/// first, then whole rows or columns of the plane, else what is nearest to a square; then
/// [`hierarchical`] orders it.
///
/// ```
/// # use mesh_core::names::{Mesh, NameError, in_boxes};
/// let order = in_boxes(&[2, 2, 2], &[2, 4])?;
/// assert_eq!(order, [0, 1, 4, 5, 2, 3, 6, 7]);
/// let mesh = Mesh::new([("data", 2), ("model", 4)])?.with_order(order)?;
/// # Ok::<(), NameError>(())
/// ```
///
/// # Errors
///
/// If boxes of these sizes do not fill the machine.
pub fn in_boxes(physical: &[usize], sizes: &[usize]) -> Result<Vec<usize>, NameError> {
    let unfit = || NameError::Tiles { machine: physical.to_vec() };
    let mut left = physical.to_vec();
    let mut tiles = Vec::new();
    for &size in sizes.iter().skip(1).rev() {
        let tile = tightest(&left, size).ok_or_else(unfit)?;
        left.iter_mut().zip(&tile).for_each(|(left, tile)| *left /= tile);
        tiles.push(Some(tile));
    }
    tiles.push(None);
    tiles.reverse();
    let (found, order) = hierarchical(physical, &tiles)?;
    let all =
        if sizes.is_empty() { physical.iter().all(|size| *size == 1) } else { found == sizes };
    if all { Ok(order) } else { Err(unfit()) }
}

/// The box of `size` places that divides `left` and that [`in_boxes`] takes, if there is one.
fn tightest(left: &[usize], size: usize) -> Option<Vec<usize>> {
    let (plane, inner) = left.split_at(left.len().min(2));
    let mut rest = size;
    let mut taken: Vec<_> = inner
        .iter()
        .rev()
        .map(|extent| {
            let shared = common(*extent, rest);
            rest /= shared.max(1);
            shared
        })
        .collect();
    taken.reverse();
    let divides = |extent: usize, part: usize| part > 0 && extent.is_multiple_of(part);
    let plane = match *plane {
        [] => (rest == 1).then(Vec::new),
        [line] => divides(line, rest).then(|| vec![rest]),
        [rows, columns, ..] => {
            let fits =
                |&r: &usize| divides(rest, r) && divides(rows, r) && divides(columns, rest / r);
            let whole = |r: usize| r == rows || rest / r == columns;
            let long = |r: usize| r.max(rest / r);
            let best = |&r: &usize| (!whole(r), long(r), std::cmp::Reverse(r));
            (1..=rows).filter(fits).min_by_key(best).map(|r| vec![r, rest / r])
        }
    };
    plane.map(|plane| [plane, taken].concat())
}

/// The greatest common divisor.
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

fn offset(at: &[usize], steps: &[usize], inner: &[usize]) -> Vec<usize> {
    at.iter().zip(steps).zip(inner).map(|((at, step), inner)| at * step + inner).collect()
}

/// The places of a box in the order of an axis: the plane of its first two dims as a ring if both are longer
/// than 1, and what lies at one place of it together; else row-major.
fn in_box(size: &[usize]) -> Vec<Vec<usize>> {
    let (plane, rest) = size.split_at(size.len().min(2));
    let plane: Vec<Vec<usize>> = match *plane {
        [rows, columns] if rows > 1 && columns > 1 => {
            ring([rows, columns]).into_iter().map(Vec::from).collect()
        }
        _ => row_major(plane),
    };
    let inner = row_major(rest);
    let at = |place: &Vec<usize>| {
        inner.iter().map(|inner| [&place[..], inner].concat()).collect::<Vec<_>>()
    };
    plane.iter().flat_map(at).collect()
}

fn row_major(size: &[usize]) -> Vec<Vec<usize>> {
    size.iter().fold(vec![Vec::new()], |places, &extent| {
        let along = |place: &Vec<usize>| {
            (0..extent).map(|at| [&place[..], &[at]].concat()).collect::<Vec<_>>()
        };
        places.iter().flat_map(along).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Mesh TensorFlow's `HierarchicalTiling` gives.
    #[test]
    fn the_orders_of_mesh_tensorflow() {
        let tile = |size: &[usize]| Some(size.to_vec());
        type Row<'a> = (&'a [usize], Vec<Tile>, Vec<usize>);
        let table: [Row<'_>; 3] = [
            (&[2, 2, 2], vec![None, tile(&[1, 1, 2])], vec![0, 1, 2, 3, 6, 7, 4, 5]),
            (&[2, 2, 2], vec![None, tile(&[2, 2, 1])], vec![0, 2, 6, 4, 1, 3, 7, 5]),
            (
                &[2, 4, 2],
                vec![tile(&[1, 2, 2]), tile(&[2, 2, 1])],
                vec![0, 2, 10, 8, 1, 3, 11, 9, 4, 6, 14, 12, 5, 7, 15, 13],
            ),
        ];
        for (physical, tiles, expected) in table {
            assert_eq!(hierarchical(physical, &tiles).unwrap().1, expected, "{tiles:?}");
        }
    }

    #[test]
    fn neighbours_of_a_ring_are_neighbours() {
        assert_eq!(
            ring([4, 4]).map_numbers(4),
            [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]
        );
        for rows in 1..7 {
            for columns in 1..6 {
                let places = ring([rows, columns]);
                let mut sorted = places.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), rows * columns);
                let closed = rows % 2 == 0 && columns > 1;
                let pairs = places.windows(2).map(|pair| (pair[0], pair[1]));
                let last = places.last().copied().zip(places.first().copied());
                for (a, b) in pairs.chain(last.filter(|_| closed)) {
                    let apart = a[0].abs_diff(b[0]) + a[1].abs_diff(b[1]);
                    assert!(apart == 1 || !closed, "{rows} x {columns}: {a:?} {b:?}");
                }
            }
        }
    }

    trait Numbers {
        fn map_numbers(&self, columns: usize) -> Vec<usize>;
    }

    impl Numbers for Vec<[usize; 2]> {
        fn map_numbers(&self, columns: usize) -> Vec<usize> {
            self.iter().map(|[row, column]| row * columns + column).collect()
        }
    }

    /// Mesh TensorFlow's two numbers, and its cases, of which it asks for permutations.
    #[test]
    fn boxes_are_chosen() {
        assert_eq!(in_boxes(&[2, 2, 2], &[8]).unwrap(), [0, 1, 2, 3, 6, 7, 4, 5]);
        assert_eq!(in_boxes(&[2, 2, 2], &[2, 4]).unwrap(), [0, 1, 4, 5, 2, 3, 6, 7]);
        let cases: [(&[usize], &[usize]); 8] = [
            (&[8, 8, 2], &[128]),
            (&[8, 8, 2], &[8, 16]),
            (&[8, 8, 2], &[32, 4]),
            (&[256], &[2, 32, 4]),
            (&[8, 8, 2], &[4, 4, 8]),
            (&[], &[]),
            (&[3, 5], &[15, 1]),
            (&[6, 4, 3], &[2, 3, 12]),
        ];
        for (physical, sizes) in cases {
            let mut order = in_boxes(physical, sizes).unwrap();
            order.sort_unstable();
            assert!(order.into_iter().eq(0..sizes.iter().product()), "{physical:?} {sizes:?}");
        }
        // A whole row of 8 chips with their cores: nobody of it is more than one place from the next.
        let order = in_boxes(&[8, 8, 2], &[8, 16]).unwrap();
        assert!(order.chunks(16).all(|row| row.chunks(2).all(|chip| chip[1] == chip[0] + 1)));
        for sizes in [&[2, 2][..], &[5, 3], &[7], &[16], &[]] {
            let refused = in_boxes(&[2, 2, 2], sizes).unwrap_err().to_string();
            assert!(refused.contains("do not fill a machine of [2, 2, 2]"), "{refused}");
        }
    }

    /// Mesh TensorFlow's own cases: permutations, and the mesh that comes of them.
    #[test]
    fn tilings_are_permutations() {
        let tile = |size: &[usize]| Some(size.to_vec());
        let table: [(&[usize], Vec<Tile>, &[usize]); 7] = [
            (&[8, 8, 2], vec![None], &[128]),
            (&[8, 8, 2], vec![None, tile(&[1, 1, 2])], &[64, 2]),
            (&[8, 8, 2], vec![tile(&[8, 8, 1]), tile(&[1, 1, 2])], &[64, 2]),
            (&[8, 8, 2], vec![None, tile(&[2, 8, 1])], &[8, 16]),
            (&[8, 8, 2], vec![None, tile(&[1, 8, 1]), tile(&[8, 1, 2])], &[1, 8, 16]),
            (&[8, 8, 2], vec![None, tile(&[2, 2, 1]), tile(&[2, 2, 1])], &[8, 4, 4]),
            (&[9, 15, 7], vec![tile(&[3, 5, 1]), tile(&[3, 3, 7])], &[15, 63]),
        ];
        for (physical, tiles, sizes) in table {
            let (found, mut order) = hierarchical(physical, &tiles).unwrap();
            assert_eq!(found, sizes, "{tiles:?}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..physical.iter().product()), "{tiles:?}");
        }
        for tiles in [vec![tile(&[3, 1, 1])], vec![tile(&[2, 2])], vec![tile(&[2, 2, 2]), None]] {
            let refused = hierarchical(&[2, 2, 2], &tiles).unwrap_err().to_string();
            assert!(refused.contains("do not fill a machine of [2, 2, 2]"), "{refused}");
        }
    }
}
