//! Builds a program step by step, inferring the type of each result.

mod collectives;
mod generate;

use super::forms::{
    Call, Contract, Convolve, Gather, Loop, Map, Move, Pool, Put, Read, Reduce, Reshape, Scan,
    Scatter, Sort, Write,
};
use super::{
    Block, Body, Dims, Expr, Extents, Form, Offset, Opaque, Operand, Origin, Owners, Piece,
    PoolKind, Program, Reach, Scalar, Slot, Step, UserKernel, Value, ValueId, VariableId, Window,
};
use crate::names::{Axis, DType, Mesh, ReduceKind};
use smallvec::SmallVec;
use std::sync::Arc;

/// Appends steps to a program for one mesh.
#[derive(Debug)]
pub struct Builder<'m> {
    mesh: &'m Mesh,
    program: Program,
    owners: Owners,
    origin: Arc<Origin>,
}

impl<'m> Builder<'m> {
    /// An empty program.
    pub fn new(name: &str, mesh: &'m Mesh) -> Self {
        let program = Program { name: name.to_owned(), ..Program::default() };
        Self { mesh, program, owners: Owners::new(), origin: Arc::default() }
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
        self.origin = origin.into();
    }

    /// Steps from here on are for these processors.
    pub fn owners(&mut self, owners: &[(Axis, usize)]) {
        self.owners = Owners::from_slice(owners);
    }

    /// A value's type.
    pub fn value(&self, id: ValueId) -> &Value {
        self.program.value(id)
    }

    /// A value as an input that is met whole.
    fn whole(&self, id: ValueId) -> Operand {
        Operand::whole(id, self.value(id).extents.len())
    }

    fn define(&mut self, dtype: DType, extents: impl IntoIterator<Item = usize>) -> ValueId {
        self.program.block.define(Value::new(dtype, extents))
    }

    /// Adds a step with these outs.
    fn push(
        &mut self,
        form: impl Into<Form>,
        inputs: impl IntoIterator<Item = Operand>,
        outs: &[ValueId],
    ) {
        self.program.block.steps.push(Step {
            form: form.into(),
            inputs: inputs.into_iter().collect(),
            outs: SmallVec::from_slice(outs),
            owners: self.owners.clone(),
            origin: Arc::clone(&self.origin),
        });
    }

    /// Adds a step with one out of a new value.
    fn make(
        &mut self,
        form: impl Into<Form>,
        inputs: impl IntoIterator<Item = Operand>,
        dtype: DType,
        extents: impl IntoIterator<Item = usize>,
    ) -> ValueId {
        let out = self.define(dtype, extents);
        self.push(form, inputs, &[out]);
        out
    }

    /// Adds a collective of one value, with the extents that `change` makes of the input's.
    fn meet(
        &mut self,
        form: impl Into<Form>,
        input: ValueId,
        change: impl FnOnce(&mut Extents),
    ) -> ValueId {
        let Value { dtype, mut extents, .. } = self.value(input).clone();
        change(&mut extents);
        let input = self.whole(input);
        self.make(form, [input], dtype, extents)
    }

    /// A parameter: a value that is given before the first step.
    pub fn param(&mut self, dtype: DType, extents: impl IntoIterator<Item = usize>) -> ValueId {
        let value = self.define(dtype, extents);
        self.program.block.params.push(value);
        value
    }

    /// A parameter filled from the caller's array.
    pub fn feed(&mut self, dtype: DType, extents: Extents, slot: Slot) -> ValueId {
        let at = self.origin.at.clone();
        self.program.feeds.push(Slot { at, ..slot });
        self.param(dtype, extents)
    }

    /// A result: a value that is taken after the last step.
    pub fn result(&mut self, value: ValueId) {
        self.program.block.results.push(value);
    }

    /// A result copied to the caller's array.
    pub fn fetch(&mut self, slot: Slot, value: ValueId) {
        self.program.fetches.push(slot);
        self.result(value);
    }

    /// A result that is shown to the session's watcher; comes behind all fetches.
    pub fn probe(&mut self, slot: Slot, value: ValueId) {
        self.program.probes.push(slot);
        self.result(value);
    }

    /// An element-by-element step over `extents`; `inputs` label their dims with positions in
    /// `extents`.
    ///
    /// # Errors
    ///
    /// An expression that does not fit the inputs' dtypes.
    pub fn map(
        &mut self,
        inputs: Vec<Operand>,
        extents: Extents,
        expr: &Expr,
        dtype: DType,
    ) -> Result<ValueId, String> {
        let dtypes: Vec<_> = inputs.iter().map(|i| self.value(i.value).dtype).collect();
        let body = Body::new(&dtypes, &[(expr.clone(), dtype)])?;
        Ok(self.make(Map::new(body), inputs, dtype, extents))
    }

    /// Folds the labels that are not below `extents.len()`.
    pub fn reduce(&mut self, kind: ReduceKind, input: Operand, extents: Extents) -> ValueId {
        let dtype = self.value(input.value).dtype;
        self.make(Reduce::new(kind), [input], dtype, extents)
    }

