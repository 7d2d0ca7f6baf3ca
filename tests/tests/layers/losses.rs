//! Losses against closed forms.

use crate::fed::Fed;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

const LAYOUTS: &[(&str, &str)] =
    &[("", ""), ("a:2", "p:a"), ("a:3", "classes:a"), ("a:2;b:3", "p:a;classes:b")];

const LOGITS: [f64; 6] = [0.5, -1.0, 2.0, 100.0, -100.0, 0.0];

fn log_sum(x: &[f64]) -> f64 {
    let most = x.iter().copied().fold(f64::MIN, f64::max);
    most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

#[test]
fn cross_entropy_is_its_closed_form() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "cross entropy");
    let classes = dim("classes", 3);
    let logits = fed.given("x", "p:2;classes:3", &LOGITS.map(|x| x as f32));
    let hard = fed.integers("hard", "p:2", &[1, 2]);
    let soft = fed.given("soft", "p:2;classes:3", &[0.0, 1.0, 0.0, 0.25, 0.25, 0.5]);
    let weights = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let soft_weights = [[0.0, 1.0, 0.0], [0.25, 0.25, 0.5]];
    for (z_loss, label_smoothing) in [(0.0, 0.0), (1e-4, 0.0), (0.0, 0.1), (0.01, 0.3)] {
        let options = CrossEntropy { z_loss, label_smoothing };
        for (targets, weights) in [(hard, weights), (soft, soft_weights)] {
            let loss = fed.value(options.apply(logits, targets, classes), LAYOUTS);
            for p in 0..2 {
                let x = &LOGITS[3 * p..3 * p + 3];
                let z = log_sum(x);
                let smooth = |w: f64| w * (1.0 - label_smoothing) + label_smoothing / 3.0;
                let entropy = |(x, w): (&f64, &f64)| smooth(*w) * (z - x);
                let want: f64 = x.iter().zip(&weights[p]).map(entropy).sum();
                let want = want + z_loss * z * z;
                let got = loss[[p]];
                assert!((got - want).abs() < 1e-5 * want.abs().max(1.0), "{got} {want}");
            }
        }
    }
}

#[test]
fn even_logits_cost_the_logarithm_of_the_classes() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "even");
    let label = fed.integers("label", "p:2", &[0, 5]);
    let classes = dim("classes", 6);
    let logits = g.fill(3.0, [dim("p", 2), classes], F32);
    let loss = fed.value(logits.softmax_cross_entropy(label, classes), LAYOUTS);
    assert!(loss.iter().all(|loss| (loss - 6f64.ln()).abs() < 1e-6));
}

#[test]
fn sigmoid_cross_entropy_does_not_overflow() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "sigmoid");
    let x = fed.given("x", "p:6", &[0.0, 2.0, -2.0, 200.0, -200.0, 200.0]);
    let z = fed.given("z", "p:6", &[0.5, 1.0, 0.25, 1.0, 0.0, 0.0]);
    let loss = fed.value(sigmoid_cross_entropy(x, z), &[("", ""), ("a:2", "p:a")]);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let direct = |x: f64, z: f64| -z * sigmoid(x).ln() - (1.0 - z) * (1.0 - sigmoid(x)).ln();
    let want = [2f64.ln(), direct(2.0, 1.0), direct(-2.0, 0.25), 0.0, 0.0, 200.0];
    for (got, want) in loss.iter().zip(want) {
        assert!((got - want).abs() < 1e-6 * want.max(1.0), "{loss}");
    }
}

/// Numbers of Mesh TensorFlow's own test.
#[test]
fn padding_has_no_weight() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "padding");
    let targets = fed.integers("targets", "p:2;q:3", &[3, 1, 0, 1, 0, 0]);
    let loss = fed.given("loss", "p:2;q:3", &[1.0, 2.0, 30.0, 6.0, 40.0, 50.0]);
    let layouts = [("", ""), ("a:2", "p:a"), ("a:3", "q:a")];
    let weights = weights_nonzero(targets, F32);
    let got = fed.value(weights, &layouts);
    assert_eq!(got.iter().copied().collect::<Vec<_>>(), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(fed.value(weighted_mean(loss, weights), &layouts).first(), Some(&3.0));
    let nothing = weights * 0.0;
    assert_eq!(fed.value(weighted_mean(loss, nothing), &layouts).first(), Some(&0.0));
    let rows = fed.given("rows", "p:2", &[0.0, 2.0]);
    assert_eq!(fed.value(weighted_mean(loss, rows), &layouts).first(), Some(&32.0));
}

/// D13 of Mesh TensorFlow: the documentation said that the reduced dim stays; it does not.
#[test]
fn logsumexp_loses_its_dim() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "logsumexp");
    let x = fed.given("x", "p:2;classes:3", &LOGITS.map(|x| x as f32));
    let y = fed.value(x.logsumexp(dim("classes", 3)), LAYOUTS);
    assert_eq!(y.shape(), [2]);
    for (got, x) in y.iter().zip(LOGITS.chunks(3)) {
        assert!((got - log_sum(x)).abs() < 1e-5);
    }
}

const INF: f32 = f32::INFINITY;

