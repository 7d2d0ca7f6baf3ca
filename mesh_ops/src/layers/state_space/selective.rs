//! `selective_scan`: a state-space model whose step and projections are chosen by the input.

use crate::associative_scan::AssociativeScan;
use crate::einsum::einsum;
use crate::elementwise::exp;
use crate::layers::fit::Fit;
use crate::linear_recurrence;
use crate::room::*;

/// A selective state-space model along `time` (Gu and Dao 2023, "Mamba", algorithm 2; the recurrence is their equation
/// 2a, with `exp(delta a)` of equation 4 and, as their code has it, `delta b` of Euler's rule): `h[t] = exp(delta[t] a) h[t - 1] + delta[t] b[t] x[t]` from zeros on, `y[t] = sum(c[t] h[t])`
/// over the state.
///
/// `x` and `delta` have the same dims, `time` and the channels among them, `a` is `[channels, state]`, `b` and `c` are
/// `[.., time, state]`: the dims of `a` that `x` lacks are the state, those that it has the channels. All of one float
/// dtype; `a` is negative in a model that forgets. The result has the dims of `x`.
///
/// The states are scanned as `how` says, `time` may be split, and they are computed again for the gradient instead of
/// being kept (section 3.3.2): besides its inputs nothing of the scan stays in memory.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{AssociativeScan, layers::selective_scan};
/// # let g = mesh_ops::graph();
/// let (time, channels, state) = (dim("time", 8), dim("channels", 4), dim("state", 2));
/// let [x, delta] = ["x", "delta"].map(|name| g.input(name, [time, channels], F32));
/// let a = g.input("a", [channels, state], F32);
/// let [b, c] = ["b", "c"].map(|name| g.input(name, [time, state], F32));
/// let y = selective_scan(x, delta, a, b, c, time, AssociativeScan::default());
/// assert_eq!(y.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn selective_scan<'g>(
    x: Tensor<'g>,
    delta: Tensor<'g>,
    a: Tensor<'g>,
    b: Tensor<'g>,
    c: Tensor<'g>,
    time: Dimension,
    how: AssociativeScan,
) -> Tensor<'g> {
    let graph = x.graph();
    let _layer = graph.for_layer("selective_scan");
    let _caller = graph.for_caller();
    let own = x.shape();
    let (channels, state): (Vec<_>, Vec<_>) = a.shape().iter().partition(|d| own.contains(d.name));
    let (channels, among) = (Shape::new(channels), [own.iter().collect(), state.clone()].concat());
    let (channels, all) = (channels.unwrap_or_default(), Shape::new(among).unwrap_or_default());
    let examples = all.without(&channels.names().collect::<Vec<_>>());
    let fit = Fit::new().floats("the input", x).has("the input", x, time);
    let fit = fit.exactly("delta", delta, &own).like("delta", delta, x);
    let fit = fit.among("a", a, &all.without(&[time.name])).like("a", a, x);
    let fit = [("b", b), ("c", c)].into_iter().fold(fit, |fit, (what, given)| {
        let fit = fit.among(what, given, &examples).like(what, given, x);
        state.iter().fold(fit, |fit, dim| fit.has(what, given, *dim))
    });
    if let Some(poisoned) = fit.refused("selective_scan", x) {
        return poisoned;
    }
    let [y] = graph.recompute([x, delta, a, b, c], |[x, delta, a, b, c]| {
        let states = linear_recurrence(exp(delta * a), (delta * x) * b, time, how);
        [einsum(states, &[c], own)]
    });
    y
}
