//! Curves of bounded size, for runs of any length.

use serde::{Deserialize, Serialize};

/// The most bins of a curve; a page could not show more.
const BINS: usize = 512;

/// The largest absolute value that a curve takes.
const LARGEST: f64 = 1e300;

/// The values of neighbouring steps, summarised.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bin {
    /// The first step.
    pub first: u64,
    /// The last step.
    pub last: u64,
    /// The number of values.
    pub count: u64,
    /// The mean of the values.
    pub mean: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Bin {
    fn join(self, other: Self) -> Self {
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        Self {
            first: self.first,
            last: other.last,
            count,
            mean: self.mean + (other.mean - self.mean) * share,
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

/// Values over steps. Neighbours are merged into bins when there are too many: a curve has at most
/// a few hundred bins.
///
/// ```
/// use mesh_optimize::training::Curve;
///
/// let mut curve = Curve::default();
/// (1..=100_000).for_each(|step| curve.add(step, step as f64));
/// assert!(curve.bins().len() <= 512);
/// assert_eq!(curve.bins()[0].least, 1.0);
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Curve {
    bins: Vec<Bin>,
    /// Each bin but the last merges 2 to the power of this many values.
    doublings: u32,
}

/// The serialised form of a curve, which a resumed run reads.
#[derive(Deserialize)]
struct Written {
    bins: Vec<Bin>,
    doublings: u32,
}

impl TryFrom<Written> for Curve {
    type Error = &'static str;

    /// Accepts what [`Curve::add`] can make.
    fn try_from(Written { bins, doublings }: Written) -> Result<Self, Self::Error> {
        let sound = |bin: &Bin| {
            let Bin { first, last, count, mean, least, most } = *bin;
            let ordered = -LARGEST <= least && least <= mean && mean <= most && most <= LARGEST;
            // A step has at most one value.
            ordered && first <= last && count >= 1 && count - 1 <= last - first
        };
        let follow = bins.is_sorted_by(|one, next| one.last < next.first);
        match bins.iter().all(sound) && follow && bins.len() <= BINS && doublings < u64::BITS {
            true => Ok(Self { bins, doublings }),
            false => Err("these bins are no curve"),
        }
    }
}

impl Curve {
    /// Adds the value of a step that comes after all others. A value that is not finite, or is
    /// larger than 1e300, is left out.
    pub fn add(&mut self, step: u64, value: f64) {
        if !value.is_finite() || value.abs() > LARGEST {
            return;
        }
        let bin = Bin { first: step, last: step, count: 1, mean: value, least: value, most: value };
        match self.bins.last_mut() {
            Some(last) if last.count.checked_shr(self.doublings) == Some(0) => {
                *last = last.join(bin);
            }
            _ => self.bins.push(bin),
        }
        if self.bins.len() > BINS {
            let joined = self.bins.chunks(2).map(|pair| match pair {
                [a, b] => a.join(*b),
                _ => pair[0],
            });
            self.bins = joined.collect();
            self.doublings += 1;
        }
    }

    /// For a curve of seconds per step: the curve of `count` per second.
    pub(super) fn rates(&self, count: f64) -> Self {
        let rate = |seconds: f64| count / seconds;
        let positive = self.bins.iter().filter(|bin| bin.least > 0.0);
        let bins = positive.map(|bin| {
            let (least, most) = (rate(bin.most), rate(bin.least));
            Bin { mean: rate(bin.mean), least, most, ..*bin }
        });
        Self { bins: bins.collect(), doublings: self.doublings }
    }

    /// The bins, in order of their steps.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }
}
