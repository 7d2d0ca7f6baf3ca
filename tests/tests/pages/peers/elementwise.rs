//! Functions of elements.

use super::{Row, Words, rows};
use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;

pub(super) fn functions(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, x, y, .. } = words;
    rows! {
        "add", "jnp.add lax.add" => x + y;
        "sub subtract", "jnp.subtract lax.sub" => x - y;
        "mul multiply", "jnp.multiply lax.mul" => x * y;
        "div divide true_divide", "jnp.divide jnp.true_divide lax.div" => x / y;
        "neg negative", "jnp.negative lax.neg" => -x;
        "floor_divide", "jnp.floor_divide" => floordiv(x, y);
        "remainder", "jnp.remainder jnp.mod" => modulo(x, y), "the sign of the divisor";
        "fmod", "jnp.fmod lax.rem" => x - y * trunc(x / y), "the sign of the dividend";
        "rsub", "" => y - x;
        "positive clone", "jnp.positive jnp.copy" => x, "a tensor never changes";
        "abs absolute", "jnp.abs jnp.absolute jnp.fabs lax.abs" => x.abs();
        "sign sgn", "jnp.sign lax.sign" => x.sign();
        "square", "jnp.square lax.square" => x.square();
        "sqrt", "jnp.sqrt lax.sqrt" => x.sqrt();
        "rsqrt", "lax.rsqrt" => x.rsqrt();
        "", "jnp.cbrt lax.cbrt" => cbrt(x);
        "reciprocal", "jnp.reciprocal" => x.reciprocal();
        "pow float_power", "jnp.power jnp.float_power lax.pow" => pow(x, y);
        "hypot", "jnp.hypot" => hypot(x, y);
        "exp", "jnp.exp lax.exp" => x.exp();
        "exp2", "jnp.exp2 lax.exp2" => exp2(x);
        "expm1", "jnp.expm1 lax.expm1" => expm1(x);
        "log", "jnp.log lax.log" => x.log();
        "log2", "jnp.log2" => log2(x);
        "log10", "jnp.log10" => log10(x);
        "log1p", "jnp.log1p lax.log1p" => log1p(x);
        "logaddexp", "jnp.logaddexp" => logaddexp(x, y);
        "xlogy special.xlogy", "jax.scipy.special.xlogy" => xlogy(x, y);
        "sin", "jnp.sin lax.sin" => sin(x);
        "cos", "jnp.cos lax.cos" => cos(x);
        "tan", "jnp.tan lax.tan" => tan(x);
        "asin arcsin", "jnp.arcsin lax.asin" => asin(x);
        "acos arccos", "jnp.arccos lax.acos" => acos(x);
        "atan arctan", "jnp.arctan lax.atan" => atan(x);
        "atan2 arctan2", "jnp.arctan2 lax.atan2" => atan2(y, x);
        "sinh", "jnp.sinh lax.sinh" => sinh(x);
        "cosh", "jnp.cosh lax.cosh" => cosh(x);
        "tanh F.tanh nn.Tanh", "jnp.tanh lax.tanh" => x.tanh();
        "asinh", "jnp.arcsinh lax.asinh" => asinh(x);
        "acosh", "jnp.arccosh lax.acosh" => acosh(x);
        "atanh", "jnp.arctanh lax.atanh" => atanh(x);
        "erf special.erf", "lax.erf jax.scipy.special.erf" => erf(x);
        "erfc special.erfc", "lax.erfc" => erfc(x);
        "erfinv special.erfinv", "lax.erf_inv" => erfinv(x);
        "lgamma", "lax.lgamma jax.scipy.special.gammaln" => lgamma(x);
        "digamma special.digamma", "lax.digamma" => digamma(x);
        "floor", "jnp.floor lax.floor" => x.floor();
        "ceil", "jnp.ceil lax.ceil" => ceil(x);
        "round", "jnp.round lax.round" => round(x), "halves to the even neighbour";
        "trunc fix", "jnp.trunc" => trunc(x);
        "frac", "" => x - trunc(x);
        "maximum fmax", "jnp.maximum lax.max" => maximum(x, y), "NaN if either is";
        "minimum fmin", "jnp.minimum lax.min" => minimum(x, y), "NaN if either is";
        "clamp clip clamp_min clamp_max", "jnp.clip lax.clamp" => x.clip(-1.0, 1.0);
        "lerp", "" => lerp(x, y, 0.3);
        "copysign", "jnp.copysign" => copysign(x, y);
        "logaddexp2", "jnp.logaddexp2" => {
            logaddexp(x * std::f64::consts::LN_2, y * std::f64::consts::LN_2) / std::f64::consts::LN_2
        };
        "nan_to_num", "jnp.nan_to_num" => nan_to_num(x);
        "heaviside", "jnp.heaviside" => x.greater(0.0).cast(F32), "with 0 at 0";
        "addcmul", "" => x + 0.5 * x * y;
        "addcdiv", "" => x + 0.5 * x / y;
        "deg2rad", "jnp.deg2rad jnp.radians" => x * std::f64::consts::PI / 180.0;
        "rad2deg", "jnp.rad2deg" => x * 180.0 / std::f64::consts::PI;
        "sinc", "jnp.sinc" => {
            let turn = x * std::f64::consts::PI;
            x.equal(0.0).select(x.fill_like(1.0), sin(turn) / x.equal(0.0).select(x.fill_like(1.0), turn))
        };
        "special.logit logit", "jax.scipy.special.logit" => x.log() - log1p(-x);
        "special.entr", "jax.scipy.special.entr" => -xlogy(x, x);
        "Tensor.to Tensor.float", "jnp.astype lax.convert_element_type" => x.cast(BF16);
        "cumulative_trapezoid", "" => {
            let next = mesh_ops::shift(x, columns, -1, false);
            (0.5 * (x + next)).cumsum(columns)
        }, "the last place has no neighbour";
    }
}

