//! Blocks: operations that run round by round, the bodies of loops.
//!
//! A block's operations stand in the graph's one list, marked with the block. They may read tensors
//! made outside of it; when the block is closed these become inputs of the loop's operation
//! (*captured*). What a block makes is read outside of it only as an output of the loop.
//!
//! A gradient's block *undoes* another: its rounds run in the opposite order, and what it reads of
//! the other's rounds is stacked by the one loop and sliced by the other, without anybody asking.

use super::structural::{Loop, Param};
use super::{Asked, Graph, OpError, OperationId, Tensor, TensorId, TensorNode, TensorType};
use super::{Key, Operation, Provenance};
use crate::names::{DType, Dimension, Shape};
use indexmap::{IndexMap, IndexSet};
use std::panic::Location;
use std::sync::Arc;

/// Number of a block in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockId(u32);

impl BlockId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a loop runs.
#[derive(Clone, Debug)]
pub(crate) struct BlockNode {
    /// What a round is given: carried from the round before, slices, and its position.
    pub(crate) carried: Vec<TensorId>,
    pub(crate) sliced: Vec<TensorId>,
    pub(crate) position: TensorId,
    /// What slices are of; made outside of the block.
    pub(crate) stacks: Vec<TensorId>,
    /// What the next round carries, what is stacked, and under a condition whether to go on.
    pub(crate) results: Vec<TensorId>,
    /// What it reads that was made outside.
    pub(crate) captured: Vec<TensorId>,
    /// Who asked for the loop.
    at: Provenance,
    /// The loop, and its body, that this block undoes.
    undoes: Option<(OperationId, BlockId)>,
    /// What stands here for tensors of that body.
    residuals: IndexMap<TensorId, TensorId>,
}

impl Graph {
    /// Begins a block; operations are in it until [`close`](Self::close).
    #[track_caller]
    pub(super) fn open(&self, undoes: Option<(OperationId, BlockId)>) -> BlockId {
        let at = self.provenance(Location::caller());
        let mut data = self.data.borrow_mut();
        let id = BlockId(data.blocks.len() as u32);
        data.blocks.push(BlockNode {
            carried: Vec::new(),
            sliced: Vec::new(),
            position: TensorId(u32::MAX),
            stacks: Vec::new(),
            results: Vec::new(),
            captured: Vec::new(),
            at,
            undoes,
            residuals: IndexMap::new(),
        });
        data.open.push(id);
        drop(data);
        let position = self.param(id, TensorType::new(Shape::scalar(), DType::I32), None);
        self.data.borrow_mut().blocks[id.index()].position = position.id();
        id
    }

