//! Short words for tests that build programs.

use super::forms::Loop;
use super::{
    Builder, Elements, ElementsMut, Expr, Extents, Generator, Offset, Operand, Origin, Owners,
    PoolKind, Program, Reach, Slot, UserKernel, Value, ValueId, VariableId, VariableType, View,
    ViewMut, Window,
};
use crate::names::{Axis, AxisList, DType, Mesh, ReduceKind};
use smallvec::smallvec;

/// `rows:2;cols:2`
pub(crate) fn square() -> Mesh {
    "rows:2;cols:2".parse().unwrap()
}

/// The axis of that name.
pub(crate) fn axis(mesh: &Mesh, name: &str) -> Axis {
    mesh.axis(name).unwrap()
}

/// A variable of f32.
pub(crate) fn variable(extents: &[usize]) -> VariableType {
    VariableType {
        name: "weights".to_owned(),
        dtype: DType::F32,
        extents: Extents::from_slice(extents),
        owners: Owners::new(),
    }
}

/// Variable number `index`.
pub(crate) fn var(index: u32) -> VariableId {
    VariableId(index)
}

/// A value with labels for its dims.
pub(crate) fn labelled(value: ValueId, dims: &[u8]) -> Operand {
    Operand { value, dims: dims.iter().copied().collect() }
}

/// `x0`, `x1`, …
pub(crate) fn x(index: u8) -> Expr {
    Expr::input(index)
}

/// Builder methods over whole values.
pub(crate) trait Sketch {
    /// A value as it is.
    fn whole(&self, value: ValueId) -> Operand;
    /// The slot of a value that is not split.
    fn slot(&self, name: &str, value: ValueId) -> Slot;
    /// An unsplit feed of f32.
    fn fed(&mut self, name: &str, extents: &[usize]) -> ValueId;
    /// A fetch of an unsplit value.
    fn fetched(&mut self, name: &str, value: ValueId);
    /// A map over values of equal extents, of the first one's dtype.
    fn of(&mut self, expr: Expr, inputs: &[ValueId]) -> ValueId;
    /// A slice of a variable of f32.
    fn old(&mut self, index: u32, extents: &[usize]) -> ValueId;
}

impl Sketch for Builder<'_> {
    fn whole(&self, value: ValueId) -> Operand {
        let dims = (0..self.value(value).extents.len() as u8).collect();
        Operand { value, dims }
    }

    fn slot(&self, name: &str, value: ValueId) -> Slot {
        let shape = self.value(value).extents.to_vec();
        Slot {
            name: name.to_owned(),
            split: vec![AxisList::new(); shape.len()],
            shape,
            ..Slot::default()
        }
    }

    fn fed(&mut self, name: &str, extents: &[usize]) -> ValueId {
        let split = vec![AxisList::new(); extents.len()];
        let shape = extents.to_vec();
        let slot = Slot { name: name.to_owned(), shape, split, ..Slot::default() };
        self.feed(DType::F32, Extents::from_slice(extents), slot)
    }

    fn fetched(&mut self, name: &str, value: ValueId) {
        let slot = self.slot(name, value);
        self.fetch(slot, value);
    }

    fn of(&mut self, expr: Expr, inputs: &[ValueId]) -> ValueId {
        let operands = inputs.iter().map(|&input| self.whole(input)).collect();
        let Value { dtype, extents, .. } = self.value(inputs[0]).clone();
        self.map(operands, extents, &expr, dtype).unwrap()
    }

    fn old(&mut self, index: u32, extents: &[usize]) -> ValueId {
        self.read(VariableId(index), DType::F32, Extents::from_slice(extents))
    }
}

/// A program of one line.
pub(crate) fn built(mesh: &Mesh, build: impl FnOnce(&mut Builder<'_>)) -> Program {
    let mut builder = Builder::new("test", mesh);
    build(&mut builder);
    builder.finish()
}

/// Offsets of zero.
pub(crate) fn origin(rank: usize) -> Vec<Offset> {
    (0..rank).map(|_| Offset::default()).collect()
}

/// A user's kernel: sums over the first dim, times something.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Total {
    pub(crate) scale: i32,
}