    /// Folds an expression of the inputs over the labels that are not below `extents.len()`; not of bf16.
    ///
    /// # Errors
    ///
    /// An expression that does not fit the inputs' dtypes.
    pub fn reduce_of(
        &mut self,
        kind: ReduceKind,
        inputs: Vec<Operand>,
        extents: Extents,
        (expr, dtype): (&Expr, DType),
    ) -> Result<ValueId, String> {
        let dtypes: Vec<_> = inputs.iter().map(|i| self.value(i.value).dtype).collect();
        let body = Some(Body::new(&dtypes, &[(expr.clone(), dtype)])?);
        Ok(self.make(Reduce { kind, body }, inputs, dtype, extents))
    }

    /// Sum of products; both factors of the result's dtype.
    pub fn contract(&mut self, lhs: Operand, rhs: Operand, extents: Extents) -> ValueId {
        let dtype = self.value(lhs.value).dtype;
        self.make(Contract, [lhs, rhs], dtype, extents)
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
        self.make(Convolve { windows }, [lhs, rhs], dtype, extents)
    }

    /// Folds over windows.
    pub fn pool(
        &mut self,
        kind: PoolKind,
        inputs: Vec<Operand>,
        windows: SmallVec<[Reach; 2]>,
        extents: Extents,
    ) -> ValueId {
        let dtype = self.value(inputs[0].value).dtype;
        self.make(Pool { kind, windows }, inputs, dtype, extents)
    }

    /// Copies rectangles into a value of `extents` filled with `fill`. Every label of an input is a dim
    /// of the result.
    pub fn assemble(
        &mut self,
        pieces: impl IntoIterator<Item = (Operand, Piece)>,
        fill: Scalar,
        extents: Extents,
    ) -> ValueId {
        let (inputs, pieces): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        self.make(Move { pieces, fill }, inputs, fill.dtype(), extents)
    }

    /// A rectangle of `input` in the input's dim order.
    pub fn cut(&mut self, input: ValueId, begin: Vec<Offset>, extents: Extents) -> ValueId {
        let at = Extents::from_elem(0, extents.len());
        let piece = Piece { begin, at, extents: extents.clone() };
        let fill = Scalar::new(self.value(input).dtype, 0.0);
        let input = Operand::whole(input, extents.len());
        self.assemble([(input, piece)], fill, extents)
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
        let piece = Piece { begin, at, extents: extents.clone() };
        let fill = Scalar::new(value.dtype, 0.0);
        self.assemble([(Operand { value: input, dims }, piece)], fill, extents)
    }

    /// The same elements under other extents.
    pub fn reshape(&mut self, input: ValueId, extents: Extents) -> ValueId {
        let dtype = self.value(input).dtype;
        let input = self.whole(input);
        self.make(Reshape, [input], dtype, extents)
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
        let dtype = self.value(input.value).dtype;
        self.make(Gather { dim, begin }, [input, indices], dtype, extents)
    }

    /// What `updates` fold to by index along the result's label `dim`.
    pub fn scatter(
        &mut self,
        kind: ReduceKind,
        updates: Operand,
        indices: Operand,
        dim: u8,
        begin: Offset,
        extents: Extents,
    ) -> ValueId {
        let dtype = self.value(updates.value).dtype;
        self.make(Scatter { kind, dim, begin }, [updates, indices], dtype, extents)
    }

    /// `input` with `row` in it, by index along its label `dim`; the input's labels are its dims.
    pub fn put(
        &mut self,
        input: ValueId,
        row: Operand,
        indices: Operand,
        dim: u8,
        begin: Offset,
    ) -> ValueId {
        let Value { dtype, extents, .. } = self.value(input).clone();
        let input = self.whole(input);
        self.make(Put { dim, begin }, [input, row, indices], dtype, extents)
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
        self.push(Sort { dim, descending }, inputs.iter().cloned(), &outs);
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
        self.meet(Scan { kind, dim, exclusive, reverse }, input, |_| {})
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
        let inputs: Vec<_> = inputs.iter().map(|&input| self.whole(input)).collect();
        self.push(Call { kernel: Opaque::new(kernel) }, inputs, &outs);
        outs
    }

    /// A variable's slice.
    pub fn read(&mut self, variable: VariableId, dtype: DType, extents: Extents) -> ValueId {
        self.make(Read { variable }, [], dtype, extents)
    }

    /// Sets a variable's slice when the call ends.
    pub fn write(&mut self, variable: VariableId, input: ValueId) {
        let input = self.whole(input);
        self.push(Write { variable }, [input], &[]);
    }

    /// Begins a body: steps go into it until it is [closed](Self::close). Gives the block around it.
    pub(crate) fn open(&mut self) -> Block {
        std::mem::take(&mut self.program.block)
    }

    /// Ends the body that is open; steps go on in the block around it.
    pub(crate) fn close(&mut self, around: Block) -> Block {
        std::mem::replace(&mut self.program.block, around)
    }

    /// Runs a body again and again, on inputs in the order that [`Loop`] states.
    pub fn repeat(&mut self, form: Loop, inputs: &[ValueId]) -> SmallVec<[ValueId; 1]> {
        let types = form.out_types();
        let outs: SmallVec<[_; 1]> =
            types.into_iter().map(|(dtype, extents)| self.define(dtype, extents)).collect();
        let inputs: Vec<_> = inputs.iter().map(|&input| self.whole(input)).collect();
        self.push(form, inputs, &outs);
        outs
    }
}
