//! Random numbers as `program/random.rs` defines them: the same bits, spelled in integers.
//!
//! What is made of the bits is computed in f64, operation by operation. Compilers contract `a * b + c` to an operation
//! of one rounding, and make `a + (b + c)` of `(a + b) + c`, which changes the last bits. So where they would, a number
//! goes through an operation on its bits that changes none, but does not tell compilers so ([`Writer::sealed`]).

use super::ops::Is;
use super::writer::{Element, Tensor, Writer};
use crate::program::normal::{CENTRE, FAR, Logarithm, MIDDLE, Rational};
use crate::program::random::{BELOW_MINUS_2, Draw, GOLDEN, MIX, MULTIPLIERS, WEYL, mix};

/// Bits of a draw that a uniform number of a type is made of.
fn bits_of(element: Element) -> u32 {
    if matches!(element, Element::F32 | Element::BF16) { 24 } else { 53 }
}

/// Keys.
impl Writer<'_> {
    /// `mix(seed + mix(key))`, salted with scalars of i32.
    pub(in crate::program) fn key(&mut self, key: u64, salts: &[Tensor]) -> Result<Tensor, String> {
        let seed = self.seed.clone().ok_or("nobody has given a seed")?;
        let word = |to: &mut Self, at: usize| {
            let word = to.sliced(&seed, &[at], &[1]);
            let word = to.reshaped(&word, &[]);
            to.converted(&word, Element::U64)
        };
        let (low, high) = (word(self, 0), word(self, 1));
        let high = self.with_word("shift_left", &high, 32);
        let seed = self.binary("or", &high, &low);
        let sum = self.with_word("add", &seed, mix(key));
        let mut key = self.mixed(&sum);
        for salt in salts {
            let word = self.bits(salt, Element::U32);
            let word = self.converted(&word, Element::U64);
            let salt = self.mixed(&word);
            let sum = self.binary("add", &key, &salt);
            key = self.mixed(&sum);
        }
        Ok(key)
    }

    /// The finalizer of SplitMix64.
    fn mixed(&mut self, x: &Tensor) -> Tensor {
        self.call("mix", std::slice::from_ref(x), (Element::U64, &[]), |to, x| {
            let mut x = to.with_word("add", &x[0], GOLDEN);
            for (shift, factor) in MIX {
                let shifted = to.with_word("shift_right_logical", &x, shift);
                x = to.binary("xor", &x, &shifted);
                x = to.with_word("multiply", &x, factor);
            }
            let shifted = to.with_word("shift_right_logical", &x, 31);
            to.binary("xor", &x, &shifted)
        })
    }
}

/// Bits.
impl Writer<'_> {
    /// 64 random bits for each position (ui64), of a key.
    fn drawn(&mut self, key: &Tensor, position: &Tensor) -> Tensor {
        let extents = position.extents.clone();
        let [key_low, key_high] = self.halves(key);
        let [low, high] = self.halves(position);
        let none = self.word(Element::U32, &extents, 0);
        let mut counter = [low, high, none.clone(), none];
        let keys = [key_low, key_high].map(|half| self.broadcast(&half, &[], &extents));
        for round in 0..10 {
            let key = [0, 1].map(|i: usize| {
                self.with_word("add", &keys[i], u64::from(WEYL[i].wrapping_mul(round)))
            });
            let [a, b] = [0, 1].map(|i: usize| {
                let wide = self.converted(&counter[2 * i], Element::U64);
                let product = self.with_word("multiply", &wide, MULTIPLIERS[i]);
                self.halves(&product)
            });
            let mut mixed = |product: &Tensor, word: &Tensor, key: &Tensor| {
                let one = self.binary("xor", product, word);
                self.binary("xor", &one, key)
            };
            let first = mixed(&b[1], &counter[1], &key[0]);
            let third = mixed(&a[1], &counter[3], &key[1]);
            let ([second, _], [fourth, _]) = (b, a);
            counter = [first, second, third, fourth];
        }
        let [upper, lower, ..] = counter.map(|word| self.converted(&word, Element::U64));
        let upper = self.with_word("shift_left", &upper, 32);
        self.binary("or", &upper, &lower)
    }

    /// The low and the high half of 64-bit words.
    fn halves(&mut self, x: &Tensor) -> [Tensor; 2] {
        let low = self.converted(x, Element::U32);
        let high = self.with_word("shift_right_logical", x, 32);
        [low, self.converted(&high, Element::U32)]
    }

    /// What is made of the positions (ui64) of elements.
    pub(in crate::program) fn made(
        &mut self,
        draw: Draw,
        key: &Tensor,
        position: &Tensor,
        element: Element,
    ) -> Tensor {
        let name = format!("{draw:?} of {}", super::writer::kind(element, &position.extents));
        let extents = position.extents.clone();
        let given = [key.clone(), position.clone()];
        self.call(&name, &given, (element, &extents), |to, given| {
            let bits = to.drawn(&given[0], &given[1]);
            let zeros = to.zeros(&given[0], &extents);
            match draw {
                // Where nothing is random.
                Draw::Position => to.converted(&given[1], element),
                Draw::Uniform { low, high } => to.uniform([&bits, &zeros], element, (low, high)),
                Draw::Normal { mean, stddev } => {
                    let p = to.probability(&bits);
                    let z = to.inverse_normal(&p, &zeros);
                    to.scaled(&z, (mean, stddev), &zeros, element)
                }
                Draw::Truncated { mean, stddev } => {
                    let p = to.probability(&bits);
                    let p = to.product_with(&p, 1.0 - 2.0 * BELOW_MINUS_2, &zeros);
                    let p = to.with("add", &p, BELOW_MINUS_2);
                    let p = to.sealed(&p, &zeros);
                    let z = to.inverse_normal(&p, &zeros);
                    let z = to.with("maximum", &z, -2.0);
                    let z = to.with("minimum", &z, 2.0);
                    to.scaled(&z, (mean, stddev), &zeros, element)
                }
            }
        })
    }
}