impl UserKernel for Total {
    fn name(&self) -> &'static str {
        "total"
    }

    fn flops(&self, inputs: &[&Value], _: &[&Value]) -> u64 {
        inputs.iter().map(|value| value.len() as u64).sum()
    }

    fn run(&self, inputs: &[View<'_>], outs: &mut [ViewMut<'_>]) {
        let (Elements::F32(input), ElementsMut::F32(out)) =
            (inputs[0].elements, &mut outs[0].elements)
        else {
            panic!("{inputs:?} to {outs:?}");
        };
        for row in input.chunks(out.len()) {
            out.iter_mut().zip(row).for_each(|(out, x)| *out += self.scale as f32 * x);
        }
    }

    fn stablehlo(&self, inputs: &[&Value], _: &[&Value]) -> Option<String> {
        let [rows, columns] = inputs[0].extents[..] else { return None };
        let (from, to) =
            (format!("tensor<{rows}x{columns}xf32>"), format!("tensor<{columns}xf32>"));
        Some(format!(
            "    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [0] : ({from}, tensor<f32>) -> {to}
    %2 = stablehlo.constant dense<{}.0> : {to}
    %3 = stablehlo.multiply %1, %2 : {to}
    return %3 : {to}",
            self.scale
        ))
    }
}

/// A legal step of every form, over [`every_variable`].
pub(crate) fn every_form(b: &mut Builder<'_>) {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    b.origin(Origin {
        op: "op".into(),
        name: "op_1".into(),
        at: "src/main.rs:7".into(),
        ..Origin::default()
    });
    let image = b.fed("image", &[4, 8, 2]); // %0
    let weights = b.old(0, &[3, 2, 6]); // %1, step 0
    let window = Window { input: 4, kernel: 3, output: 1, stride: 2, dilation: 1, pad: 1 };
    let (lhs, rhs) = (labelled(image, &[0, 4, 5]), labelled(weights, &[3, 5, 2]));
    let conv = b.convolve(lhs, rhs, smallvec![window], smallvec![4, 4, 6]); // %2, step 1
    let matrix = b.reshape(conv, smallvec![16, 6]); // %3, step 2
    let (lhs, rhs) = (labelled(matrix, &[0, 2]), labelled(matrix, &[1, 2]));
    let product = b.contract(lhs, rhs, smallvec![16, 16]); // %4, step 3
    let total = b.reduce(ReduceKind::Max, labelled(product, &[0, 1]), smallvec![16]); // %5, step 4
    let inputs = vec![labelled(product, &[0, 1]), labelled(total, &[1])];
    let less = x(0).less(x(1)).select(x(0), 0.0);
    let map = b.map(inputs, smallvec![16, 16], &less, DType::F32).unwrap(); // %6, step 5
    let begin = vec![Offset::sliced(&[rows, cols], 4), Offset::fixed(1)];
    let cut = b.cut(map, begin, smallvec![4, 8]); // %7, step 6
    let begin = vec![Offset::sliced(&[rows], 4), Offset::default()];
    let noise = Generator::Uniform { key: 7, low: 0.0, high: 1.0 };
    let noise = b.generate(noise, DType::F32, begin, smallvec![8, 8], smallvec![4, 8]); // %8, step 7
    let sum = b.of(x(0) + x(1), &[cut, noise]); // %9, step 8
    let sum = b.all_reduce(ReduceKind::Sum, &[rows], sum); // %10, step 9
    let part = b.reduce_scatter(ReduceKind::Sum, &[rows, cols], 1, sum); // %11, step 10
    let turned = b.all_to_all(&[cols], 0, 1, part); // %12, step 11
    let whole = b.all_gather(&[rows], 0, turned); // %13, step 12
    let moved = b.permute(&[rows], 1, true, whole); // %14, step 13
    b.write(var(1), moved); // step 14
    let at = b.generate(Generator::Iota(0), DType::I32, origin(1), smallvec![2], smallvec![2]); // %15, step 15
    let (row, index) = (labelled(moved, &[2, 1]), labelled(at, &[0]));
    let begin = Offset::sliced(&[rows], 4);
    let found = b.gather(row, index, 2, begin.clone(), smallvec![2, 4]); // %16, step 16
    let (row, index) = (labelled(found, &[2, 1]), labelled(at, &[2]));
    let sums = b.scatter(ReduceKind::Sum, row, index, 0, begin.clone(), smallvec![2, 4]); // %17, step 17
    let sums = b.scan(ReduceKind::Sum, 0, true, false, sums); // %18, step 18
    let inputs = [b.whole(sums), labelled(at, &[0])];
    b.sort(&inputs, 0, true, &smallvec![1, 4]); // %19, %20, step 19
    let one = b.call(Total { scale: 2 }, &[sums], &[(DType::F32, smallvec![4])])[0]; // %21, step 20
    let late = b.all_reduce(ReduceKind::Sum, &[cols], sums); // %22, step 21
    b.scan(ReduceKind::Sum, 1, false, false, sums); // %23, step 22
    b.wait(late); // step 23
    let reach = Reach { input: 3, output: 1, size: 2, stride: 2, pad: 1 };
    let seen = labelled(conv, &[0, 3, 2]);
    b.pool(PoolKind::Max, vec![seen], smallvec![reach], smallvec![4, 2, 6]); // %24, step 24
    let at = b.generate(Generator::Iota(0), DType::I32, origin(1), smallvec![4], smallvec![4]); // %25, step 25
    b.put(sums, labelled(one, &[1]), labelled(at, &[1]), 0, begin); // %26, step 26
    b.fetched("moved", moved);
}

