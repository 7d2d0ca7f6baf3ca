//! The places of a slice's bytes in its tensor.

/// Iterates over the *runs* of a slice: ranges of bytes that are contiguous both in the slice and
/// in the tensor, which are row-major. The order is that of the tensor.
pub(super) struct Runs {
    /// The dims outside of a run, major first.
    outer: Vec<Outer>,
    /// The bytes of a run.
    run: usize,
    /// The position of the current run in the tensor, and how many of its bytes were returned.
    start: usize,
    given: usize,
    /// How many of the slice's bytes were returned, and how many it has.
    from: usize,
    end: usize,
}

struct Outer {
    extent: usize,
    /// The dim's stride in the tensor, in bytes.
    stride: usize,
    index: usize,
}

/// A range of bytes that is contiguous in tensor and slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Piece {
    /// The position of its first byte in the tensor.
    pub(super) at: usize,
    /// The position of its first byte in the slice.
    pub(super) from: usize,
    /// The number of bytes.
    pub(super) bytes: usize,
}

impl Runs {
    /// The runs of a slice of `extents` that begins at `begin` in a tensor of `shape`. An element
    /// has `element` bytes. The slice must lie within the tensor.
    pub(super) fn new(shape: &[usize], begin: &[usize], extents: &[usize], element: usize) -> Self {
        let (mut run, mut stride, mut start) = (element, element, 0);
        let (mut outer, mut together) = (Vec::new(), true);
        for ((&size, &extent), &first) in shape.iter().zip(extents).zip(begin).rev() {
            if together {
                run *= extent;
            } else {
                outer.push(Outer { extent, stride, index: 0 });
            }
            together &= extent == size;
            start += first * stride;
            stride *= size;
        }
        outer.reverse();
        let end = outer.iter().fold(run, |bytes, dim| bytes * dim.extent);
        Self { outer, run, start, given: 0, from: 0, end }
    }

    /// The position in the tensor of the next byte.
    pub(super) fn next(&self) -> Option<usize> {
        (self.from < self.end).then_some(self.start + self.given)
    }

    /// The next piece, cut off at byte `until` of the tensor.
    pub(super) fn before(&mut self, until: usize) -> Option<Piece> {
        let at = self.next().filter(|at| *at < until)?;
        let bytes = (self.run - self.given).min(until - at);
        let piece = Piece { at, from: self.from, bytes };
        self.from += bytes;
        self.given += bytes;
        if self.given == self.run {
            self.given = 0;
            self.advance();
        }
        Some(piece)
    }

    fn advance(&mut self) {
        for dim in self.outer.iter_mut().rev() {
            dim.index += 1;
            self.start += dim.stride;
            if dim.index < dim.extent {
                return;
            }
            self.start -= dim.index * dim.stride;
            dim.index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_as_long_as_can_be() {
        let pieces = |shape: &[usize], begin: &[usize], extents: &[usize]| {
            let mut runs = Runs::new(shape, begin, extents, 2);
            std::iter::from_fn(|| runs.before(usize::MAX))
                .map(|Piece { at, from, bytes }| (at, from, bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(pieces(&[], &[], &[]), [(0, 0, 2)]);
        assert_eq!(pieces(&[4, 6], &[2, 0], &[2, 6]), [(24, 0, 24)]);
        assert_eq!(pieces(&[4, 6], &[2, 3], &[2, 3]), [(30, 0, 6), (42, 6, 6)]);
        assert_eq!(pieces(&[2, 2, 3], &[0, 1, 0], &[2, 1, 3]), [(6, 0, 6), (18, 6, 6)]);
        // A split dim whose slices have extent 1, between whole dims.
        assert_eq!(pieces(&[3, 4], &[1, 2], &[1, 2]), [(12, 0, 4)]);
    }

    /// A shape and a slice within it.
    fn slice() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
        let dim = (1..5_usize).prop_flat_map(|size| {
            (0..size).prop_flat_map(move |begin| {
                (1..=size - begin).prop_map(move |extent| (size, begin, extent))
            })
        });
        prop::collection::vec(dim, 0..4)
    }

    proptest! {
        /// Compares with the index of every element, for chunks of any size.
        #[test]
        fn runs_are_the_slice(dims in slice(), element in 1..9_usize, chunk in 1..40_usize) {
            let sizes: Vec<_> = dims.iter().map(|d| d.0).collect();
            let begin: Vec<_> = dims.iter().map(|d| d.1).collect();
            let extents: Vec<_> = dims.iter().map(|d| d.2).collect();
            let whole = sizes.iter().product::<usize>() * element;
            let mut expected = Vec::new();
            for byte in 0..whole {
                let (mut rest, mut inside) = (byte / element, true);
                for &(size, begin, extent) in dims.iter().rev() {
                    inside &= (begin..begin + extent).contains(&(rest % size));
                    rest /= size;
                }
                if inside {
                    expected.push(byte);
                }
            }
            let mut runs = Runs::new(&sizes, &begin, &extents, element);
            let mut found = Vec::new();
            for until in (chunk..whole + chunk).step_by(chunk) {
                while let Some(Piece { at, from, bytes }) = runs.before(until) {
                    prop_assert!(bytes > 0 && at + bytes <= until && at + chunk >= until);
                    prop_assert_eq!(from, found.len());
                    found.extend(at..at + bytes);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
