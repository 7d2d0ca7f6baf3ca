//! The gradient of attention: probabilities are computed again from log-sum-exps, block by block.

use super::exchange::{own_part, whole};
use super::frame::Frame;
use super::nest::{Sum, nest};
use super::parts::{Part, Parts, Side, Terms};
use super::ring::Ring;
use super::split::KEYS_VALUES;
use super::{Attention, Dims, formula};
use crate::room::*;
use mesh_core::lower::{Local, PlaceCx, Placing};
use mesh_core::program::{Expr, Scalar};

/// Inputs: those of the attention, its output, its log-sum-exps, the output's gradient, and that of the
/// log-sum-exps if there is one. Outputs: gradients of queries, keys, values, and of the bias if there
/// is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AttentionGradient {
    pub(super) forward: Attention,
    /// Whether something depends on the log-sum-exps.
    pub(super) of_sums: bool,
}

impl AttentionGradient {
    pub(super) fn of<'g>(forward: &Attention, cx: &GradCx<'g>) -> Grads<'g> {
        let own = forward.inputs().len();
        let mut inputs: Vec<_> = (0..own).map(|i| cx.input(i)).collect();
        let dy = cx.dy_of(0).unwrap_or_else(|| cx.output(0).fill_like(0.0));
        let of_sums = cx.dy_of(1);
        inputs.extend([cx.output(0), cx.output(1), dy]);
        inputs.extend(of_sums);
        let op = Self { forward: forward.clone(), of_sums: of_sums.is_some() };
        let outputs = op.results();
        let made = cx.input(0).graph().apply(op, &inputs, outputs);
        let mut grads: Vec<_> = made.into_iter().map(Some).collect();
        grads.resize(own, None);
        Ok(grads)
    }

    /// How many gradients there are.
    fn results(&self) -> usize {
        3 + usize::from(self.forward.bias)
    }

    /// Where its own inputs begin.
    fn own(&self) -> usize {
        self.forward.inputs().len()
    }
}

impl Op for AttentionGradient {
    fn name(&self) -> &'static str {
        "attention_gradient"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let (own, more) = (self.own(), 3 + usize::from(self.of_sums));
        if types.len() != own + more {
            return Err(OpError::arity(self.name(), own + more, types.len()));
        }
        let made = self.forward.outputs(&types[..own])?;
        let [y, sums] = &made[..] else { return Err(OpError::arity(self.name(), 2, made.len())) };
        let want = [y, sums, y, sums];
        for (x, want) in types[own..].iter().zip(want) {
            if !x.shape.is_permutation_of(&want.shape) || x.dtype != want.dtype {
                return Err(OpError::new(format!("attention_gradient: {x} is not as {want}")));
            }
        }
        Ok(types[..self.results()].to_vec())
    }
    fn split(&self, io: Signature<'_>) -> SplitRule {
        self.forward.rule_of_gradient(io.outputs)
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        self.forward.gradient_placed(cx)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let op = &self.forward;
        let turn = op.turn(cx)?;
        let given = op.given(cx, true, turn)?;
        let (dims, frame) = op.frame(&given, Side::Memory, turn)?;
        let dtype = cx.dtype(&cx.input(0)?).reduction();
        let mut parts = op.parts(cx, &frame, &given)?;
        for (part, value) in self.own_parts(cx, &dims, dtype)? {
            let value = frame.arranged(cx, &value, 0.0)?;
            parts.push(part, value);
        }
        // Each result is as its input is given.
        let shapes: Vec<_> = given[..self.results()].iter().map(|x| x.shape().clone()).collect();
        let sum = |shape: &Shape| Ok(Sum { shape: frame.in_blocks(shape)?, dtype });
        let sums = shapes.iter().map(sum).collect::<Result<Vec<_>, OpError>>()?;
        let block = Block { op, frame: &frame, dtype };
        let made = match turn {
            Some(turn) => block.around(cx, &parts, &sums, turn)?,
            None => block.here(cx, &parts, &sums)?,
        };
        for (i, (blocks, shape)) in made.iter().zip(&shapes).enumerate() {
            let mut restored = frame.restored(cx, blocks, shape)?;
            if let Some(turn) = turn {
                restored = op.in_place(cx, &restored, turn)?;
            }
            if KEYS_VALUES.contains(&i) {
                restored = op.renamed(cx, &restored, [op.memory, op.length])?;
            }
            let restored = own_part(cx, restored, &cx.output_shape(i))?;
            let restored = cx.cast(&restored, cx.output_dtype(i))?;
            cx.finish(i, restored)?;
        }
        Ok(())
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        // Each for itself, though one may have been made of others: what is found is then computed of
        // the inputs as they are.
        let own: Vec<_> = (0..cx.arity()).map(|i| cx.input(i)).collect();
        let inputs: Vec<_> = own.iter().map(|x| x.stop_gradient()).collect();
        let made = formula::gradients(&self.forward, &inputs);
        let mut asked = Vec::new();
        for (i, &y) in made.iter().enumerate() {
            asked.extend(cx.dy_of(i).map(|dy| (y, dy)));
        }
        let (ys, dys): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let floats: Vec<_> = (0..inputs.len()).filter(|&i| inputs[i].dtype().is_float()).collect();
        let xs: Vec<_> = floats.iter().map(|&i| inputs[i]).collect();
        let graph = cx.input(0).graph();
        let found = graph.gradients(&ys, &xs, Some(&dys));
        let (floats, found): (Vec<_>, Vec<_>) =
            floats.into_iter().zip(found).filter_map(|(i, grad)| Some((i, grad?))).unzip();
        let pairs: Vec<_> = inputs.into_iter().zip(own).collect();
        let mut grads = vec![None; pairs.len()];
        let found = graph.replace(&found, &pairs);
        floats.into_iter().zip(found).for_each(|(i, grad)| grads[i] = Some(grad));
        Ok(grads)
    }
}