pub(super) fn predicates(words: &Words<'_>) -> Vec<Row> {
    let &Words { x, y, mask, ids, .. } = words;
    rows! {
        "eq", "jnp.equal lax.eq" => x.equal(y);
        "ne not_equal", "jnp.not_equal lax.ne" => x.not_equal(y);
        "lt less", "jnp.less lax.lt" => x.less(y);
        "le less_equal", "jnp.less_equal lax.le" => x.less_equal(y);
        "gt greater", "jnp.greater lax.gt" => x.greater(y);
        "ge greater_equal", "jnp.greater_equal lax.ge" => x.greater_equal(y);
        "isclose", "jnp.isclose" => (x - y).abs().less_equal(1e-5 * y.abs() + 1e-8);
        "isnan", "jnp.isnan" => is_nan(x);
        "isinf", "jnp.isinf" => is_inf(x);
        "isposinf", "jnp.isposinf" => logical_and(is_inf(x), x.greater(0.0));
        "isneginf", "jnp.isneginf" => logical_and(is_inf(x), x.less(0.0));
        "signbit", "jnp.signbit" => copysign(x.fill_like(1.0), x).less(0.0);
        "isfinite", "jnp.isfinite lax.is_finite" => is_finite(x);
        "logical_and", "jnp.logical_and" => logical_and(mask, x.greater(0.0));
        "logical_or", "jnp.logical_or" => logical_or(mask, x.greater(0.0));
        "logical_not", "jnp.logical_not" => logical_not(mask);
        "logical_xor", "jnp.logical_xor" => logical_xor(mask, x.greater(0.0));
        "bitwise_and", "jnp.bitwise_and lax.bitwise_and" => bit_and(ids, ids);
        "bitwise_or", "jnp.bitwise_or lax.bitwise_or" => bit_or(ids, ids);
        "bitwise_xor", "jnp.bitwise_xor lax.bitwise_xor" => bit_xor(ids, ids);
        "bitwise_not", "jnp.bitwise_not jnp.bitwise_invert jnp.invert lax.bitwise_not" => bit_not(ids);
        "bitwise_left_shift", "jnp.left_shift jnp.bitwise_left_shift lax.shift_left" => shift_left(ids, ids);
        "bitwise_right_shift", "jnp.right_shift jnp.bitwise_right_shift lax.shift_right_arithmetic" => shift_right(ids, ids);
        "where", "jnp.where lax.select" => mask.select(x, y);
        "", "lax.select_n" => mask.select(y, x), "the case of false comes first there";
        "masked_fill Tensor.masked_fill", "" => mask.select(x.fill_like(0.0), x);
    }
}