/// Numbers.
impl Writer<'_> {
    /// Uniform numbers: `low + n / 2^bits * (high - low)`, rounded, and below `high`.
    fn uniform(
        &mut self,
        [bits, zeros]: [&Tensor; 2],
        element: Element,
        (low, high): (f64, f64),
    ) -> Tensor {
        let used = bits_of(element);
        let n = self.with_word("shift_right_logical", bits, u64::from(64 - used));
        let n = self.converted(&n, Element::F64);
        let unit = self.with("multiply", &n, 1.0 / (1_u64 << used) as f64);
        let along = self.product_with(&unit, high - low, zeros);
        let x = if low == 0.0 { along } else { self.with("add", &along, low) };
        let x = match element {
            Element::I32 => {
                let whole = self.unary("stablehlo.floor", &x);
                self.converted(&whole, element)
            }
            _ => self.stored(&x, element),
        };
        if element == Element::I32 && high > f64::from(i32::MAX) {
            return x;
        }
        // In the type itself: a comparison in f64 may be made of the number before it is rounded.
        let bound = self.least_above(element, &x, high);
        let too_high = self.compare(&x, Is::AtLeast, &bound);
        let below = self.next_below(&x);
        self.select(&too_high, &below, &x)
    }

    /// A number that no compiler takes apart again: its bits, changed where zeros that only we know of are
    /// not 0.
    fn sealed(&mut self, x: &Tensor, zeros: &Tensor) -> Tensor {
        let bits = self.bits(x, Element::U64);
        let same = self.binary("xor", &bits, zeros);
        self.bits(&same, Element::F64)
    }

    /// A product that is added to.
    fn product(&mut self, a: &Tensor, b: &Tensor, zeros: &Tensor) -> Tensor {
        let product = self.binary("multiply", a, b);
        self.sealed(&product, zeros)
    }

    /// As [`product`](Self::product), with the same number everywhere.
    fn product_with(&mut self, a: &Tensor, b: f64, zeros: &Tensor) -> Tensor {
        let b = self.fill(a.element, &a.extents, b);
        self.product(a, &b, zeros)
    }

    /// Zeros of ui64 that a compiler does not see to be 0: of a key's 16 lower bits, the square modulo 3, which
    /// is never 2, halved.
    fn zeros(&mut self, key: &Tensor, extents: &[usize]) -> Tensor {
        let low = self.with_word("and", key, 0xffff);
        let square = self.binary("multiply", &low, &low);
        let rest = self.with_word("remainder", &square, 3);
        let zero = self.with_word("shift_right_logical", &rest, 1);
        self.broadcast(&zero, &[], extents)
    }

    /// The least number of the type that is not below a number.
    fn least_above(&mut self, element: Element, like: &Tensor, x: f64) -> Tensor {
        let least = match element {
            Element::F32 => {
                let near = x as f32;
                f64::from(if f64::from(near) < x { near.next_up() } else { near })
            }
            Element::BF16 => {
                let near = half::bf16::from_f64(x);
                let up = |y: half::bf16| match y.to_bits() {
                    0x8000 => half::bf16::from_bits(1),
                    bits if bits & 0x8000 == 0 => half::bf16::from_bits(bits + 1),
                    bits => half::bf16::from_bits(bits - 1),
                };
                (if near.to_f64() < x { up(near) } else { near }).to_f64()
            }
            _ => x,
        };
        self.fill(element, &like.extents, least)
    }

    /// The greatest number below.
    fn next_below(&mut self, x: &Tensor) -> Tensor {
        let (word, sign) = match x.element {
            Element::F32 => (Element::U32, 1 << 31),
            Element::BF16 => (Element::U16, 1 << 15),
            Element::F64 => (Element::U64, 1 << 63),
            _ => return self.with("subtract", x, 1.0),
        };
        let bits = self.bits(x, word);
        let down = self.with_word("subtract", &bits, 1);
        let up = self.with_word("add", &bits, 1);
        let positive = self.compare_with(x, Is::Greater, 0.0);
        let zero = self.compare_with(x, Is::Equal, 0.0);
        let least = self.word(word, &x.extents, sign + 1);
        let other = self.select(&zero, &least, &up);
        let below = self.select(&positive, &down, &other);
        self.bits(&below, x.element)
    }

    /// The middle of one of 2^52 intervals of equal length.
    fn probability(&mut self, bits: &Tensor) -> Tensor {
        let n = self.with_word("shift_right_logical", bits, 12);
        let n = self.converted(&n, Element::F64);
        let middle = self.with("add", &n, 0.5);
        self.with("multiply", &middle, 1.0 / (1_u64 << 52) as f64)
    }

    /// `mean + stddev * z`, rounded.
    fn scaled(
        &mut self,
        z: &Tensor,
        (mean, stddev): (f64, f64),
        zeros: &Tensor,
        element: Element,
    ) -> Tensor {
        let x = if stddev == 1.0 { z.clone() } else { self.product_with(z, stddev, zeros) };
        let x = if mean == 0.0 { x } else { self.with("add", &x, mean) };
        self.stored(&x, element)
    }

    /// [`inverse_normal`](crate::program::normal::inverse_normal).
    fn inverse_normal(&mut self, p: &Tensor, zeros: &Tensor) -> Tensor {
        let q = self.with("subtract", p, 0.5);
        let square = self.product(&q, &q, zeros);
        let centre = self.fill(Element::F64, &p.extents, 0.180625);
        let r = self.binary("subtract", &centre, &square);
        let inside = self.rational(Some(&q), [&r, zeros], &CENTRE);
        let one = self.fill(Element::F64, &p.extents, 1.0);
        let rest = self.binary("subtract", &one, p);
        let negative = self.compare_with(&q, Is::Less, 0.0);
        let tail = self.select(&negative, p, &rest);
        let log = self.logarithm(&tail, zeros);
        let log = self.unary("stablehlo.negate", &log);
        let r = self.unary("stablehlo.sqrt", &log);
        let near = self.with("subtract", &r, 1.6);
        let near = self.rational(None, [&near, zeros], &MIDDLE);
        let far = self.with("subtract", &r, 5.0);
        let far = self.rational(None, [&far, zeros], &FAR);
        let is_far = self.compare_with(&r, Is::Greater, 5.0);
        let outside = self.select(&is_far, &far, &near);
        let below = self.unary("stablehlo.negate", &outside);
        let outside = self.select(&negative, &below, &outside);
        let size = self.unary("stablehlo.abs", &q);
        let is_inside = self.compare_with(&size, Is::AtMost, 0.425);
        self.select(&is_inside, &inside, &outside)
    }

    /// [`Logarithm`], of positive numbers.
    fn logarithm(&mut self, x: &Tensor, zeros: &Tensor) -> Tensor {
        let bits = self.bits(x, Element::U64);
        let bits = self.with_word("add", &bits, Logarithm::APART);
        let k = self.with_word("shift_right_logical", &bits, 52);
        let k = self.converted(&k, Element::F64);
        let k = self.with("subtract", &k, 1023.0);
        let f = self.with_word("and", &bits, Logarithm::MANTISSA);
        let f = self.with_word("add", &f, Logarithm::ROOT);
        let f = self.bits(&f, Element::F64);
        let f = self.with("subtract", &f, 1.0);
        let below = self.with("add", &f, 2.0);
        let s = self.binary("divide", &f, &below);
        let z = self.product(&s, &s, zeros);
        let w = self.product(&z, &z, zeros);
        let [a, b, c, d, e, g, h] = Logarithm::L;
        let mut series = |factor: &Tensor, terms: &[f64]| {
            let mut sum = self.fill(Element::F64, &x.extents, terms[0]);
            for term in &terms[1..] {
                let product = self.product(&sum, &w, zeros);
                sum = self.with("add", &product, *term);
            }
            self.product(factor, &sum, zeros)
        };
        let even = series(&w, &[g, d, b]);
        let odd = series(&z, &[h, e, c, a]);
        let half = self.with("multiply", &f, 0.5);
        let half = self.product(&half, &f, zeros);
        let rest = self.binary("add", &odd, &even);
        let rest = self.binary("add", &half, &rest);
        let rest = self.product(&s, &rest, zeros);
        let [high, low] = Logarithm::LN_2.map(|part| self.product_with(&k, part, zeros));
        let sum = self.binary("add", &rest, &low);
        let sum = self.binary("subtract", &sum, &half);
        let sum = self.binary("add", &sum, &f);
        self.binary("add", &sum, &high)
    }

    /// A quotient of polynomials, by Horner's rule; the upper one is multiplied by a factor first.
    fn rational(
        &mut self,
        factor: Option<&Tensor>,
        [x, zeros]: [&Tensor; 2],
        rational: &Rational,
    ) -> Tensor {
        let [above, below] = [rational.above, rational.below].map(|of| {
            let mut sum = self.fill(Element::F64, &x.extents, of[7]);
            for factor in of[..7].iter().rev() {
                let product = self.product(&sum, x, zeros);
                sum = self.with("add", &product, *factor);
            }
            sum
        });
        let above = match factor {
            Some(factor) => self.binary("multiply", factor, &above),
            None => above,
        };
        self.binary("divide", &above, &below)
    }
}
