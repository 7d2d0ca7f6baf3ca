//! One graph for each loss.

use super::of_two;
use crate::catalogue::{Entry, case, f32s, input, made};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

const CELLS: &str = "p:4;q:6";
const VECTORS: &str = "p:4;model:6";

type Of<const N: usize> = for<'g> fn([Tensor<'g>; N]) -> Tensor<'g>;

/// A loss of as many tensors of these dims.
fn of<const N: usize>(name: &str, dims: [&'static str; N], loss: Of<N>) -> Entry {
    case(name, name, move |g| {
        let names = ["x", "y", "z", "t"];
        let given = std::array::from_fn(|i| f32s(g, names[i], dims[i]));
        made(given, [loss(given)])
    })
}

pub fn all() -> Vec<Entry> {
    fn model() -> Dimension {
        dim("model", 6)
    }
    let (classes, batch) = (dim("classes", 6), dim("batch", 4));
    vec![
        of("squared_error", [CELLS; 2], |[x, y]| squared_error(x, y)),
        of("absolute_error", [CELLS; 2], |[x, y]| absolute_error(x, y)),
        of("huber_loss", [CELLS; 2], |[x, y]| huber_loss(x, y, 1.0)),
        of("smooth_l1_loss", [CELLS; 2], |[x, y]| smooth_l1_loss(x, y, 1.0)),
        of("log_cosh", [CELLS; 2], |[x, y]| log_cosh(x, y)),
        of("gaussian_nll", [CELLS; 3], |[x, v, y]| gaussian_nll(x, v, y)),
        of("poisson_nll", [CELLS; 2], |[x, y]| poisson_nll(x, y)),
        of("binary_cross_entropy", [CELLS; 2], |[p, z]| binary_cross_entropy(p, z)),
        of("sigmoid_focal_loss", [CELLS; 2], |[x, z]| sigmoid_focal_loss(x, z, 0.25, 2.0)),
        of_two("kl_divergence", "kl_divergence", ["p:4;classes:6"; 2], move |x, p| {
            kl_divergence(x, p, classes)
        }),
        of("hinge_loss", [CELLS; 2], |[x, side]| hinge_loss(x, side)),
        of("hinge_embedding_loss", [CELLS; 2], |[x, side]| hinge_embedding_loss(x, side, 1.0)),
        of("margin_ranking_loss", [CELLS; 3], |[x, y, side]| margin_ranking_loss(x, y, side, 0.5)),
        of("cosine_similarity", [VECTORS; 2], |[x, y]| cosine_similarity(x, y, model())),
        of("cosine_embedding_loss", [VECTORS, VECTORS, "p:4"], |[x, y, side]| {
            cosine_embedding_loss(x, y, side, model(), 0.1)
        }),
        of("triplet_margin_loss", [VECTORS; 3], |[a, p, n]| {
            triplet_margin_loss(a, p, n, model(), 1.0)
        }),
        of_two("nt_xent", "nt_xent", ["batch:4;model:6"; 2], move |one, other| {
            nt_xent(one, other, batch, model(), 0.5)
        }),
        case("Ctc", "ctc", |g| {
            let (time, classes, labels) = (dim("time", 5), dim("classes", 4), dim("labels", 2));
            let logits = f32s(g, "logits", "batch:4;time:5;classes:4");
            let spelt = input(g, "spelt", "batch:4;labels:2", I32);
            let [times, lengths] = ["times", "lengths"].map(|name| input(g, name, "batch:4", I32));
            let ctc = Ctc { time, classes, labels, blank: 0 };
            made([logits, spelt, times, lengths], [ctc.apply(logits, spelt, times, lengths)])
        }),
    ]
}
