//! Placements by number.

use crate::names::Placement;
use smallvec::SmallVec;
use std::ops::Deref;
use std::rc::Rc;

/// A placement with its number: two of one memo are equal if their numbers are.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    number: u32,
    placement: Rc<Placement>,
}

impl Placed {
    pub(super) fn new(number: u32, placement: Rc<Placement>) -> Self {
        Self { number, placement }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Deref for Placed {
    type Target = Placement;

    fn deref(&self) -> &Placement {
        &self.placement
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// Where an operation's tensors lie, by number.
#[derive(Clone, Debug)]
pub(crate) struct PlacedOperation {
    pub(crate) inputs: SmallVec<[Placed; 2]>,
    pub(crate) outputs: SmallVec<[Placed; 2]>,
    pub(crate) alias: bool,
}
