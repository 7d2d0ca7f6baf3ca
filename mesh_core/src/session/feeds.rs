//! What a function is fed.

use std::ops::Range;

use super::{Error, Result, Session, check_dtype};
use crate::array::ArrayRef;
use crate::exec::{Hull, is_addressable};
use crate::names::DType;
use crate::program::{Program, Slot, ValueId};

/// A feed of a function, and what of it this process needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feed<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its dtype.
    pub dtype: DType,
    /// The global size of each dim, in declared order.
    pub shape: &'s [usize],
    /// Per dim the global indices, from the first to the last, that the processors of this process
    /// take their slices from. On threads, and where a dim is not split, all.
    pub addressable: &'s [Range<usize>],
}

impl Session {
    /// What a function is fed, in its order.
    ///
    /// Of each feed the processors of this process need what is
    /// [`addressable`](Feed::addressable) here, as of a JAX array that
    /// `make_array_from_process_local_data` makes. It suffices to feed that: in each dim an array may
    /// have the size of the whole or that of its addressable part, and then is taken to be that part.
    ///
    /// ```
    /// # use mesh_core::session::{Error, Session};
    /// # fn example(session: &Session) -> Result<(), Error> {
    /// for feed in session.feeds("train")? {
    ///     // On the second of two ranks that share a batch of 8: image [8, 784] [4..8, 0..784]
    ///     println!("{} {:?} {:?}", feed.name, feed.shape, feed.addressable);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn feeds(&self, function: &str) -> Result<impl Iterator<Item = Feed<'_>> + Clone> {
        let index = self.function(function)?;
        let program = &self.programs[index];
        let slots = program.fed().zip(self.addressable[index].hulls());
        Ok(slots.map(|((slot, value), hull)| Feed {
            name: &slot.name,
            dtype: program.value(value).dtype,
            shape: &slot.shape,
            addressable: hull,
        }))
    }

    /// Whether arrays fit a function's feeds.
    pub(super) fn check_feeds(&self, function: usize, feeds: &[ArrayRef<'_>]) -> Result<()> {
        let program = &self.programs[function];
        let slots = program.fed().zip(self.addressable[function].hulls());
        slots.zip(feeds).try_for_each(|((slot, hull), feed)| check(program, slot, hull, feed))
    }
}

fn check(
    program: &Program,
    (slot, value): (&Slot, ValueId),
    hull: &Hull,
    feed: &ArrayRef<'_>,
) -> Result<()> {
    let what = || format!("feed `{}` of `{}`", slot.name, program.name);
    check_dtype(what, program.value(value).dtype, feed)?;
    if is_addressable(feed.shape(), &slot.shape, hull) {
        return Ok(());
    }
    let (what, expected, found) = (what(), slot.shape.clone(), feed.shape().to_vec());
    let whole = hull.iter().zip(&expected).all(|(part, whole)| part.len() == *whole);
    Err(match whole {
        true => Error::Shape { what, expected, found },
        false => Error::FeedShape { what, expected, addressable: hull.clone(), found },
    })
}
