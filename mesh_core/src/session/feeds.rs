//! The feeds of a function.

use std::ops::Range;

use super::{Error, Result, Session};
use crate::array::{Array, ArrayRef, Unheld};
use crate::exec::{Ranges, is_addressable};
use crate::names::DType;
use crate::program::{Program, Slot, ValueId};

/// A feed of a function, and the part of it that this process needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feed<'s> {
    /// The feed's name.
    pub name: &'s str,
    /// The feed's dtype.
    pub dtype: DType,
    /// The global size of each dim, in declared order.
    pub shape: &'s [usize],
    /// For each dim, the range of global indices from which this process's processors take their
    /// slices. On threads, and for a dim that is not split, it is the whole dim.
    pub addressable: &'s [Range<usize>],
}

impl Session {
    /// The feeds of a function, in order.
    ///
    /// This process needs only the [`addressable`](Feed::addressable) part of each feed, as with a
    /// JAX array from `make_array_from_process_local_data`. An array that is fed may have, in each
    /// dim, the size of the whole or of the addressable part; in the second case it is that part.
    ///
    /// Integers of other types than i32 (u8, i64, usize and so on) may be fed where the dtype has each of
    /// them: any byte is an f32, but not every i64 an i32. They are converted.
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
    ///
    /// # Errors
    ///
    /// If the session has no such function.
    pub fn feeds(&self, function: &str) -> Result<impl Iterator<Item = Feed<'_>> + Clone> {
        let index = self.function(function)?;
        let program = &self.programs[index];
        let slots = program.fed().zip(self.addressable[index].ranges());
        Ok(slots.map(|((slot, value), ranges)| Feed {
            name: &slot.name,
            dtype: program.value(value).dtype,
            shape: &slot.shape,
            addressable: ranges,
        }))
    }

    /// Checks that arrays fit a function's feeds. Returns those that had to be converted.
    pub(super) fn check_feeds(
        &self,
        function: usize,
        feeds: &[ArrayRef<'_>],
    ) -> Result<Vec<Option<Array>>> {
        let program = &self.programs[function];
        let slots = program.fed().zip(self.addressable[function].ranges());
        let mut converted = Vec::new();
        for (i, ((slot, ranges), feed)) in slots.zip(feeds).enumerate() {
            if let Some(array) = check(program, slot, ranges, feed)? {
                converted.resize(feeds.len(), None);
                converted[i] = Some(array);
            }
        }
        Ok(converted)
    }
}

fn check(
    program: &Program,
    (slot, value): (&Slot, ValueId),
    ranges: &Ranges,
    feed: &ArrayRef<'_>,
) -> Result<Option<Array>> {
    let what = || format!("feed `{}` of `{}`", slot.name, program.name);
    if is_addressable(feed.shape(), &slot.shape, ranges) {
        return of_dtype(what, program.value(value).dtype, feed);
    }
    let (what, dims, expected) = (what(), slot.dims.clone(), slot.shape.clone());
    let found = feed.shape().to_vec();
    let whole = ranges.iter().zip(&expected).all(|(part, whole)| part.len() == *whole);
    Err(match whole {
        true => Error::Shape { what, dims, expected, found },
        false => Error::FeedShape {
            what,
            dims: dims.into(),
            expected,
            addressable: ranges.clone().into(),
            found,
        },
    })
}

/// Checks that an array is of a dtype. Returns it converted if it is of integers that the dtype holds.
pub(super) fn of_dtype(
    what: impl Fn() -> String,
    expected: DType,
    array: &ArrayRef<'_>,
) -> Result<Option<Array>> {
    let found = || array.element();
    if array.dtype() == Some(expected) {
        return Ok(None);
    }
    let ArrayRef::Integers(integers) = array else {
        return Err(Error::DType { what: what(), expected, found: found() });
    };
    integers.converted(expected).map(Some).map_err(|unheld| match unheld {
        Unheld::NoNumbers => Error::DType { what: what(), expected, found: found() },
        Unheld::Element { index, value } => {
            Error::Integer { what: what(), expected, found: found(), value, index }
        }
    })
}
