//! `associative_scan(x, dim, f)`: what an associative function makes of the elements so far along a dim, for
//! tuples of tensors.
//!
//! Compositions (Hillis and Steele 1986, "Data Parallel Algorithms"): in step k each position takes in what the
//! position 2^k before it has, so a dim of n positions takes log2(n) calls of the function, rounded up. Over a
//! split dim each step is a `shift`, which sends what the neighbours need. In blocks, the steps run in each block,
//! then over the blocks' last elements, which alone are sent, and a last call takes in the block before.

use crate::elementwise::{greater_equal, less, select};
use crate::room::*;
use mesh_core::graph::Graph;

/// How [`associative_scan_with`] goes through a dim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AssociativeScan {
    /// From the last position down.
    pub reverse: bool,
    /// In so many blocks, of which the dim's size and, if the dim is split, the number of its parts are divisors
    /// and multiples: of 4096 positions over 8 processors 64 blocks, for example. A block is then read
    /// log2(4096 / 64) times instead of log2(4096) times. `None`: in one.
    pub blocks: Option<usize>,
}

/// For a tuple of tensors what the associative function `f` makes of their elements so far along `dim`:
/// `y[0] = x[0]`, `y[i] = f(y[i - 1], x[i])`. As `jax.lax.associative_scan`.
///
/// `f` is given two tuples of many elements each, with the dims of `x`, and returns such a tuple; it may combine
/// positions along other dims, but not along `dim`, whose size may differ there. Where a tuple lacks a neighbour
/// on that side, `f` is called with one from the other end, and its result is dropped.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let (decay, x) = (g.input("decay", [time], F32), g.input("x", [time], F32));
/// let [_, state] = mesh_ops::associative_scan([decay, x], time, |[a, b], [c, d]| [a * c, b * c + d]);
/// assert_eq!(state.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn associative_scan<'g, const N: usize>(
    x: [Tensor<'g>; N],
    dim: Dimension,
    f: impl Fn([Tensor<'g>; N], [Tensor<'g>; N]) -> [Tensor<'g>; N],
) -> [Tensor<'g>; N] {
    let given = |list: &[Tensor<'g>]| std::array::from_fn(|i| list[i]);
    let f = |a: &[Tensor<'g>], b: &[Tensor<'g>]| f(given(a), given(b)).to_vec();
    given(&associative_scan_with(&x, dim, AssociativeScan::default(), f))
}

/// As [`associative_scan`], from the other end or in blocks, for numbers of tensors known only at run time.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{AssociativeScan, associative_scan_with};
/// # let g = mesh_ops::graph();
/// let time = dim("time", 64);
/// let x = g.input("x", [time], F32);
/// let how = AssociativeScan { reverse: true, blocks: Some(8) };
/// let most = associative_scan_with(&[x], time, how, |a, b| vec![a[0].maximum(b[0])]);
/// assert_eq!(most[0].shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn associative_scan_with<'g>(
    x: &[Tensor<'g>],
    dim: Dimension,
    how: AssociativeScan,
    f: impl Fn(&[Tensor<'g>], &[Tensor<'g>]) -> Vec<Tensor<'g>>,
) -> Vec<Tensor<'g>> {
    let Some(first) = x.first() else { return Vec::new() };
    let graph = first.graph();
    let _caller = graph.for_caller();
    let scan = Scan { graph, reverse: how.reverse, f: &f };
    let blocks = how.blocks.unwrap_or(1);
    let uneven = !dim.size.is_multiple_of(blocks.max(1)) || blocks == 0;
    let problem = uneven.then(|| format!("{dim} cannot be cut into {blocks} equal blocks"));
    let problem = x.iter().find_map(|x| lacking(*x, dim)).or(problem);
    if let Some(problem) = problem {
        graph.record("associative_scan", problem);
        return x.iter().map(|x| x.poisoned()).collect();
    }
    if x.iter().any(|x| x.is_poisoned()) {
        return x.iter().map(|x| x.poisoned()).collect();
    }
    if blocks == 1 { scan.doubled(x.to_vec(), dim) } else { scan.in_blocks(x, dim, blocks) }
}

/// Joins what stands before each position with what stands there.
type Join<'a, 'g> = &'a dyn Fn(&[Tensor<'g>], &[Tensor<'g>]) -> Vec<Tensor<'g>>;

/// A scan under way.
struct Scan<'a, 'g> {
    graph: &'g Graph,
    reverse: bool,
    f: Join<'a, 'g>,
}

impl<'g> Scan<'_, 'g> {
    /// Doubles what each position has taken in until that is everything.
    #[track_caller]
    fn doubled(&self, mut x: Vec<Tensor<'g>>, dim: Dimension) -> Vec<Tensor<'g>> {
        let mut taken = 1;
        while taken < dim.size {
            let before = x.iter().map(|x| self.before(*x, dim, taken)).collect::<Vec<_>>();
            x = self.joined(&before, &x, dim, taken);
            taken *= 2;
        }
        x
    }

    /// The tuple so many places before each position.
    #[track_caller]
    fn before(&self, x: Tensor<'g>, dim: Dimension, places: usize) -> Tensor<'g> {
        let places = places as i64;
        crate::shift(x, dim, if self.reverse { -places } else { places }, true)
    }

    /// What `f` makes of both where there is something so many places before, else `x`.
    #[track_caller]
    fn joined(
        &self,
        before: &[Tensor<'g>],
        x: &[Tensor<'g>],
        dim: Dimension,
        places: usize,
    ) -> Vec<Tensor<'g>> {
        let made = (self.f)(before, x);
        let types = |list: &[Tensor<'g>]| list.iter().map(|x| x.tensor_type()).collect::<Vec<_>>();
        let (given, returned) = (types(x), types(&made));
        let alike = |(a, b): (&TensorType, &TensorType)| {
            a.dtype == b.dtype && a.shape.is_permutation_of(&b.shape)
        };
        let fits = given.len() == returned.len() && given.iter().zip(&returned).all(alike);
        let is_poisoned = made.iter().any(|x| x.is_poisoned());
        if !fits && !is_poisoned {
            let message = format!("the function of {given:?} twice returns {returned:?}");
            self.graph.record("associative_scan", message);
        }
        if !fits || is_poisoned {
            return x.iter().map(|x| x.poisoned()).collect();
        }
        let here = crate::range(self.graph, dim, DType::I32);
        let has = match self.reverse {
            true => less(here, (dim.size - places) as f64),
            false => greater_equal(here, places as f64),
        };
        let chosen = |(made, x): (&Tensor<'g>, &Tensor<'g>)| {
            crate::transpose(select(has, *made, *x), x.shape())
        };
        made.iter().zip(x).map(chosen).collect()
    }

    /// The dim keeps its name as the dim of the blocks, so that it stays split as it is.
    #[track_caller]
    fn in_blocks(&self, x: &[Tensor<'g>], dim: Dimension, blocks: usize) -> Vec<Tensor<'g>> {
        let block = dim.resized(blocks);
        let dims: Vec<_> = x.iter().flat_map(|x| x.shape().names().collect::<Vec<_>>()).collect();
        let within = unlike(apart(&x[0].shape(), dim, "within").name, &dims);
        let within = Dimension::new(within.as_str(), dim.size / blocks);
        let cut = x.iter().map(|x| crate::replace_dims(*x, [dim], [block, within])).collect();
        let cut = self.doubled(cut, within);
        let last = if self.reverse { 0 } else { within.size - 1 };
        let totals = cut.iter().map(|x| crate::pick(*x, within, last)).collect();
        let totals = self.doubled(totals, block);
        let before = |(total, x): (&Tensor<'g>, &Tensor<'g>)| {
            crate::broadcast(self.before(*total, block, 1), &x.shape())
        };
        let before: Vec<_> = totals.iter().zip(&cut).map(before).collect();
        let made = self.joined(&before, &cut, block, 1);
        made.iter().map(|x| crate::replace_dims(*x, [block, within], [dim])).collect()
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("associative_scan", |_, x| {
                    associative_scan([x[0]], q(), |[a], [b]| [a * b])[0]
                })
                .computes(|x, ty| so_far(x, ty, false, |state, x| state * x[0], 1.0))
                .input("x", "p:2;q:12", F64, Fill::Between(0.5, 1.5))
                .meshes(FEW),
                // Neither order nor grouping is free: the product of matrices.
                Case::new("associative_scan: of matrices", |_, x| {
                    let (i, j, k) = (dim("i", 2), dim("j", 2), dim("k", 2));
                    let [products] = associative_scan([x[0]], dim("q", 6), |[a], [b]| {
                        let (a, b) = (crate::rename(a, j, "k"), crate::rename(b, i, "k"));
                        [crate::einsum::contract(a, &[b], [k])]
                    });
                    products
                })
                .computes(products)
                .integers("x", "q:6;i:2;j:2", F64)
                .meshes(FEW),
                recurrence("associative_scan_with: in blocks", 4, false),
                recurrence("associative_scan_with: in blocks, reverse", 6, true),
                recurrence("associative_scan_with: in one, reverse", 1, true),
            ]
        },
    };

    fn recurrence(name: &str, blocks: usize, reverse: bool) -> Case {
        let how = AssociativeScan { reverse, blocks: Some(blocks) };
        Case::new(name, move |_, x| states(x, how))
            .computes(move |x, ty| so_far(x, ty, reverse, |h, x| h * x[0] + x[1], 0.0))
            .normal("a", "q:12", F64)
            .normal("b", "p:2;q:12", F64)
            .meshes(FEW)
    }

    fn states<'g>(x: &[Tensor<'g>], how: AssociativeScan) -> Tensor<'g> {
        let next = |before: &[Tensor<'g>], x: &[Tensor<'g>]| {
            vec![before[0] * x[0], before[1] * x[0] + x[1]]
        };
        associative_scan_with(x, q(), how, next)[1]
    }

    /// One position after another.
    pub(crate) fn so_far(
        x: &[&Dense],
        ty: &TensorType,
        reverse: bool,
        next: fn(f64, &[f64]) -> f64,
        start: f64,
    ) -> Dense {
        Dense::each(ty, |at| {
            let here = at.along("q");
            let mut places: Vec<_> =
                if reverse { (here..12).collect() } else { (0..=here).collect() };
            if reverse {
                places.reverse();
            }
            let elements = |i| x.iter().map(|x| x.at(&at.with("q", i))).collect::<Vec<_>>();
            places.into_iter().fold(start, |state, i| next(state, &elements(i)))
        })
    }

    fn products(x: &[&Dense], ty: &TensorType) -> Dense {
        Dense::each(ty, |at| {
            let element = |q, i, j| x[0].at(&At::default().with("q", q).with("i", i).with("j", j));
            let mut row = [0.0; 2];
            row[at.along("i")] = 1.0;
            for q in 0..=at.along("q") {
                row = [0, 1].map(|j| row[0] * element(q, 0, j) + row[1] * element(q, 1, j));
            }
            row[at.along("j")]
        })
    }
}
