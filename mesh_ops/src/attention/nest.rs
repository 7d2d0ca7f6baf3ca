//! Loops in loops, whose results lie side by side or are handed on.

use super::parts::Parts;
use crate::room::*;
use mesh_core::lower::{Local, LocalLeft};
use mesh_core::program::Scalar;

/// A result of all iterations: the shape in which it lies in blocks, and its dtype.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) shape: Shape,
    pub(super) dtype: DType,
}

type Inner<'f> =
    dyn FnMut(&mut LocalCx<'_, '_>, &Parts, Vec<Option<Local>>) -> Result<Vec<Local>, OpError> + 'f;

/// Runs a body for each position along all of some dims, the first outermost. The body is given what
/// there is so far of each result (nothing where it is alone in its place) and leaves what there is
/// then: along dims that a result has its slices lie side by side, along others it is handed on.
pub(super) fn nest(
    cx: &mut LocalCx<'_, '_>,
    over: &[Dimension],
    parts: &Parts,
    sums: &[Sum],
    so_far: Vec<Option<Local>>,
    inner: &mut Inner<'_>,
) -> Result<Vec<Local>, OpError> {
    let Some((&dim, rest)) = over.split_first() else { return inner(cx, parts, so_far) };
    let has = |sum: &Sum| sum.shape.contains(dim.name);
    let (mut carried, mut sliced) = (Vec::new(), Vec::new());
    let begun: Vec<bool> = so_far.iter().map(Option::is_some).collect();
    for (sum, so_far) in sums.iter().zip(so_far) {
        if has(sum) {
            sliced.extend(so_far);
        } else {
            let zeros = || cx.fill(Scalar::new(sum.dtype, 0.0), &sum.shape);
            carried.push(so_far.unwrap_or_else(zeros));
        }
    }
    let inside = |sum: &Sum| Sum { shape: sum.shape.without(&[dim.name]), ..sum.clone() };
    let of_one: Vec<Sum> = sums.iter().map(inside).collect();
    let left = parts.each(cx, dim, &carried, &sliced, |cx, parts, iteration| {
        let mut carried = iteration.carried.into_iter();
        let mut sliced = iteration.sliced.into_iter();
        let of = |(sum, &begun): (&Sum, &bool)| match (has(sum), begun) {
            (true, true) => sliced.next(),
            (true, false) => None,
            (false, _) => carried.next(),
        };
        let so_far = sums.iter().zip(&begun).map(of).collect();
        let left = nest(cx, rest, &parts, &of_one, so_far, inner)?;
        let (stacked, carried): (Vec<_>, Vec<_>) =
            left.into_iter().zip(sums).partition(|(_, sum)| has(sum));
        let values = |list: Vec<(Local, &Sum)>| list.into_iter().map(|(value, _)| value).collect();
        Ok(LocalLeft { carried: values(carried), stacked: values(stacked) })
    })?;
    let (mut carried, mut stacked) = (left.carried.into_iter(), left.stacked.into_iter());
    let of = |sum: &Sum| if has(sum) { stacked.next() } else { carried.next() };
    let all: Option<Vec<_>> = sums.iter().map(of).collect();
    all.ok_or_else(|| OpError::new("internal error: a loop leaves too little"))
}