    /// The rounds' positions of all open blocks, the outermost first.
    pub(super) fn positions(&self) -> Vec<Tensor<'_>> {
        let data = self.data();
        let positions = data.open.iter().map(|block| data.blocks[block.index()].position);
        positions.map(|id| Tensor::new(self, id)).collect()
    }

    /// Ends the innermost block, which has these results, and finds what it captures.
    pub(super) fn close(&self, block: BlockId, results: &[Tensor<'_>]) {
        let data = &mut *self.data.borrow_mut();
        data.open.retain(|open| *open != block);
        let of = |t: TensorId, data: &super::Data| data.block_of(t);
        let mut captured = IndexSet::new();
        let own = data.operations.iter().filter(|operation| operation.block == Some(block));
        let read = own.flat_map(|operation| operation.inputs.iter().copied());
        for tensor in read.chain(results.iter().map(|t| t.id())) {
            if of(tensor, data) != Some(block) {
                captured.insert(tensor);
            }
        }
        let node = &mut data.blocks[block.index()];
        node.captured = captured.into_iter().collect();
        node.results = results.iter().map(|t| t.id()).collect();
    }

    /// A tensor that each round of a block is given.
    pub(super) fn param(&self, block: BlockId, ty: TensorType, key: Option<Key>) -> Tensor<'_> {
        let data = &mut *self.data.borrow_mut();
        let at = data.blocks[block.index()].at.clone();
        let (id, operation) =
            (TensorId(data.tensors.len() as u32), OperationId(data.operations.len() as u32));
        data.tensors.push(TensorNode { ty: ty.clone(), producer: Some((operation, 0)), key });
        data.operations.push(Operation {
            op: Arc::new(Param { ty }),
            inputs: Vec::new(),
            outputs: vec![id],
            name: data.names.unique("param"),
            at,
            region: 0,
            block: Some(block),
        });
        Tensor::new(self, id)
    }

    /// A slice, in each round, of a tensor whose first dim counts the rounds.
    pub(super) fn slice_in<'g>(&'g self, block: BlockId, stack: Tensor<'g>) -> Tensor<'g> {
        let mut ty = stack.tensor_type();
        let rounds: Vec<_> = ty.shape.names().take(1).collect();
        ty.shape = ty.shape.without(&rounds);
        let key = if ty.shape.is_scalar() { None } else { stack.key() };
        let slice = self.param(block, ty, key);
        let node = &mut self.data.borrow_mut().blocks[block.index()];
        node.sliced.push(slice.id());
        node.stacks.push(stack.id());
        slice
    }

    /// Leaves all blocks but the `depth` outermost until [`reenter`](Self::reenter); all of them for
    /// what belongs to no round, such as reading a variable.
    pub(super) fn leave(&self, depth: usize) -> Vec<BlockId> {
        self.data.borrow_mut().open.split_off(depth)
    }

    pub(super) fn reenter(&self, blocks: Vec<BlockId>) {
        self.data.borrow_mut().open.extend(blocks);
    }

    /// The tensor by which an operation made now reads `tensor`: itself, or what stands for it in
    /// a block that undoes its block.
    pub(super) fn reach<'g>(&'g self, tensor: Tensor<'g>) -> Result<Tensor<'g>, OpError> {
        let (open, home, undone, tensor) = {
            let data = self.data();
            let open = data.open.clone();
            let undone: Vec<_> =
                open.iter().map(|block| data.blocks[block.index()].undoes).collect();
            let given = undone.iter().flatten().rev();
            let tensor = given.fold(tensor.id(), |tensor, undone| data.given(*undone, tensor));
            (open, data.block_of(tensor), undone, Tensor::new(self, tensor))
        };
        let Some(home) = home.filter(|home| !open.contains(home)) else { return Ok(tensor) };
        for (depth, undoes) in undone.iter().enumerate().rev() {
            match undoes {
                Some((forward, block)) if *block == home => {
                    return self.residual(open[depth], depth, *forward, tensor);
                }
                _ => {}
            }
        }
        Err(OpError::new(format!(
            "{tensor:?} is made in a loop's body and used outside of it; return it from the body"
        )))
    }

    fn residual<'g>(
        &'g self,
        block: BlockId,
        depth: usize,
        forward: OperationId,
        tensor: Tensor<'g>,
    ) -> Result<Tensor<'g>, OpError> {
        let known = self.data().blocks[block.index()].residuals.get(&tensor.id()).copied();
        if let Some(known) = known {
            return Ok(Tensor::new(self, known));
        }
        let inner = self.leave(depth + 1);
        let stands = self.stand_in(block, forward, tensor);
        self.reenter(inner);
        let stands = stands?;
        let node = &mut self.data.borrow_mut().blocks[block.index()];
        node.residuals.insert(tensor.id(), stands.id());
        Ok(stands)
    }

    fn stand_in<'g>(
        &'g self,
        block: BlockId,
        forward: OperationId,
        tensor: Tensor<'g>,
    ) -> Result<Tensor<'g>, OpError> {
        let id = tensor.id();
        let (position, stack, producer) = {
            let data = self.data();
            let home = data.block_of(id).map(|home| &data.blocks[home.index()]);
            let position = home.is_some_and(|home| home.position == id);
            let sliced = home.and_then(|home| {
                let index = home.sliced.iter().position(|slice| *slice == id)?;
                home.stacks.get(index).copied()
            });
            let producer = data.tensors[id.index()].producer;
            let producer =
                producer.map(|(operation, _)| data.operations[operation.index()].clone());
            (position, sliced, producer)
        };
        if position {
            return Ok(Tensor::new(self, self.data().blocks[block.index()].position));
        }
        if let Some(stack) = stack {
            return Ok(self.slice_in(block, Tensor::new(self, stack)));
        }
        // What has no inputs is made again.
        if let Some(source) =
            producer.filter(|o| o.inputs.is_empty() && !o.op.as_any().is::<Param>())
        {
            return Ok(self.clone_operation(&source, &[])?[0]);
        }
        Ok(self.slice_in(block, self.save(forward, tensor)?))
    }

    /// All rounds' values of a tensor of a loop's body, as one more output of the loop.
    fn save<'g>(&'g self, forward: OperationId, tensor: Tensor<'g>) -> Result<Tensor<'g>, OpError> {
        let ty = tensor.tensor_type();
        let data = &mut *self.data.borrow_mut();
        let operation = &mut data.operations[forward.index()];
        let Some(old) = operation.op.as_any().downcast_ref::<Loop>() else {
            return Err(OpError::new("internal error: what is undone is no loop"));
        };
        let known = old.saved.iter().position(|saved| *saved == tensor.id());
        if let Some(known) = known {
            return Ok(Tensor::new(self, operation.outputs[old.results() + known]));
        }
        let mut new = old.clone();
        let shape = stacked(new.rounds, &ty.shape)?;
        let id = TensorId(data.tensors.len() as u32);
        let node = TensorNode {
            ty: TensorType::new(shape, ty.dtype),
            producer: Some((forward, operation.outputs.len())),
            key: Some(data.tensors[tensor.id().index()].key.unwrap_or(Key::COMPUTE)),
        };
        new.saved.push(tensor.id());
        new.outputs.push(node.ty.clone());
        operation.op = Arc::new(new);
        operation.outputs.push(id);
        data.tensors.push(node);
        Ok(Tensor::new(self, id))
    }

    /// The same op on other inputs, here.
    pub(super) fn clone_operation<'g>(
        &'g self,
        source: &Operation,
        inputs: &[Tensor<'g>],
    ) -> Result<Vec<Tensor<'g>>, OpError> {
        let keys = source.outputs.iter().map(|t| self.data().tensors[t.index()].key).collect();
        let asked = Asked::keys(keys).named(source.name.clone());
        let at = self.here(&source.at);
        let made = self.try_apply(source.op.clone(), inputs, source.outputs.len(), asked, &at)?;
        made.ok_or_else(|| OpError::new("internal error: a repeated operation has no inputs"))
    }

    /// Where operations made now come from, if not from the given place.
    fn here(&self, otherwise: &Provenance) -> Provenance {
        self.data().context.last().map_or_else(|| otherwise.clone(), |context| context.at.clone())
    }
}

