//! The scalar primitives, and bodies made of them, on whole tensors.

use super::ops::Is;
use super::writer::{Element, Tensor, Writer};
use crate::program::{Body, Instr, Prim};
use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E, LOG10_E};

impl Writer<'_> {
    /// The registers' tensors that are a body's results, each as a value of its dtype; inputs are held, of
    /// these extents.
    pub(in crate::program) fn body(
        &mut self,
        body: &Body,
        extents: &[usize],
        inputs: &[Tensor],
    ) -> Vec<Tensor> {
        let mut registers: Vec<Tensor> = Vec::with_capacity(body.code.len());
        for &(instr, dtype) in &body.code {
            let element = Element::from(dtype);
            let made = match instr {
                Instr::Input(i) => inputs[usize::from(i)].clone(),
                Instr::Const(scalar) => self.fill(element.reduction(), extents, scalar.value()),
                Instr::Apply(prim, args) => {
                    let [a, b, c] = args.map(|arg| &registers[usize::from(arg.0)]);
                    match prim {
                        Prim::Cast => {
                            let from = body.code[usize::from(args[0].0)].1;
                            self.cast(a, from.into(), element)
                        }
                        Prim::Select => self.select(a, b, c),
                        _ => self.prim(prim, a, b),
                    }
                }
            };
            registers.push(made);
        }
        let result = |to: &mut Self, register: usize| {
            to.stored(&registers[register], body.code[register].1.into())
        };
        body.results.iter().map(|reg| result(self, usize::from(reg.0))).collect()
    }

    /// A primitive of one or two tensors.
    fn prim(&mut self, prim: Prim, a: &Tensor, b: &Tensor) -> Tensor {
        let name = match prim {
            Prim::Neg => return self.unary("stablehlo.negate", a),
            Prim::Abs => return self.unary("stablehlo.abs", a),
            Prim::Sign => return self.unary("stablehlo.sign", a),
            Prim::Floor => return self.unary("stablehlo.floor", a),
            Prim::Ceil => return self.unary("stablehlo.ceil", a),
            Prim::Round => return self.unary("stablehlo.round_nearest_even", a),
            Prim::Sqrt => return self.unary("stablehlo.sqrt", a),
            Prim::Rsqrt => return self.unary("stablehlo.rsqrt", a),
            Prim::Exp => return self.unary("stablehlo.exponential", a),
            Prim::Log => return self.unary("stablehlo.log", a),
            Prim::Log1p => return self.unary("stablehlo.log_plus_one", a),
            Prim::Tanh => return self.unary("stablehlo.tanh", a),
            Prim::Logistic => return self.unary("stablehlo.logistic", a),
            Prim::Sin => return self.unary("stablehlo.sine", a),
            Prim::Cos => return self.unary("stablehlo.cosine", a),
            Prim::Tan => return self.unary("stablehlo.tan", a),
            Prim::Asin => return self.composite("asin", a),
            Prim::Acos => return self.composite("acos", a),
            Prim::Not => return self.unary("stablehlo.not", a),
            Prim::Erf => return self.composite("erf", a),
            Prim::Erfc => return self.composite("erfc", a),
            Prim::ErfInv => return self.composite("erf_inv", a),
            Prim::Exp2 => {
                let two = self.fill(a.element, &a.extents, 2.0);
                return self.binary("power", &two, a);
            }
            Prim::Log2 | Prim::Log10 => {
                let natural = self.unary("stablehlo.log", a);
                let unit = if prim == Prim::Log2 { LOG2_E } else { LOG10_E };
                return self.with("multiply", &natural, unit);
            }
            Prim::NormalCdf => {
                let scaled = self.with("multiply", a, -FRAC_1_SQRT_2);
                let twice = self.composite("erfc", &scaled);
                return self.with("multiply", &twice, 0.5);
            }
            Prim::Copysign => return self.copysign(a, b),
            Prim::Eq => return self.compare(a, Is::Equal, b),
            Prim::Ne => return self.compare(a, Is::Other, b),
            Prim::Lt => return self.compare(a, Is::Less, b),
            Prim::Le => return self.compare(a, Is::AtMost, b),
            Prim::Gt => return self.compare(a, Is::Greater, b),
            Prim::Ge => return self.compare(a, Is::AtLeast, b),
            Prim::Div if a.element == Element::I32 => return self.divided("divide", a, b),
            Prim::Mod => return self.modulo(a, b),
            Prim::Add => "add",
            Prim::Sub => "subtract",
            Prim::Mul => "multiply",
            Prim::Div => "divide",
            Prim::Pow => "power",
            Prim::Atan2 => "atan2",
            Prim::Max => "maximum",
            Prim::Min => "minimum",
            Prim::And => "and",
            Prim::Or => "or",
            Prim::Xor => "xor",
            // StableHLO says the same of a distance that is too long.
            Prim::Shl => "shift_left",
            Prim::Shr => "shift_right_arithmetic",
            // Of three arguments, or of another dtype: the body's.
            Prim::Select | Prim::Cast => return a.clone(),
        };
        self.binary(name, a, b)
    }

    /// By bits: a comparison takes all zeros for equal.
    fn copysign(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let (word, sign) = match a.element {
            Element::F64 => (Element::U64, 1 << 63),
            _ => (Element::U32, 1 << 31),
        };
        let is_number = self.compare(b, Is::Equal, b);
        let positive = self.fill(b.element, &b.extents, 0.0);
        let b = self.select(&is_number, b, &positive);
        let [size, sign] = [(a, sign - 1), (&b, sign)].map(|(x, kept)| {
            let bits = self.bits(x, word);
            self.with_word("and", &bits, kept)
        });
        let signed = self.binary("or", &size, &sign);
        self.bits(&signed, a.element)
    }

    /// A quotient or remainder of i32; 0 where it is by 0.
    fn divided(&mut self, name: &str, a: &Tensor, b: &Tensor) -> Tensor {
        let by_nothing = self.compare_with(b, Is::Equal, 0.0);
        let one = self.fill(b.element, &b.extents, 1.0);
        let by = self.select(&by_nothing, &one, b);
        let made = self.binary(name, a, &by);
        let nothing = self.fill(a.element, &a.extents, 0.0);
        self.select(&by_nothing, &nothing, &made)
    }

    /// A quotient of floats as it is rounded by IEEE 754, where a unit in the last place would be another integer.
    /// GPUs' division of f32 is off by up to two; that of f64 is not, and has the digits of two f32.
    fn quotient(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        if a.element != Element::F32 {
            return self.binary("divide", a, b);
        }
        let [a, b] = [a, b].map(|x| self.converted(x, Element::F64));
        let quotient = self.binary("divide", &a, &b);
        self.rounded(&quotient, Element::F32)
    }

    /// `a - b * floor(a / b)`.
    fn modulo(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        if a.element.is_float() {
            let quotient = self.quotient(a, b);
            let whole = self.unary("stablehlo.floor", &quotient);
            let whole = self.converted(&whole, a.element);
            let below = self.binary("multiply", b, &whole);
            return self.binary("subtract", a, &below);
        }
        // The remainder has the sign of a.
        let rest = self.divided("remainder", a, b);
        let shifted = self.binary("add", &rest, b);
        let [rest_below, b_below] = [&rest, b].map(|x| self.compare_with(x, Is::Less, 0.0));
        let differ = self.compare(&rest_below, Is::Other, &b_below);
        let some = self.compare_with(&rest, Is::Other, 0.0);
        let wrong = self.binary("and", &differ, &some);
        self.select(&wrong, &shifted, &rest)
    }
}
