//! The step forms, one room each: what a form means, which steps of it are legal, what it costs, how
//! it is printed, what it is in StableHLO.
//!
//! A new form is a room and a word in the list below (and a kernel, `exec/cpu`, if it is local).

mod all_gather;
mod all_reduce;
mod all_to_all;
mod awaits;
mod barrier;
mod broadcast;
mod call;
mod contract;
mod convolve;
mod cx;
mod gather;
mod generate;
mod loops;
mod map;
mod moves;
mod permute;
mod pool;
mod put;
mod reduce;
mod reduce_scatter;
mod reduce_to;
mod reshape;
mod scan;
mod scatter;
mod sort;
mod variables;

pub use all_gather::AllGather;
pub use all_reduce::{AllReduce, FoldOrder};
pub use all_to_all::AllToAll;
pub use awaits::Await;
pub use barrier::Barrier;
pub use broadcast::Broadcast;
pub use call::Call;
pub use contract::Contract;
pub use convolve::{Convolve, Window};
pub use gather::Gather;
pub use generate::Generate;
pub use loops::{Loop, LoopInputs, is_stack};
pub(crate) use loops::{put_slice, slice_of};
pub use map::Map;
pub use moves::{Move, Piece};
pub use permute::{Pairs, Permute};
pub use pool::{Pool, PoolKind, Reach};
pub use put::Put;
pub use reduce::Reduce;
pub use reduce_scatter::ReduceScatter;
pub use reduce_to::ReduceTo;
pub use reshape::Reshape;
pub use scan::Scan;
pub use scatter::Scatter;
pub use sort::Sort;
pub use variables::{Read, Write};

pub(crate) use cx::StepCx;
pub(super) use cx::{Labels, Legal, check_axes, ensure};

use super::meaning::Meaning;
use super::stablehlo::Spell;
use super::{Cost, Operand};
use crate::names::AxisList;
use serde::{Deserialize, Serialize};

/// What every form says of itself. The doc comment of each form specifies its inputs, outs and
/// meaning; what stands here is derived from that; so is the meaning, [`Local`](super::meaning::Local) or
/// [`Collective`](super::meaning::Collective).
pub(super) trait FormRules {
    /// The name, as printed.
    fn name(&self) -> &'static str;

    /// The group of a collective.
    fn axes(&self) -> Option<&AxisList> {
        None
    }

    /// Whether inputs have labels of their own. Inputs of other forms are met whole.
    fn is_labelled(&self) -> bool {
        false
    }

    /// Whether a step does something besides defining its outs.
    fn has_effect(&self) -> bool {
        false
    }

    /// Whether each out is an input under another name, if both are in declared order: no bytes move.
    fn renames(&self) -> bool {
        false
    }

    /// Whether an out may be computed in the bytes of an input of the same extents, memory order and
    /// element size: no element is written before the last read of the element it replaces.
    fn in_place(&self, _inputs: &[Operand], _out: usize, _input: usize) -> bool {
        false
    }

    /// Whether a step is legal. Its ids are in range, and its inputs have one label per dim, none
    /// twice.
    fn check(&self, step: &StepCx<'_>) -> Legal;

    /// What a legal step costs one processor.
    fn cost(&self, step: &StepCx<'_>) -> Cost;

    /// What a step does, as text that follows the form's name.
    fn text(&self, step: &StepCx<'_>) -> String;
}

macro_rules! forms {
    (
        local: $($local:ident)*; collective: $($collective:ident)*; other: $($other:ident)*;
        nothing: $($nothing:ident)*;
    ) => {
        forms! { $($local)* $($collective)* $($other)* $($nothing)* }

        impl Form {
            /// What a step of it means.
            pub(crate) fn meaning(&self) -> Meaning<'_> {
                match self {
                    $(Self::$local(form) => Meaning::Local(form),)*
                    $(Self::$collective(form) => Meaning::Collective(form),)*
                    $(Self::$other(form) => Meaning::$other(form),)*
                    $(Self::$nothing(_) => Meaning::Nothing,)*
                }
            }
        }
    };
    ($($form:ident)*) => {
        /// What a step does: one of a closed set of forms, with its attributes.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each form's room says what it means")]
        pub enum Form {
            $($form($form),)*
        }

        impl Form {
            pub(super) fn rules(&self) -> &dyn FormRules {
                match self {
                    $(Self::$form(form) => form,)*
                }
            }

            pub(super) fn spelling(&self) -> &dyn Spell {
                match self {
                    $(Self::$form(form) => form,)*
                }
            }
        }

        $(impl From<$form> for Form {
            fn from(form: $form) -> Self {
                Self::$form(form)
            }
        })*
    };
}

forms! {
    local: Map Reduce Contract Convolve Pool Move Reshape Generate Gather Scatter Put Sort Scan Call Barrier;
    collective: AllReduce AllGather ReduceScatter AllToAll Permute ReduceTo Broadcast;
    other: Read Write Loop;
    nothing: Await;
}

impl Form {
    /// The form's name, as printed.
    pub fn name(&self) -> &'static str {
        self.rules().name()
    }

    /// The group of a collective; `None` for local forms.
    pub fn axes(&self) -> Option<&AxisList> {
        self.rules().axes()
    }

    /// Whether a step of it does something besides defining its outs.
    pub fn has_effect(&self) -> bool {
        self.rules().has_effect()
    }

    /// Whether each out of a step of it is an input under another name, if both are in declared
    /// order.
    pub fn renames(&self) -> bool {
        self.rules().renames()
    }

    /// Whether a step of it with these inputs may compute an out in the bytes of an input of the same extents, memory
    /// order and element size: no element is written before the last read of the element it replaces.
    pub fn may_work_in_place(&self, inputs: &[Operand], out: usize, input: usize) -> bool {
        self.rules().in_place(inputs, out, input)
    }
}