impl AttentionGradient {
    /// Per query: the output's gradient, the log-sum-exp, and `D`.
    fn own_parts(
        &self,
        cx: &mut LocalCx<'_, '_>,
        dims: &Dims,
        dtype: DType,
    ) -> Result<Vec<(Part, Local)>, OpError> {
        let own = self.own();
        let [y, sums, dy] = [cx.input(own)?, cx.input(own + 1)?, cx.input(own + 2)?];
        let [y, dy] = [whole(cx, y, dims.value.name)?, whole(cx, dy, dims.value.name)?];
        let [x, z] = [0, 1].map(Expr::input);
        let (wide, wide_dy) = (cx.cast(&y, dtype)?, cx.cast(&dy, dtype)?);
        let products = cx.map_over(y.shape(), &[wide, wide_dy], &(x.clone() * z.clone()), dtype)?;
        let mut mean = cx.reduce(ReduceKind::Sum, &products, &dims.rows)?;
        if self.of_sums {
            let of_sums = cx.input(own + 3)?;
            mean = cx.map_over(&dims.rows, &[mean, of_sums], &(x.clone() - z), dtype)?;
        }
        // Who looks at nothing has no probabilities: exp(-inf - 0).
        let seen = x.clone().equal(f64::NEG_INFINITY).select(0.0, x);
        let sums = cx.map(&[sums], &seen, dtype)?;
        Ok(vec![(Part::OutputGradient, dy), (Part::LogSumExp, sums), (Part::Mean, mean)])
    }
}

struct Block<'a> {
    op: &'a Attention,
    frame: &'a Frame,
    dtype: DType,
}