impl super::Data {
    /// What probes among operations show.
    pub(crate) fn probed(&self, operations: &[OperationId]) -> impl Iterator<Item = TensorId> {
        let probes = operations
            .iter()
            .filter(|id| self.operations[id.index()].op.as_any().is::<super::structural::Probe>());
        probes.flat_map(|id| self.operations[id.index()].outputs.iter().copied())
    }

    /// What a fetch of a tensor is called: by its operation, or as a probe says.
    pub(crate) fn fetch_name(&self, tensor: TensorId) -> String {
        let producer = self.tensors[tensor.index()].producer;
        let op = producer.map(|(operation, _)| &self.operations[operation.index()].op);
        match op.and_then(|op| op.as_any().downcast_ref::<super::structural::Probe>()) {
            Some(probe) => probe.label.clone(),
            None => self.tensor_name(tensor),
        }
    }

    /// The block a tensor is made in.
    pub(crate) fn block_of(&self, tensor: TensorId) -> Option<BlockId> {
        let (operation, _) = self.tensors[tensor.index()].producer?;
        self.operations[operation.index()].block
    }
}

impl super::Data {
    /// What a loop was given for a tensor that its block captures: another one where the loop is a
    /// repetition of the loop that the block was built for.
    fn given(&self, (forward, block): (OperationId, BlockId), tensor: TensorId) -> TensorId {
        let captured = &self.blocks[block.index()].captured;
        let Some(position) = captured.iter().position(|captured| *captured == tensor) else {
            return tensor;
        };
        let operation = &self.operations[forward.index()];
        let first = operation.op.as_any().downcast_ref::<Loop>().map(|l| l.carried + l.sliced);
        first.map_or(tensor, |first| operation.inputs[first + position])
    }
}

/// The shape of one value per round, side by side.
pub(super) fn stacked(rounds: Dimension, shape: &Shape) -> Result<Shape, OpError> {
    Shape::new(std::iter::once(rounds).chain(shape)).map_err(OpError::from)
}
