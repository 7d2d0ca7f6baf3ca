//! The frame of the smooth functions of one tensor: name, dtype rule, value, gradient.

/// Makes op, function and example of each. `value` is an expression of one element; `gradient`
/// maps input, output and cotangent to the input's cotangent as graph ops, which therefore have
/// gradients of their own.
macro_rules! unary {
    ($(
        $(#[$doc:meta])*
        $op:ident $function:ident $dtype:ident;
        value |$element:ident| $value:expr;
        gradient |$x:pat_param, $y:pat_param, $dy:pat_param| $gradient:expr;
    )*) => {$(
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        $(#[$doc])*
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let x = g.input("x", [dim("x", 2)], F32);
        #[doc = concat!("let y = mesh_ops::elementwise::", stringify!($function), "(x);")]
        /// assert_eq!((y.shape(), y.dtype()), (x.shape(), F32));
        /// ```
        #[track_caller]
        pub fn $function(x: Tensor<'_>) -> Tensor<'_> {
            super::map($op, &[x])
        }

        impl super::Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 1;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                super::$dtype(Self::NAME, inputs)
            }
            fn expr(&self, x: Vec<Expr>) -> Expr {
                let $element = x[0].clone();
                $value
            }
            fn gradient<'g>(&self, x: &[Tensor<'g>], y: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
                let ($x, $y, $dy) = (x[0], y, dy);
                Ok(vec![$gradient])
            }
        }
    )*};
}

pub(super) use unary;