impl Block<'_> {
    /// Gradients in blocks: each block of the memory meets all queries.
    fn here(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        sums: &[Sum],
    ) -> Result<Vec<Local>, OpError> {
        let frame = self.frame;
        let blocks = [frame.memory.blocks, frame.queries.blocks];
        let over: Vec<_> = frame.outer.iter().copied().chain(blocks).collect();
        let inside = self.inside(sums, &over);
        nest(cx, &over, parts, sums, vec![None; sums.len()], &mut |cx, parts, so_far| {
            self.met(cx, parts, &inside, so_far)
        })
    }

    /// The same where the memory goes round, and with it the gradients of keys and values.
    fn around(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        sums: &[Sum],
        turn: Dimension,
    ) -> Result<Vec<Local>, OpError> {
        let frame = self.frame;
        let (first, last) = (frame.memory.blocks, frame.queries.blocks);
        let over: Vec<_> = frame.outer.iter().copied().chain([last]).collect();
        let of_block = self.inside(sums, &[first]);
        let of_turn = self.inside(&of_block, &[turn]);
        let of_one = self.inside(&of_turn, &over);
        let [keys, values] = KEYS_VALUES;
        let ring = Ring { frame, along: self.op.length, turn, travelling: keys..values + 1 };
        let mut met = |cx: &mut LocalCx<'_, '_>, parts: &Parts, so_far: Vec<Option<Local>>| {
            self.met(cx, parts, &of_one, so_far)
        };
        let mut one = |cx: &mut LocalCx<'_, '_>, parts: &Parts, so_far: Vec<Option<Local>>| {
            nest(cx, &over, parts, &of_turn, so_far, &mut met)
        };
        nest(cx, &[first], parts, sums, vec![None; sums.len()], &mut |cx, parts, so_far| {
            ring.round(cx, parts, &of_block, so_far, &mut one)
        })
    }

    /// What results are inside loops over these dims.
    fn inside(&self, sums: &[Sum], over: &[Dimension]) -> Vec<Sum> {
        let over: Vec<_> = over.iter().map(|d| d.name).collect();
        let inside = |sum: &Sum| Sum { shape: sum.shape.without(&over), ..sum.clone() };
        sums.iter().map(inside).collect()
    }

    /// What two blocks add, if they may meet, to what there is; 0 where nothing is.
    fn met(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        sums: &[Sum],
        so_far: Vec<Option<Local>>,
    ) -> Result<Vec<Local>, OpError> {
        let begin = |(so_far, sum): (Option<Local>, &Sum)| {
            so_far.unwrap_or_else(|| cx.fill(Scalar::new(sum.dtype, 0.0), &sum.shape))
        };
        let so_far = so_far.into_iter().zip(sums).map(begin).collect();
        let body = |cx: &mut LocalCx<'_, '_>, parts: &Parts, so_far: &[Local], masked| {
            self.add(cx, parts, so_far, masked)
        };
        self.op.guarded(cx, parts, self.frame, so_far, &body)
    }

    /// Gradients with what two blocks that meet add to them. Scores lie turned, a row for each position of
    /// the memory: two of the three products that sum over them take them as they lie.
    fn add(
        &self,
        cx: &mut LocalCx<'_, '_>,
        parts: &Parts,
        so_far: &[Local],
        masked: bool,
    ) -> Result<Vec<Local>, OpError> {
        let Frame { queries, memory, .. } = self.frame;
        let turned = Shape::new([memory.rows, queries.rows])?;
        let [q, k, v] = [Part::Query, Part::Key, Part::Value].map(|part| parts.want(part));
        let (q, k, v, dy) = (q?, k?, v?, parts.want(Part::OutputGradient)?);
        let product = cx.contract(k, q, &turned, self.dtype)?;
        let of_weights = cx.contract(v, dy, &turned, self.dtype)?;
        let mut terms = Terms::default();
        let product = terms.of(&product);
        let (score, bent) = self.op.score(parts, product, &mut terms);
        let mut weight = (score - terms.of(parts.want(Part::LogSumExp)?)).exp();
        if masked && let Some(rule) = self.op.rules.each(parts, memory.real(), &mut terms)? {
            weight = rule.select(weight, 0.0);
        }
        let mut of_weight = terms.of(&of_weights);
        let mut kept = weight.clone();
        if let Some(drops) = self.op.drops(cx, parts, self.frame)? {
            of_weight = drops.kept(of_weight, &mut terms);
            kept = drops.kept(kept, &mut terms);
        }
        let mean = terms.of(parts.want(Part::Mean)?);
        let of_score = weight * (of_weight - mean);
        let of_product = match bent {
            Some(bent) => of_score.clone() * (1.0 - bent.clone() * bent),
            None => of_score.clone(),
        };
        let weights = terms.map(cx, &turned, &kept, self.dtype)?;
        let of_products = terms.map(cx, &turned, &of_product, self.dtype)?;
        let mut more = Vec::new();
        for (i, (factor, other)) in
            [(&of_products, k), (&of_products, q), (&weights, dy)].into_iter().enumerate()
        {
            more.push(cx.contract(factor, other, so_far[i].shape(), self.dtype)?);
        }
        if let Some(so_far) = so_far.get(3) {
            let of_scores = terms.map(cx, &turned, &of_score, self.dtype)?;
            let part = if so_far.shape().rank() == 2 {
                cx.transpose(&of_scores, &so_far.shape().names().collect::<Vec<_>>())?
            } else {
                cx.reduce(ReduceKind::Sum, &of_scores, so_far.shape())?
            };
            more.push(part);
        }
        let add = Expr::input(0) + Expr::input(1);
        let sums = so_far.iter().zip(more);
        sums.map(|(sum, more)| cx.map_over(sum.shape(), &[sum.clone(), more], &add, self.dtype))
            .collect()
    }
}
