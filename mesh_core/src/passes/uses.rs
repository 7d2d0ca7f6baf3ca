//! Who makes and who reads each value.

use crate::program::{Block, Form, ValueId};
use smallvec::SmallVec;

pub(super) struct Uses {
    /// Per value, the step that makes it.
    pub(super) maker: Vec<Option<usize>>,
    /// Per value, the steps that read it, in order.
    pub(super) users: Vec<SmallVec<[usize; 4]>>,
    /// Per value, whether it is fetched.
    pub(super) fetched: Vec<bool>,
}

impl Uses {
    pub(super) fn new(block: &Block) -> Self {
        let count = block.values.len();
        let mut uses = Self {
            maker: vec![None; count],
            users: std::iter::repeat_with(SmallVec::new).take(count).collect(),
            fetched: vec![false; count],
        };
        for (position, step) in block.steps.iter().enumerate() {
            step.outs.iter().for_each(|out| uses.maker[out.index()] = Some(position));
            for input in step.reads() {
                let users = &mut uses.users[input.index()];
                if users.last() != Some(&position) {
                    users.push(position);
                }
            }
        }
        block.results.iter().for_each(|result| uses.fetched[result.index()] = true);
        uses
    }

    /// Whether one step reads a value, and nobody fetches it.
    pub(super) fn has_one_reader(&self, value: ValueId) -> bool {
        self.users[value.index()].len() == 1 && !self.fetched[value.index()]
    }

    /// Whether the bytes of a value are free once its one reader has run.
    pub(super) fn is_taken_over(&self, block: &Block, value: ValueId) -> bool {
        let maker = self.maker[value.index()].map(|maker| &block.steps[maker].form);
        // Of what these make the bytes are somebody else's.
        let named = |form: &Form| form.renames() || matches!(form, Form::Read(_));
        maker.is_some_and(|maker| !named(maker)) && self.has_one_reader(value)
    }

    /// The last step that reads a value; beyond all steps if it is fetched.
    pub(super) fn last(&self, value: ValueId) -> usize {
        match self.users[value.index()].iter().max() {
            Some(&last) if !self.fetched[value.index()] => last,
            _ => usize::MAX,
        }
    }
}
