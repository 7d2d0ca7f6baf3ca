//! Builds a program step by step, inferring the type of each result.

use super::{
    Body, Dims, Expr, Extents, FoldOrder, Generator, Node, Offset, Opaque, Operand, Origin, Owners,
    Piece, Program, Scalar, Slot, Step, UserKernel, Value, ValueId, VariableId, Window,
};
use crate::names::{Axis, AxisList, DType, Mesh, ReduceKind};
use smallvec::{SmallVec, smallvec};

/// Appends steps to a program for one mesh.
#[derive(Debug)]
pub struct Builder<'m> {
    mesh: &'m Mesh,
    program: Program,
    owners: Owners,
}

impl<'m> Builder<'m> {
    /// An empty program.
    pub fn new(name: &str, mesh: &'m Mesh) -> Self {
        let program = Program { name: name.to_owned(), ..Program::default() };
        Self { mesh, program, owners: Owners::new() }
    }

    /// The program so far.
    pub fn finish(self) -> Program {
        self.program
    }

    /// The mesh the program is for.
    pub fn mesh(&self) -> &'m Mesh {
        self.mesh
    }

    /// Steps from here on come from `origin`.
    pub fn origin(&mut self, origin: Origin) {
        self.program.origins.push(origin.into());
    }

    /// Steps from here on are for these processors.
    pub fn owners(&mut self, owners: &[(Axis, usize)]) {
        self.owners = Owners::from_slice(owners);
    }

    /// A value's type.
    pub fn value(&self, id: ValueId) -> &Value {
        self.program.value(id)
    }

    pub(super) fn define(
        &mut self,
        dtype: DType,
        extents: impl IntoIterator<Item = usize>,
    ) -> ValueId {
        self.program.values.push(Value::new(dtype, extents));
        ValueId(self.program.values.len() as u32 - 1)
    }

    pub(super) fn push(&mut self, step: Step) {
        if self.program.origins.is_empty() {
            self.origin(Origin::default());
        }
        let origin = self.program.origins.len() - 1;
        self.program.steps.push(Node { step, origin, owners: self.owners.clone() });
    }

    /// A value filled from the caller's array; `slot.value` is overwritten.
    pub fn feed(&mut self, dtype: DType, extents: Extents, mut slot: Slot) -> ValueId {
        slot.value = self.define(dtype, extents);
        let value = slot.value;
        self.program.feeds.push(slot);
        value
    }

    /// Copies a value to the caller's array at the end.
    pub fn fetch(&mut self, slot: Slot) {
        self.program.fetches.push(slot);
    }

    /// An element-by-element step over `extents`; `inputs` label their dims with positions in
    /// `extents`.
    pub fn map(
        &mut self,
        inputs: Vec<Operand>,
        extents: Extents,
        expr: &Expr,
        dtype: DType,
    ) -> Result<ValueId, String> {
        let dtypes: Vec<_> = inputs.iter().map(|i| self.value(i.value).dtype).collect();
        let body = Body::new(&dtypes, &[(expr.clone(), dtype)])?;
        let out = self.define(dtype, extents);
        self.push(Step::Map { body, inputs, outs: smallvec![out] });
        Ok(out)
    }

    /// Folds the labels that are not below `extents.len()`.
    pub fn reduce(&mut self, kind: ReduceKind, input: Operand, extents: Extents) -> ValueId {
        let dtype = self.value(input.value).dtype;
        let out = self.define(dtype, extents);
        self.push(Step::Reduce { kind, input, out });
        out
    }

    /// Sum of products; both factors of the result's dtype.
    pub fn contract(&mut self, lhs: Operand, rhs: Operand, extents: Extents) -> ValueId {
        let dtype = self.value(lhs.value).dtype;
        let out = self.define(dtype, extents);
        self.push(Step::Contract { lhs, rhs, out });
        out
    }

    /// Windowed sum of products.
    pub fn convolve(
        &mut self,
        lhs: Operand,
        rhs: Operand,
        windows: SmallVec<[Window; 2]>,
        extents: Extents,
    ) -> ValueId {
        let dtype = self.value(lhs.value).dtype;
        let out = self.define(dtype, extents);
        self.push(Step::Convolve { lhs, rhs, windows, out });
        out
    }

    /// Copies rectangles into a value of `extents` filled with `fill`.
    pub fn assemble(&mut self, pieces: Vec<Piece>, fill: Scalar, extents: Extents) -> ValueId {
        let out = self.define(fill.dtype(), extents);
        self.push(Step::Move { pieces, fill, out });
        out
    }

    /// A rectangle of `input` in the input's dim order.
    pub fn cut(&mut self, input: ValueId, begin: Vec<Offset>, extents: Extents) -> ValueId {
        let dims = (0..extents.len() as u8).collect();
        let at = Extents::from_elem(0, extents.len());
        let operand = Operand { value: input, dims };
        let piece = Piece { input: operand, begin, at, extents: extents.clone() };
        let fill = Scalar::new(self.value(input).dtype, 0.0);
        self.assemble(vec![piece], fill, extents)
    }

    /// `input` with its dims in another order: dim `i` of the result is dim `order[i]`.
    pub fn transpose(&mut self, input: ValueId, order: &[u8]) -> ValueId {
        let value = self.value(input).clone();
        let extents: Extents = order.iter().map(|&d| value.extents[d as usize]).collect();
        let mut dims = Dims::from_elem(0, order.len());
        for (i, &d) in order.iter().enumerate() {
            dims[d as usize] = i as u8;
        }
        let begin = vec![Offset::default(); order.len()];
        let at = Extents::from_elem(0, order.len());
        let piece =
            Piece { input: Operand { value: input, dims }, begin, at, extents: extents.clone() };
        self.assemble(vec![piece], Scalar::new(value.dtype, 0.0), extents)
    }

    /// The same elements under other extents.
    pub fn reshape(&mut self, input: ValueId, extents: Extents) -> ValueId {
        let dtype = self.value(input).dtype;
        let out = self.define(dtype, extents);
        self.push(Step::Reshape { input, out });
        out
    }

    /// Rows of `input` along its label `dim`, by index; zero where there is none.
    pub fn gather(
        &mut self,
        input: Operand,
        indices: Operand,
        dim: u8,
        begin: Offset,
        extents: Extents,
    ) -> ValueId {
        let out = self.define(self.value(input.value).dtype, extents);
        self.push(Step::Gather { input, indices, dim, begin, out });
        out
    }

    /// Sums of `updates` by index along the result's label `dim`.
    pub fn scatter(
        &mut self,
        updates: Operand,
        indices: Operand,
        dim: u8,
        begin: Offset,
        extents: Extents,
    ) -> ValueId {
        let out = self.define(self.value(updates.value).dtype, extents);
        self.push(Step::Scatter { updates, indices, dim, begin, out });
        out
    }

    /// The first `extents[dim]` of the elements sorted by the first input; one result per input.
    pub fn sort(
        &mut self,
        inputs: &[Operand],
        dim: u8,
        descending: bool,
        extents: &Extents,
    ) -> SmallVec<[ValueId; 1]> {
        let dtype = |input: &Operand| self.value(input.value).dtype;
        let dtypes: SmallVec<[DType; 2]> = inputs.iter().map(dtype).collect();
        let outs: SmallVec<[ValueId; 1]> =
            dtypes.into_iter().map(|dtype| self.define(dtype, extents.iter().copied())).collect();
        let inputs = inputs.iter().cloned().collect();
        self.push(Step::Sort { inputs, dim, descending, outs: outs.clone() });
        outs
    }

    /// The fold so far at every position along `dim`.
    pub fn scan(
        &mut self,
        kind: ReduceKind,
        dim: u8,
        exclusive: bool,
        reverse: bool,
        input: ValueId,
    ) -> ValueId {
        let value = self.value(input).clone();
        let out = self.define(value.dtype, value.extents);
        self.push(Step::Scan { kind, input, dim, exclusive, reverse, out });
        out
    }

    /// A slice of something made from global positions.
    pub fn generate(
        &mut self,
        generator: Generator,
        dtype: DType,
        begin: Vec<Offset>,
        global: Extents,
        extents: Extents,
    ) -> ValueId {
        self.generate_salted(generator, SmallVec::new(), dtype, begin, global, extents)
    }

    /// As `generate`, for random numbers whose key also depends on scalars of i32.
    pub fn generate_salted(
        &mut self,
        generator: Generator,
        salts: SmallVec<[ValueId; 1]>,
        dtype: DType,
        begin: Vec<Offset>,
        global: Extents,
        extents: Extents,
    ) -> ValueId {
        let out = self.define(dtype, extents);
        self.push(Step::Generate { generator, salts, begin, global, out });
        out
    }

    /// A value of equal elements.
    pub fn fill(&mut self, scalar: Scalar, extents: Extents) -> ValueId {
        let begin = vec![Offset::default(); extents.len()];
        let global = extents.clone();
        self.generate(Generator::Fill(scalar), scalar.dtype(), begin, global, extents)
    }

    /// What a user's kernel makes of the inputs: values of these types.
    pub fn call(
        &mut self,
        kernel: impl UserKernel,
        inputs: &[ValueId],
        types: &[(DType, Extents)],
    ) -> SmallVec<[ValueId; 1]> {
        let define = |(dtype, extents): &(DType, Extents)| self.define(*dtype, extents.clone());
        let outs: SmallVec<[_; 1]> = types.iter().map(define).collect();
        let (kernel, inputs) = (Opaque::new(kernel), SmallVec::from_slice(inputs));
        self.push(Step::Call { kernel, inputs, outs: outs.clone() });
        outs
    }

    /// The fold over a group, whole on every member.
    pub fn all_reduce(&mut self, kind: ReduceKind, axes: &[Axis], input: ValueId) -> ValueId {
        let value = self.value(input).clone();
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        let (inputs, outs) = (smallvec![input], smallvec![out]);
        self.push(Step::AllReduce { kind, order: FoldOrder::Group, axes, inputs, outs });
        out
    }

    /// The members' parts joined along `dim`.
    pub fn all_gather(&mut self, axes: &[Axis], dim: usize, input: ValueId) -> ValueId {
        let mut value = self.value(input).clone();
        value.extents[dim] *= self.mesh.group_size(axes);
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::AllGather { axes, dim: dim as u8, input, out });
        out
    }

    /// The fold over a group, each member its part along `dim`.
    pub fn reduce_scatter(
        &mut self,
        kind: ReduceKind,
        axes: &[Axis],
        dim: usize,
        input: ValueId,
    ) -> ValueId {
        let mut value = self.value(input).clone();
        value.extents[dim] /= self.mesh.group_size(axes);
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::ReduceScatter { kind, axes, dim: dim as u8, input, out });
        out
    }

    /// Cut along `split`, exchanged, joined along `concat`.
    pub fn all_to_all(
        &mut self,
        axes: &[Axis],
        split: usize,
        concat: usize,
        input: ValueId,
    ) -> ValueId {
        let mut value = self.value(input).clone();
        value.extents[split] /= self.mesh.group_size(axes);
        value.extents[concat] *= self.mesh.group_size(axes);
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::AllToAll { axes, split: split as u8, concat: concat as u8, input, out });
        out
    }

    /// The value of the group member `shift` places before this one.
    pub fn permute(&mut self, axes: &[Axis], shift: i64, wrap: bool, input: ValueId) -> ValueId {
        let value = self.value(input).clone();
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::Permute { axes, shift, wrap, input, out });
        out
    }

    /// The fold over a group, at its member `root` only.
    pub fn reduce_to(
        &mut self,
        kind: ReduceKind,
        axes: &[Axis],
        root: usize,
        input: ValueId,
    ) -> ValueId {
        let value = self.value(input).clone();
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::ReduceTo { kind, axes, root, input, out });
        out
    }

    /// What member `root` of a group has.
    pub fn broadcast(&mut self, axes: &[Axis], root: usize, input: ValueId) -> ValueId {
        let value = self.value(input).clone();
        let out = self.define(value.dtype, value.extents);
        let axes = AxisList::from_slice(axes);
        self.push(Step::Broadcast { axes, root, input, out });
        out
    }

    /// A variable's slice.
    pub fn read(&mut self, variable: VariableId, dtype: DType, extents: Extents) -> ValueId {
        let out = self.define(dtype, extents);
        self.push(Step::Read { variable, out });
        out
    }

    /// Sets a variable's slice when the call ends.
    pub fn write(&mut self, variable: VariableId, input: ValueId) {
        self.push(Step::Write { variable, input });
    }

    /// Each value, once all of them are there.
    pub fn barrier(&mut self, inputs: &[ValueId]) -> SmallVec<[ValueId; 1]> {
        let types: Vec<_> = inputs.iter().map(|&id| self.value(id).clone()).collect();
        let outs: SmallVec<[_; 1]> =
            types.into_iter().map(|value| self.define(value.dtype, value.extents)).collect();
        self.push(Step::Barrier { inputs: SmallVec::from_slice(inputs), outs: outs.clone() });
        outs
    }

    /// Waits here for the collective that makes a value, which is thus only begun where it stands.
    pub fn wait(&mut self, value: ValueId) {
        let mut steps = self.program.steps.iter();
        if let Some(node) = steps.find(|node| node.step.outs().contains(&value)) {
            self.push(node.step.awaiting());
        }
    }
}
