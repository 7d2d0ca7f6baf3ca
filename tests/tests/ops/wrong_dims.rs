//! An op's body that names dims which the values at hand do not have: an error of lowering with the
//! operation, the dim and the user's line, whatever the method.

use mesh_core::graph::{Op, OpError, Signature, TensorType};
use mesh_core::lower::{LocalCx, LocalPiece, LocalWindow};
use mesh_core::names::{DimName, ReduceKind};
use mesh_core::program::{Expr, Generator, Offset, Scalar};
use mesh_core::split::{Collective, Role, SplitRule};
use mesh_ops::prelude::*;

type Body = fn(&mut LocalCx<'_, '_>) -> Result<(), OpError>;

/// Input and output are `f32[p:4, q:6]`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Faulty {
    /// Number of a line of the table.
    body: usize,
}

fn stray() -> DimName {
    "stray".into()
}

fn along(dim: DimName) -> LocalWindow {
    LocalWindow {
        input: dim,
        kernel: "q".into(),
        output: "o".into(),
        stride: 1,
        dilation: 1,
        pad: 0,
    }
}

fn shape(text: &str) -> Shape {
    text.parse().unwrap()
}

/// What is called, in what way it is wrong, and what the error says of it.
const TABLE: &[(&str, &str, Body)] = &[
    ("axes", "dim stray", |cx| cx.axes(stray()).map(|_| ())),
    ("axes", "dim stray", |cx| cx.parts(stray()).map(|_| ())),
    ("axes", "dim stray", |cx| cx.begin(stray(), 1).map(|_| ())),
    ("axes", "dim stray", |cx| cx.positions(dim("stray", 4)).map(|_| ())),
    ("`empty` has size 0", "", |cx| cx.counted(dim("empty", 0), Offset::fixed(0), 4).map(|_| ())),
    ("finish", "is [p:4, q:6], not [p:4]", |cx| {
        let x = cx.reduce(ReduceKind::Sum, &cx.input(0)?, &shape("p:4"))?;
        cx.finish(0, x)
    }),
    ("finish", "is [p:4, q:6], not [p:2, q:6]", |cx| {
        let x = cx.cut(&cx.input(0)?, "p".into(), Offset::fixed(0), 2)?;
        cx.finish(0, x)
    }),
    ("finish", "there is no output 1", |cx| cx.finish(1, cx.input(0)?)),
    ("renamed", "[p:4, q:6] has other sizes than [p:4, stray:5]", |cx| {
        cx.renamed(&cx.input(0)?, shape("p:4;stray:5")).map(|_| ())
    }),
    ("map_over", "dim q is not among [p]", |cx| {
        let (x, dtype) = (cx.input(0)?, cx.output_dtype(0));
        cx.map_over(&shape("p:4"), &[x], &Expr::input(0), dtype).map(|_| ())
    }),
    ("reduce", "dim stray of the result is not among [p:4, q:6]", |cx| {
        cx.reduce(ReduceKind::Sum, &cx.input(0)?, &shape("p:4;stray:6")).map(|_| ())
    }),
    ("contract", "dim stray of the result is not among [p:4, q:6] and [p:4, q:6]", |cx| {
        let (x, dtype) = (cx.input(0)?, cx.output_dtype(0));
        cx.contract(&x, &x, &shape("p:4;stray:6"), dtype).map(|_| ())
    }),
    ("convolve", "dim stray is not among [p, o, q]", |cx| {
        let (x, dtype) = (cx.input(0)?, cx.output_dtype(0));
        cx.convolve(&x, &x, &[along(stray())], &shape("p:4;o:1"), dtype).map(|_| ())
    }),
    ("convolve", "dim o is not among [p, q]", |cx| {
        let (x, dtype) = (cx.input(0)?, cx.output_dtype(0));
        cx.convolve(&x, &x, &[along("p".into())], &shape("p:4"), dtype).map(|_| ())
    }),
    ("transpose", "dim stray is not among [p:4, q:6]", |cx| {
        cx.transpose(&cx.input(0)?, &["q".into(), stray()]).map(|_| ())
    }),
    ("transpose", "two dimensions of one name (`q:6` and `q:6`)", |cx| {
        cx.transpose(&cx.input(0)?, &["q".into(), "q".into()]).map(|_| ())
    }),
    ("transpose", "dim p of [p:4, q:6] is left out", |cx| {
        cx.transpose(&cx.input(0)?, &["q".into()]).map(|_| ())
    }),
    ("cut", "dim stray is not among [p:4, q:6]", |cx| {
        cx.cut(&cx.input(0)?, stray(), Offset::fixed(0), 1).map(|_| ())
    }),
    ("assemble", "dim q is not among [p]", |cx| {
        assembled(cx, LocalPiece::whole(cx.input(0)?), "p:4")
    }),
    ("assemble", "dim stray is not among [p:4, q:6]", |cx| {
        let begin = vec![(stray(), Offset::fixed(0))];
        assembled(cx, LocalPiece { begin, ..LocalPiece::whole(cx.input(0)?) }, "p:4;q:6")
    }),
    ("assemble", "dim stray is not among [p, q]", |cx| {
        let at = vec![(stray(), 0)];
        assembled(cx, LocalPiece { at, ..LocalPiece::whole(cx.input(0)?) }, "p:4;q:6")
    }),
    ("assemble", "dim stray is not among [p, q]", |cx| {
        let size = vec![(stray(), 1)];
        assembled(cx, LocalPiece { size, ..LocalPiece::whole(cx.input(0)?) }, "p:4;q:6")
    }),
    ("reshape", "[p:4, q:6] has another number of elements than [stray:5]", |cx| {
        cx.reshape(&cx.input(0)?, &shape("stray:5")).map(|_| ())
    }),
    ("generate_part", "[p:5, q:6] is no part of [p:4, q:6]", |cx| drawn(cx, "p:5;q:6", "p")),
    ("generate_part", "[q:6, p:4] is no part of [p:4, q:6]", |cx| drawn(cx, "q:6;p:4", "p")),
    // Numbers next to each other would not lie so in the whole.
    ("generate_part", "[p:4] is no part of [p:4, q:6]", |cx| drawn(cx, "p:4", "p")),
    ("generate_part", "[p:4, q:6] has no dim stray", |cx| drawn(cx, "q:2", "stray")),
    ("gather", "dim stray is not among [p:4, q:6]", |cx| looked_up(cx, stray(), "p:4;i:6")),
    ("gather", "dim stray of the result is not among [i:6] and [p:4, q:6]", |cx| {
        looked_up(cx, "q".into(), "p:4;i:6;stray:2")
    }),
    ("scatter", "dim stray is not among [p:4, q:6]", |cx| {
        let indices = cx.counted(dim("p", 4), Offset::fixed(0), 4)?;
        let (x, onto) = (cx.input(0)?, shape("p:4;q:6"));
        let begin = Offset::fixed(0);
        cx.scatter(ReduceKind::Sum, &x, &indices, stray(), begin, &onto).map(|_| ())
    }),
    ("sort", "dim stray is not among [p:4, q:6]", |cx| {
        cx.sort(&cx.input(0)?, &[], stray(), 1, false).map(|_| ())
    }),
    ("sort", "dim stray is not among [p, q]", |cx| {
        let other = cx.counted(dim("stray", 4), Offset::fixed(0), 4)?;
        cx.sort(&cx.input(0)?, &[other], "q".into(), 1, false).map(|_| ())
    }),
    ("scan", "dim stray is not among [p:4, q:6]", |cx| {
        cx.scan(ReduceKind::Sum, &cx.input(0)?, stray(), false, false).map(|_| ())
    }),
    ("Permute along stray", "", |cx| cx.permute(stray(), 1, true, &cx.input(0)?).map(|_| ())),
    ("AllGather along stray", "", |cx| cx.all_gather(stray(), &cx.input(0)?).map(|_| ())),
    ("axes", "dim lost", |cx| cx.permute("lost".into(), 1, true, &cx.input(0)?).map(|_| ())),
    ("its body makes no output 0", "", |_| Ok(())),
];

