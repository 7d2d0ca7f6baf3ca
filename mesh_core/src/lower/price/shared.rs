//! What operations cost on all meshes of one machine.
//!
//! Without collectives, what an operation costs depends on how its tensors are cut, and not on what the axes are
//! called or where they lie: other layouts, and other meshes, give the same parts again.

use super::work::{Hidden, Work};
use crate::graph::{Data, Operation};
use crate::lower::memo::{Fast, Key};
use crate::lower::placed::Placed;
use crate::names::{Axis, AxisList, Mesh, Placement, Shape};
use std::cell::RefCell;
use std::rc::Rc;

/// Work without collectives, by how tensors are cut.
#[derive(Default)]
pub(super) struct Shared {
    works: RefCell<Fast<Key, Rc<Work>>>,
}

impl Shared {
    pub(super) fn get(&self, key: &Key) -> Option<Rc<Work>> {
        self.works.borrow().get(key).cloned()
    }

    pub(super) fn keep(&self, key: Key, work: &Rc<Work>) {
        if work.price.exchanged.is_empty() {
            self.works.borrow_mut().insert(key, Rc::clone(work));
        }
    }
}

/// How an operation's tensors are cut, outputs before inputs. Axes are numbered as they are met, and known by
/// their sizes.
pub(super) fn cut(
    data: &Data,
    mesh: &Mesh,
    (class, hidden): (u32, Hidden),
    operation: &Operation,
    placed: &[&Placed],
) -> Key {
    let mut cut = Cut { mesh, axes: AxisList::new(), key: Key::from_slice(&[class, hidden]) };
    for (tensor, placed) in operation.outputs.iter().chain(&operation.inputs).zip(placed) {
        cut.placement(&data.tensors[tensor.index()].ty.shape, placed);
    }
    cut.key
}

struct Cut<'m> {
    mesh: &'m Mesh,
    /// Those that were met.
    axes: AxisList,
    key: Key,
}

impl Cut<'_> {
    /// Each list of axes follows its length.
    fn placement(&mut self, shape: &Shape, placement: &Placement) {
        shape.names().for_each(|dim| self.list(placement.axes(dim)));
        self.key.push(placement.pending().map_or(0, |kind| 1 + kind as u32));
        self.list(placement.pending_axes());
        self.key.push(placement.owned().len() as u32);
        for (axis, coordinate) in placement.owned() {
            self.list(&[*axis]);
            self.key.push(*coordinate as u32);
        }
    }

    fn list(&mut self, axes: &[Axis]) {
        self.key.push(axes.len() as u32);
        for axis in axes {
            let known = self.axes.iter().position(|own| own == axis);
            self.key.push(known.unwrap_or(self.axes.len()) as u32);
            if known.is_none() {
                self.axes.push(*axis);
                self.key.push(self.mesh.size(*axis) as u32);
            }
        }
    }
}
