//! Curves of bounded size, however long a run is.

use serde::{Deserialize, Serialize};

/// The most bins of a curve; more could not be told apart on a page.
const BINS: usize = 512;

/// The largest size of a value.
const LARGEST: f64 = 1e300;

/// Neighbouring steps.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bin {
    /// The first step.
    pub first: u64,
    /// The last step.
    pub last: u64,
    /// How many values there are.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The largest.
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

/// Values over steps. As there come to be too many, neighbours are put together: a curve has at most
/// a few hundred bins.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Curve {
    bins: Vec<Bin>,
    /// A bin has 2 to the power of this many values.
    doublings: u32,
}

/// A curve as it was written down by a run that goes on.
#[derive(Deserialize)]
struct Written {
    bins: Vec<Bin>,
    doublings: u32,
}

impl TryFrom<Written> for Curve {
    type Error = &'static str;

    /// Takes what [`Curve::add`] makes.
    fn try_from(Written { bins, doublings }: Written) -> Result<Self, Self::Error> {
        let sound = |bin: &Bin| {
            let Bin { first, last, count, mean, least, most } = *bin;
            let ordered = -LARGEST <= least && least <= mean && mean <= most && most <= LARGEST;
            // At most a value a step.
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
    /// Adds a value, of a step after all others. One that is not finite, or too large for differences
    /// of such to be, is left out.
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

    /// Of seconds: how many of something there were a second, if each value's time took so many.
    pub(super) fn rates(&self, count: f64) -> Self {
        let rate = |seconds: f64| count / seconds;
        let positive = self.bins.iter().filter(|bin| bin.least > 0.0);
        let bins = positive.map(|bin| {
            let (least, most) = (rate(bin.most), rate(bin.least));
            Bin { mean: rate(bin.mean), least, most, ..*bin }
        });
        Self { bins: bins.collect(), doublings: self.doublings }
    }

    /// What it is drawn from.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }
}