fn assembled(cx: &mut LocalCx<'_, '_>, piece: LocalPiece, onto: &str) -> Result<(), OpError> {
    let zero = Scalar::new(cx.dtype(&piece.input), 0.0);
    cx.assemble(&[piece], zero, &shape(onto)).map(|_| ())
}

fn looked_up(cx: &mut LocalCx<'_, '_>, dim_: DimName, onto: &str) -> Result<(), OpError> {
    let indices = cx.counted(dim("i", 6), Offset::fixed(0), 6)?;
    cx.gather(&cx.input(0)?, &indices, dim_, Offset::fixed(0), &shape(onto)).map(|_| ())
}

fn drawn(cx: &mut LocalCx<'_, '_>, part: &str, along: &str) -> Result<(), OpError> {
    let scalar = cx.fill(Scalar::new(I32, 0.0), &Shape::scalar());
    let (whole, begin) = (cx.input(0)?.shape().clone(), [(along.into(), scalar)]);
    let numbers = Generator::Uniform { key: 0, low: 0.0, high: 1.0 };
    cx.generate_part(numbers, &[], &whole, &begin, &shape(part), F32).map(|_| ())
}

impl Op for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }

    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().with(["lost".into()], Role::Exchange(&[Collective::Permute]))
    }

    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        TABLE[self.body].2(cx)
    }
}

#[test]
fn wrong_dims_are_errors_with_the_operation_and_the_users_line() {
    for (body, (method, fault, _)) in TABLE.iter().enumerate() {
        let g = mesh_ops::graph();
        let x = g.input("x", [dim("p", 4), dim("q", 6)], F32);
        let (y, line) = (g.apply1(Faulty { body }, &[x]), line!());
        g.function("f", [x], [y], []);
        let error = g.lower(&"".parse().unwrap(), &"".parse().unwrap()).unwrap_err().to_string();
        for part in ["faulty: ", method, fault, &format!("wrong_dims.rs:{line}")] {
            assert!(error.contains(part), "body {body}: {part:?} is missing in {error}");
        }
    }
}
