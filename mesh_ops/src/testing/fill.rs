//! Data to feed: pseudo-random, the same in every run.

use super::Dense;
use mesh_core::graph::TensorType;

/// Splitmix64: a number per call, decided by the seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a name.
    pub fn new(name: &str) -> Self {
        Self(mesh_core::names::stable_hash(name))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..count`; 0 if there is none.
    pub fn below(&mut self, count: usize) -> usize {
        self.bits().checked_rem(count as u64).unwrap_or(0) as usize
    }

    /// Between `low` and `high`, both included.
    pub fn integer(&mut self, low: i32, high: i32) -> f64 {
        f64::from(low) + self.below((high - low + 1) as usize) as f64
    }

    /// Between `low` and `high` in steps of 1/1024, so that sums of a few are exact in f32.
    pub fn float(&mut self, low: f64, high: f64) -> f64 {
        const STEP: f64 = 1.0 / 1024.0;
        low + STEP * self.below(((high - low) / STEP) as usize + 1) as f64
    }
}

/// What elements an input has.
#[derive(Clone, PartialEq, Debug)]
pub enum Fill {
    /// Bell-shaped, within 3 of 0.
    Normal,
    /// Within these bounds.
    Between(f64, f64),
    /// Of either sign, at least 1/4 away from 0: for ops with a corner there.
    AwayFromZero,
    /// Multiples of 1/8 around 0, no two elements equal: for ops that choose.
    Distinct,
    /// Whole numbers within these bounds.
    Integers(i32, i32),
    /// Repeated as needed.
    Values(Vec<f64>),
}

impl Fill {
    /// The elements of an input, rounded to its dtype.
    ///
    /// # Errors
    /// If the dtype cannot hold the elements.
    pub fn draw(&self, ty: &TensorType, random: &mut Random) -> Result<Dense, String> {
        let count = ty.shape.size();
        let mut data: Vec<f64> = (0..count).map(|i| self.element(i, count, random)).collect();
        if *self == Self::Distinct {
            for i in (1..count).rev() {
                data.swap(i, random.below(i + 1));
            }
        }
        rounded(Dense { ty: ty.clone(), data })
    }

    fn element(&self, i: usize, count: usize, random: &mut Random) -> f64 {
        match self {
            Self::Normal => (0..3).map(|_| random.float(-1.0, 1.0)).sum(),
            Self::Between(low, high) => random.float(*low, *high),
            Self::AwayFromZero => {
                let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
                sign * random.float(0.25, 3.0)
            }
            Self::Distinct => (i as f64 - (count / 2) as f64) / 8.0,
            Self::Integers(low, high) => random.integer(*low, *high),
            Self::Values(values) => values.get(i % values.len().max(1)).copied().unwrap_or(0.0),
        }
    }
}

/// As its dtype holds it, so that reference and session start alike.
fn rounded(dense: Dense) -> Result<Dense, String> {
    let shape = dense.ty.shape.clone();
    Ok(Dense::from_array(&dense.to_array()?, &shape))
}

/// Terms along the first dim of `ty`, of 4 or more, that add up to `sum`, without rounding in
/// whatever order they are added: so what was equal to another element stays equal to it.
pub(super) fn terms(sum: &Dense, ty: &TensorType, random: &mut Random) -> Result<Dense, String> {
    let count = sum.data.len();
    let mut out = Dense::zeros(ty.clone());
    let terms = ty.shape.size() / count;
    for (i, &target) in sum.data.iter().enumerate() {
        let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
        // Twice a float is exact, and 1 is nothing beside a float whose double might overflow.
        let scaled = ty.dtype.is_float() && target != 0.0 && target.abs() < 1e30;
        let beside = sign * if scaled { target } else { 1.0 + random.below(2) as f64 };
        let mut places: Vec<_> = (0..terms).collect();
        (1..terms).rev().for_each(|k| places.swap(k, random.below(k + 1)));
        for (place, term) in places.into_iter().zip([target, beside, -beside]) {
            out.data[place * count + i] = term;
        }
    }
    rounded(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_core::names::DType;

    #[test]
    fn terms_add_up() {
        let ty = |shape: &str| TensorType::new(shape.parse().unwrap(), DType::F32);
        let mut random = Random::new("terms");
        let third = f64::from(1.0_f32 / 3.0);
        let rough = Fill::Values(vec![third, -7.0 * third, 1e-30, f64::INFINITY, 3e38]);
        let fills = [Fill::Normal, Fill::AwayFromZero, Fill::Distinct, Fill::Integers(-3, 3)];
        for fill in fills.into_iter().chain([rough]) {
            let sum = fill.draw(&ty("a:5"), &mut random).unwrap();
            let terms = terms(&sum, &ty("owed:4;a:5"), &mut random).unwrap();
            for (i, &expected) in sum.data.iter().enumerate() {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| terms.data[k * 5 + i] as f32);
                for sum in [a + b + c + d, (a + b) + (c + d), (a + d) + (b + c), d + c + b + a] {
                    assert_eq!(f64::from(sum), expected);
                }
            }
        }
    }
}
