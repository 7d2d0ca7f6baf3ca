//! Transformations of functions, and what trains.

use super::{Row, Words, rows};
use mesh_ops::prelude::*;
use mesh_optimize::schedule::{
    CosineRestarts, Exponential, OneCycle, ReduceOnPlateau, WarmupStableDecay,
};
use mesh_optimize::*;

pub(super) fn transformations(words: &Words<'_>) -> Vec<Row> {
    let &Words { g, rows, columns, x, .. } = words;
    let w = g.variable("w", [columns], F32, Initializer::ZEROS);
    let loss = (x * w.value()).square().mean();
    let one = g.scalar(1.0, F32);
    rows! {
        "autograd.grad Tensor.backward", "jax.grad jax.value_and_grad jax.vjp" => g.gradients(&[loss], &[w.value()], None);
        "Tensor.detach", "lax.stop_gradient" => x.stop_gradient();
        "autograd.Function", "jax.custom_vjp" => g.custom_gradient([x], |[x]| [x * x], |cx| vec![Some(cx.dy() * 0.5)]);
        "utils.checkpoint.checkpoint", "jax.checkpoint" => g.recompute([x], |[x]| [x.tanh()]);
        "vmap func.vmap", "jax.vmap" => x * w.value(), "a dim more is all there is to it: operands meet by name";
        "_higher_order_ops.scan", "lax.scan lax.map" => g.scan(rows, [one], [x], |[c], [x]| ([c + x.mean()], [x + c]));
        "while_loop", "lax.while_loop lax.fori_loop" => g.while_loop([one], |[c]| c.less(1000.0), |[c]| [2.0 * c]);
        "cond", "lax.cond" => one.less(2.0).select(x, -x), "both sides are computed";
        "nn.Parameter", "linen.Module.param" => g.variable("kernel", [columns], F32, Initializer::ONES);
        "nn.Module.register_buffer", "" => g.state("buffer", [columns], F32, Initializer::ZEROS);
        "compile jit.script", "jax.jit" => g.function("predict", [x], [loss], []), "every function is compiled when the graph is lowered";
        "nn.utils.clip_grad_norm_", "optax.clip_by_global_norm" => {
            clip_by_global_norm(&compute_gradients(loss, &g.trainable_variables()), 1.0)
        };
    }
}

pub(super) fn optimizers() -> Vec<Row> {
    rows! {
        "optim.SGD", "optax.sgd" => Momentum::new(0.1, 0.9);
        "optim.Adam", "optax.adam" => Adam::new(1e-3);
        "optim.AdamW", "optax.adamw" => AdamW::new(1e-3);
        "optim.Adamax", "optax.adamax" => Adamax::new(1e-3);
        "optim.NAdam", "optax.nadam" => NAdam::new(1e-3);
        "optim.RAdam", "optax.radam" => RAdam::new(1e-3);
        "optim.Adagrad", "optax.adagrad" => Adagrad::new(1e-2);
        "optim.Adadelta", "optax.adadelta" => Adadelta::new(1.0);
        "optim.RMSprop", "optax.rmsprop" => RmsProp::new(1e-3);
        "optim.Rprop", "optax.rprop" => Rprop::new(1e-2);
        "optim.Adafactor", "optax.adafactor" => Adafactor::default();
        "optim.Muon", "optax.contrib.muon" => Muon::new(2e-2);
        "", "optax.lion" => Lion::new(1e-4);
        "", "optax.lamb" => Lamb::new(1e-3);
        "", "optax.lars" => Lars::new(1e-1);
        "", "optax.sm3" => Sm3::new(1e-1);
        "", "optax.yogi" => Yogi::new(1e-2);
        "", "optax.adabelief" => AdaBelief::new(1e-3);
        "", "optax.adan" => Adan::new(1e-3);
        "", "optax.novograd" => NovoGrad::new(1e-3);
        "", "optax.sign_sgd" => SignSgd::new(1e-3);
        "", "optax.contrib.prodigy" => Prodigy::new(1.0);
        "optim.swa_utils.AveragedModel", "optax.ema" => Ema::new(Adam::new(1e-3), 0.999);
        "", "optax.lookahead" => Lookahead::new(Adam::new(1e-3), 5, 0.5);
        "", "optax.contrib.schedule_free" => ScheduleFree::new(Adam::new(1e-3), 1e-3);
        "", "optax.contrib.sam" => Sam::new(Adam::new(1e-3), 0.05);
        "", "optax.apply_if_finite" => SkipNotFinite::new(Adam::new(1e-3), 10);
        "", "optax.MultiSteps" => Accumulate::new(Adam::new(1e-3), 4);
        "", "optax.multi_transform" => ByName::new(Sgd::new(0.1)), "by patterns of variables' names";
        "optim.lr_scheduler.OneCycleLR", "optax.cosine_onecycle_schedule" => OneCycle::new(0.1, 1000);
        "optim.lr_scheduler.CosineAnnealingWarmRestarts", "optax.sgdr_schedule" => CosineRestarts::new(0.1, 100);
        "optim.lr_scheduler.ExponentialLR", "optax.exponential_decay" => Exponential::new(0.1, 100, 0.9);
        "optim.lr_scheduler.ReduceLROnPlateau", "optax.contrib.reduce_on_plateau" => ReduceOnPlateau::default();
        "optim.lr_scheduler.SequentialLR", "optax.warmup_cosine_decay_schedule" => WarmupStableDecay::new(0.1, 100, 1000, 100);
    }
}
