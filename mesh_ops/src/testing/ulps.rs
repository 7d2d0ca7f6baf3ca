//! How exact a function of f32 is, in units of the last place.

use crate::prelude::*;

/// Finite floats of every size and sign.
///
/// ```
/// assert!(mesh_ops::testing::floats().any(|x| x < -1e38));
/// ```
pub fn floats() -> impl Iterator<Item = f32> {
    (0..u32::MAX / 9973).map(|i| f32::from_bits(i * 9973)).filter(|x| x.is_finite())
}

/// The worst error of a function, and the elements of its inputs there: the distance to the exact result
/// in units of that result's last place as an f32. Equal infinities are no distance apart.
///
/// # Errors
/// If the graph is refused.
///
/// ```
/// use mesh_ops::{prelude::*, testing::{floats, worst}};
/// let (off, _) = worst(&[floats().collect()], |x| x[0] + 1.0, |x| x[0] + 1.0)?;
/// assert!(off <= 0.5);
/// # Ok::<(), String>(())
/// ```
#[track_caller]
pub fn worst(
    inputs: &[Vec<f32>],
    function: impl for<'g> Fn(&[Tensor<'g>]) -> Tensor<'g>,
    exact: impl Fn(&[f64]) -> f64,
) -> Result<(f64, Vec<f32>), String> {
    let g = crate::graph();
    let fed = |x: &Vec<f32>| g.constant(ndarray::arr1(x).into_dyn(), [dim("x", x.len())]);
    let y = function(&inputs.iter().map(fed).collect::<Vec<_>>());
    let f = g.function("f", [], [y], []);
    let module = g.lower(&Mesh::single(), &Layout::default());
    let module = module.map_err(|report| report.to_string())?;
    let mut session = Session::threads(&module, 0).map_err(|error| error.to_string())?;
    let [y] = session.call(&f, []).map_err(|error| error.to_string())?;
    let mut worst = (0.0, Vec::new());
    for (i, y) in y.to_f64().iter().enumerate() {
        let x: Vec<_> = inputs.iter().map(|x| x[i]).collect();
        let exact = exact(&x.iter().copied().map(f64::from).collect::<Vec<_>>());
        let nearest = (exact as f32).abs();
        let unit = f64::from(nearest.next_up()) - f64::from(nearest);
        let off = if *y == f64::from(exact as f32) { 0.0 } else { (y - exact).abs() / unit };
        if off > worst.0 || off.is_nan() {
            worst = (off, x);
        }
    }
    Ok(worst)
}