/// Infinities, impossible classes and masks: what each loss is there, and that no gradient is NaN.
#[test]
fn losses_at_their_edges() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "edges");
    let layouts = [("", ""), ("a:2", "p:a")];
    let x = fed.given("x", "p:4", &[0.0, INF, -INF, 1e30]);
    let zero = fed.given("zero", "p:4", &[0.0; 4]);
    let half = fed.given("half", "p:4", &[0.5; 4]);
    fn gradient<'g>(loss: Tensor<'g>, of: Tensor<'g>) -> Tensor<'g> {
        loss.graph().gradients(&[loss], &[of], None)[0].unwrap()
    }
    let is = |y: Tensor<'_>, want: [f64; 4]| {
        let got: Vec<_> = fed.value(y, &layouts).iter().copied().collect();
        let near = |got: f64, want: f64| got == want || (got - want).abs() < 1e-6;
        assert!(got.iter().zip(want).all(|(got, want)| near(*got, want)), "{got:?} {want:?}");
    };
    let far = f64::from(1e30_f32);
    let huber = huber_loss(x, zero, 2.0);
    is(huber, [0.0, f64::INFINITY, f64::INFINITY, 2.0 * far]);
    is(gradient(huber, x), [0.0, 2.0, -2.0, 2.0]);
    is(gradient(absolute_error(x, zero), x), [0.0, 1.0, -1.0, 1.0]);
    let infinity = f64::INFINITY;
    let smooth = log_cosh(x, zero);
    is(smooth, [0.0, infinity, infinity, far]);
    is(gradient(smooth, x), [0.0, 1.0, -1.0, 1.0]);
    is(gradient(gradient(smooth, x), x), [1.0, 0.0, 0.0, 0.0]);
    let entropy = sigmoid_cross_entropy(x, half);
    is(entropy, [std::f64::consts::LN_2, infinity, infinity, far / 2.0]);
    is(gradient(entropy, x), [0.0, 0.5, -0.5, 0.5]);
    is(gradient(gradient(entropy, x), x), [0.25, 0.0, 0.0, 0.0]);
    is(gradient(sigmoid_cross_entropy(x, zero), x), [0.5, 1.0, 0.0, 1.0]);

    // Of a certain and a wrong probability.
    let p = g.constant(ndarray::arr1(&[1f32, 0.0, 1.0, 0.0]), [dim("p", 4)]);
    let z = g.constant(ndarray::arr1(&[1f32, 0.0, 0.0, 1.0]), [dim("p", 4)]);
    let entropy = binary_cross_entropy(p, z);
    is(entropy, [0.0, 0.0, 100.0, 100.0]);
    is(gradient(entropy, p), [-1.0, 1.0, 0.0, 0.0]);
}

/// A class that is impossible by target adds nothing, even if the prediction says so, too.
#[test]
fn impossible_classes_add_no_divergence() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "impossible");
    let log_q = fed.given("log_q", "p:2;classes:3", &[-INF, -1.0, -0.5, -2.0, -INF, 0.0]);
    let p = fed.given("p", "p:2;classes:3", &[0.0, 0.5, 0.5, 0.0, 0.0, 1.0]);
    let loss = kl_divergence(log_q, p, dim("classes", 3));
    let got = fed.value(loss, LAYOUTS);
    let want = 0.5 * (0.5_f64.ln() + 1.0) + 0.5 * (0.5_f64.ln() + 0.5);
    assert!((got[[0]] - want).abs() < 1e-6 && got[[1]] == 0.0, "{got}");
    let slopes = g.gradients(&[loss], &[log_q, p], None);
    for slope in slopes {
        assert!(fed.value(slope.unwrap(), LAYOUTS).iter().all(|slope| slope.is_finite()));
    }
}

/// Too few positions for the labels: two equal ones need a blank between them.
#[test]
fn labels_that_cannot_be_spelt_have_an_infinite_loss() {
    let g = mesh_ops::graph();
    let mut fed = Fed::new(&g, "spelt");
    let [time, classes, labels] =
        [("time", 2), ("classes", 3), ("labels", 2)].map(|(n, s)| dim(n, s));
    let logits = fed.given("logits", "p:2;time:2;classes:3", &[0.0; 12]);
    let spelt = fed.integers("spelt", "p:2;labels:2", &[1, 1, 1, 2]);
    let (times, lengths) =
        (fed.integers("times", "p:2", &[2; 2]), fed.integers("n", "p:2", &[2; 2]));
    let loss = Ctc { time, classes, labels, blank: 0 }.apply(logits, spelt, times, lengths);
    let layouts = [("", ""), ("a:2", "p:a"), ("a:2", "labels:a"), ("a:3", "classes:a")];
    let got = fed.value(loss, &layouts);
    assert!(got[[0]] == f64::INFINITY && (got[[1]] - 9f64.ln()).abs() < 1e-6, "{got}");
    let slope = g.gradients(&[loss], &[logits], None)[0].unwrap();
    let got = fed.value(slope, &layouts);
    assert!(got.iter().all(|slope| slope.is_finite()), "{got}");
    assert!(got.iter().take(6).all(|slope| *slope == 0.0), "{got}");
}