pub(super) fn activations(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, x, y, .. } = words;
    rows! {
        "F.relu nn.ReLU", "nn.relu" => x.relu();
        "F.relu6 nn.ReLU6", "nn.relu6" => relu6(x);
        "F.leaky_relu nn.LeakyReLU", "nn.leaky_relu" => leaky_relu(x, 0.01);
        "F.prelu nn.PReLU", "linen.PReLU" => prelu(x, y);
        "F.elu nn.ELU", "nn.elu" => elu(x);
        "F.celu nn.CELU", "nn.celu" => celu(x, 1.0);
        "F.selu nn.SELU", "nn.selu" => selu(x);
        "F.gelu nn.GELU", "" => gelu_exact(x);
        "", "nn.gelu" => gelu(x), "by `tanh`, which is PyTorch's `approximate='tanh'`";
        "F.silu nn.SiLU", "nn.silu nn.swish" => x.swish();
        "F.mish nn.Mish", "nn.mish" => mish(x);
        "sigmoid F.sigmoid nn.Sigmoid", "nn.sigmoid lax.logistic" => x.sigmoid();
        "F.logsigmoid nn.LogSigmoid", "nn.log_sigmoid" => log_sigmoid(x);
        "F.hardsigmoid nn.Hardsigmoid", "nn.hard_sigmoid" => hard_sigmoid(x);
        "F.hardswish nn.Hardswish", "nn.hard_swish nn.hard_silu" => hard_swish(x);
        "F.hardtanh nn.Hardtanh", "nn.hard_tanh" => hard_tanh(x);
        "F.softplus nn.Softplus", "nn.softplus" => softplus(x);
        "", "nn.log1mexp" => log1mexp(-x), "of numbers below 0 here, above 0 there";
        "F.softsign nn.Softsign", "nn.soft_sign" => softsign(x);
        "F.tanhshrink nn.Tanhshrink", "" => x - x.tanh();
        "F.hardshrink nn.Hardshrink", "" => x.abs().greater(0.5).select(x, x.fill_like(0.0));
        "F.softshrink nn.Softshrink", "" => x - x.clip(-0.5, 0.5);
        "F.threshold nn.Threshold", "" => x.greater(0.1).select(x, x.fill_like(20.0));
        "F.glu nn.GLU", "nn.glu" => mesh_ops::glu(x, columns);
        "", "nn.squareplus" => 0.5 * (x + (x.square() + 4.0).sqrt());
        "F.softmax nn.Softmax nn.Softmax2d softmax", "nn.softmax" => x.softmax(columns);
        "F.log_softmax nn.LogSoftmax", "nn.log_softmax" => x.log_softmax(columns);
        "F.softmin nn.Softmin", "" => (-x).softmax(columns);
        "", "nn.standardize" => {
            let mean = mesh_ops::reduce::mean(x, [columns]);
            (x - mean) * (mesh_ops::reduce::variance(x, [columns]) + 1e-5).rsqrt()
        };
        "F.normalize", "" => x / mesh_ops::vector_norm(x, 2.0, [columns]).clip(1e-12, f64::MAX);
    }
}