/// Three iterations of `h = h + w[i] * c`, which stack h, behind a barrier.
pub(crate) fn looped(mesh: &Mesh) -> Program {
    let mut b = Builder::new("body", mesh);
    let [h, w, c] = [(); 3].map(|()| b.param(DType::F32, [4]));
    b.param(DType::I32, []);
    let next = b.of(x(0) + x(1) * x(2), &[h, w, c]);
    b.result(next);
    b.result(h);
    let body = Box::new(b.finish().block);
    built(mesh, |b| {
        let (h, w, c) = (b.fed("h", &[4]), b.fed("w", &[3, 4]), b.fed("c", &[4]));
        let h = b.barrier(&[h])[0];
        let form =
            Loop { body, count: 3, reverse: true, conditional: false, carried: 1, sliced: 1 };
        let outs = b.repeat(form, &[h, w, c]);
        b.fetched("last", outs[0]);
        b.fetched("all", outs[1]);
    })
}

/// The second row of processors keeps a sum of what it had and what all send it, and sends it to all.
pub(crate) fn owned(b: &mut Builder<'_>) {
    let rows = axis(&square(), "rows");
    let partial = b.fed("partial", &[4]); // %0
    let sum = b.reduce_to(ReduceKind::Sum, &[rows], 1, partial); // %1, step 0
    b.owners(&[(rows, 1)]);
    let old = b.old(0, &[4]); // %2, step 1
    let new = b.of(x(0) + x(1), &[old, sum]); // %3, step 2
    b.write(var(0), new); // step 3
    b.owners(&[]);
    let everybodys = b.broadcast(&[rows], 1, new); // %4, step 4
    b.fetched("new", everybodys);
}

/// The variable of [`owned`].
pub(crate) fn owned_variable() -> VariableType {
    let rows = axis(&square(), "rows");
    VariableType { owners: Owners::from_slice(&[(rows, 1)]), ..variable(&[4]) }
}

/// The variables of [`every_form`].
pub(crate) fn every_variable() -> Vec<VariableType> {
    vec![variable(&[3, 2, 6]), variable(&[4, 4])]
}
