//! Shapes of meshes: the ways to write a number of processors as a product.

use super::alike::different;
use super::{Search, SearchError};
use mesh_core::names::Mesh;

/// All ways to write a number as a product of at most so many factors above 1, in which no factor is above the
/// one before it. Mesh TensorFlow's search goes through the same shapes of powers of two.
///
/// ```
/// use mesh_optimize::search::mesh_shapes;
/// assert_eq!(mesh_shapes(8, 3), [vec![8], vec![4, 2], vec![2, 2, 2]]);
/// ```
pub fn mesh_shapes(processors: usize, axes: usize) -> Vec<Vec<usize>> {
    let mut shapes = Vec::new();
    extend(processors, axes, processors, &mut Vec::new(), &mut shapes);
    shapes.sort_by_key(Vec::len);
    shapes
}

fn extend(
    rest: usize,
    axes: usize,
    most: usize,
    begun: &mut Vec<usize>,
    shapes: &mut Vec<Vec<usize>>,
) {
    if rest == 1 {
        shapes.push(begun.clone());
        return;
    }
    if axes == 0 {
        return;
    }
    for factor in (2..=rest.min(most)).rev().filter(|factor| rest.is_multiple_of(*factor)) {
        begun.push(factor);
        extend(rest / factor, axes - 1, factor, begun, shapes);
        begun.pop();
    }
}

/// The meshes of a search. Where one level of the network joins all processors, axes in another order are the
/// same mesh; elsewhere the last axis has the nearest neighbours, so orders are meshes of their own, unless the network
/// joins the same sets of axes.
pub(super) fn meshes(search: &Search) -> Result<Vec<Mesh>, SearchError> {
    let processors = search.processors;
    let levels = &search.machine.levels;
    let is_flat = levels.len() < 2 || levels[0].processors >= processors;
    let mut meshes = Vec::new();
    for shape in mesh_shapes(processors, search.axes.min(Mesh::MAX_AXES)) {
        let orders = if is_flat { vec![shape] } else { orders(shape) };
        for sizes in orders {
            let names = ('a'..='z').map(String::from).collect::<Vec<_>>();
            let axes = names.iter().map(String::as_str).zip(sizes);
            let mesh = Mesh::new(axes).map_err(|error| SearchError::Mesh { processors, error })?;
            meshes.push(mesh);
        }
    }
    if meshes.is_empty() {
        return Err(SearchError::NoMesh { processors, axes: search.axes });
    }
    Ok(different(meshes, &search.machine.shared_by(processors)))
}

/// The different orders of some sizes.
fn orders(mut sizes: Vec<usize>) -> Vec<Vec<usize>> {
    if sizes.len() < 2 {
        return vec![sizes];
    }
    sizes.sort_unstable();
    let mut all = Vec::new();
    for i in 0..sizes.len() {
        if i > 0 && sizes[i] == sizes[i - 1] {
            continue;
        }
        let mut rest = sizes.clone();
        let first = rest.remove(i);
        all.extend(orders(rest).into_iter().map(|rest| [vec![first], rest].concat()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_core::passes::{Level, Machine};

    #[test]
    fn shapes_are_those_of_mesh_tensorflow() {
        assert_eq!(mesh_shapes(512, 9).len(), 30);
        assert_eq!(mesh_shapes(512, 2).len(), 5);
        assert_eq!(mesh_shapes(1, 2), [Vec::<usize>::new()]);
        assert_eq!(mesh_shapes(6, 2), [vec![6], vec![3, 2]]);
        assert!(mesh_shapes(0, 2).is_empty());
    }

    #[test]
    fn orders_count_where_neighbours_are_nearer() {
        let mut search = Search { axes: 2, ..Search::new("f", 8, Machine::host()) };
        assert_eq!(meshes(&search).unwrap().len(), 2);
        let near = Level { processors: 4, ..search.machine.levels[0].clone() };
        search.machine.levels.insert(0, near);
        let texts: Vec<_> = meshes(&search).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a:8", "a:2;b:4", "a:4;b:2"]);
        search.processors = 0;
        assert!(meshes(&search).is_err());
    }
}
