//! tensor2tensor's Adafactor. t counts steps from 0.

use mesh_ops::prelude::*;
use mesh_optimize::{
    Adafactor, Decay, Factoring, Optimizer, OptimizerConfig, Schedule, step_noise,
};
use ndarray::{ArrayD, IxDyn, arr0};

/// A variable `w` that an optimizer updates, at any step and from any value.
struct Runner {
    session: Session,
    dims: Vec<usize>,
    dtype: DType,
}

impl Runner {
    fn new(optimizer: &dyn Optimizer, dims: &[usize], dtype: DType, layout: &str) -> Self {
        let g = mesh_ops::graph();
        let shape: Vec<_> = ["a", "b", "c"].iter().zip(dims).map(|(a, &n)| dim(a, n)).collect();
        let w = g.variable("w", shape.iter().copied(), dtype, Initializer::ZEROS);
        let grad = g.input("grad", shape, F32);
        let updates = optimizer.apply_grads(&[(Some(grad), w)]);
        g.declare_function("train", &[grad], &[], updates);
        let mesh = if layout.is_empty() { "" } else { "m:2" };
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        Self { session: Session::threads(&module, 0).unwrap(), dims: dims.to_vec(), dtype }
    }

    fn array(&self, values: &[f64]) -> ArrayD<f64> {
        ArrayD::from_shape_vec(IxDyn(&self.dims), values.to_vec()).unwrap()
    }

    /// The variable after step t, which starts from `w` if it is given.
    fn step(&mut self, t: i32, w: Option<&[f64]>, grad: &[f64]) -> Vec<f64> {
        self.session.write("step", &arr0(t)).unwrap();
        if let Some(w) = w {
            let w = self.array(w);
            match self.dtype {
                BF16 => self.session.write("w", &w.mapv(half::bf16::from_f64)).unwrap(),
                _ => self.session.write("w", &w.mapv(|x| x as f32)).unwrap(),
            }
        }
        let grad = self.array(grad).mapv(|x| x as f32);
        self.session.call_named("train", &[("grad", (&grad).into())]).unwrap();
        self.read("w")
    }

    fn read(&self, name: &str) -> Vec<f64> {
        self.session.read(name).unwrap().to_f64().into_iter().collect()
    }

    fn dtype_of(&self, name: &str) -> DType {
        self.session.read(name).unwrap().dtype()
    }
}

/// The scalar that a graph computes from its step, at some steps.
fn of_step(build: impl for<'g> FnOnce(&'g Graph) -> Tensor<'g>, steps: &[i32]) -> Vec<f64> {
    let g = mesh_ops::graph();
    let value = g.function("value", [], [build(&g)], []);
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let at = |&t: &i32| {
        session.write("step", &arr0(t)).unwrap();
        let [value] = session.call(&value, []).unwrap();
        value.item().unwrap()
    };
    steps.iter().map(at).collect()
}

#[track_caller]
fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 3e-6 * want.abs().max(0.01), "{got} not {want}");
    }
}

/// Adafactor whose steps have the size of rate times scale, whatever the gradient: its sign is not
/// divided.
fn signs() -> Adafactor {
    Adafactor { decay: Decay::Given(0.0.into()), ..Adafactor::tensor2tensor() }
}

#[test]
fn row_23_two_presets() {
    let ours = Adafactor::default();
    assert_eq!(ours.factoring, Factoring::TwoLargest { least: 128 });
    assert!(!ours.momentum_in_variable_dtype);
    let theirs = Adafactor::tensor2tensor();
    assert_eq!(theirs.factoring, Factoring::Matrices);
    assert!(theirs.momentum_in_variable_dtype);
    for preset in [&ours, &theirs] {
        assert!(preset.multiply_by_parameter_scale && preset.learning_rate.is_none());
        let numbers = [&preset.epsilon1, &preset.epsilon2, &preset.beta1].map(|x| x.constant());
        assert_eq!(numbers, [1e-30, 1e-3, 0.0].map(Some));
        assert_eq!(preset.clipping_threshold.as_ref().and_then(|x| x.constant()), Some(1.0));
        assert_eq!(preset.quantize_bits, None);
    }
    for (dims, factored) in [(vec![3], false), (vec![2, 3], true), (vec![2, 3, 4], false)] {
        let runner = Runner::new(&theirs, &dims, F32, "");
        let slots: Vec<_> = runner.session.variables().filter(|v| v.starts_with("w/")).collect();
        let want: &[_] =
            if factored { &["w/adafactor_vr", "w/adafactor_vc"] } else { &["w/adafactor_v"] };
        assert_eq!(slots, want, "{dims:?}");
    }
    // Matrices of 127 and 128 columns: the size matters only to the first preset.
    for (size, slots) in [(127, 1), (128, 2)] {
        let runner = Runner::new(&ours, &[size, 200], F32, "");
        assert_eq!(runner.session.variables().filter(|v| v.starts_with("w/")).count(), slots);
    }
}

#[test]
fn row_24_the_step_is_relative() {
    let w = [3.0, -4.0, 0.0, 0.0];
    let root_mean_square = 2.5;
    let unscaled = Adafactor { multiply_by_parameter_scale: false, ..signs() };
    let rated = signs().learning_rate(0.25);
    for (t, rate) in [(0, 0.01), (99, 0.01), (9_999, 0.01), (39_999, 0.005), (999_999, 0.001)] {
        for (optimizer, size) in [
            (signs(), rate * root_mean_square),
            (unscaled.clone(), rate * 0.05),
            (rated.clone(), 0.25 * root_mean_square),
        ] {
            let mut runner = Runner::new(&optimizer, &[4], F32, "a:m");
            let got = runner.step(t, Some(&w), &[0.5, -2.0, 8.0, 0.0]);
            // Clipping divides by the root mean square of three ones and a zero only if it is above
            // 1.
            close(&got, &[3.0 - size, -4.0 + size, -size, 0.0]);
            // A variable at zero changes, too.
            let least =
                if optimizer.multiply_by_parameter_scale { 1e-3 / root_mean_square } else { 1.0 };
            let got = runner.step(t, Some(&[0.0; 4]), &[0.5, -2.0, 8.0, 0.0]);
            close(&got.map_all(1e3), &[-1.0, 1.0, -1.0, 0.0].map(|sign| sign * size * least * 1e3));
        }
    }
}

/// Multiplies the elements by a number.
trait MapAll {
    fn map_all(&self, factor: f64) -> Vec<f64>;
}

impl MapAll for Vec<f64> {
    fn map_all(&self, factor: f64) -> Vec<f64> {
        self.iter().map(|x| x * factor).collect()
    }
}

#[test]
fn row_25_the_decay_of_the_second_moment() {
    let steps = [0, 1, 9, 99, 999];
    let at = |decay: Decay| of_step(move |g| decay.at(g, F64) + 0.0 * g.step().cast(F64), &steps);
    let default = at(Adafactor::tensor2tensor().decay);
    close(&default, &[0.0, 0.4256508, 0.8415107, 0.9748811, 0.9960189]);
    let adam = |t: i32| 0.95 * (1.0 - 0.95_f64.powi(t)) / (1.0 - 0.95_f64.powi(t + 1));
    close(&at(Decay::Adam { beta2: 0.95 }), &steps.map(adam));
    assert_eq!(at(Decay::Adam { beta2: 0.95 })[0], 0.0);
    close(&at(Decay::Given(0.75.into())), &[0.75; 5]);
    let any = Schedule::of_step(|t| t / (t + 1.0));
    close(&at(Decay::Given(any)), &steps.map(|t| f64::from(t) / f64::from(t + 1)));
}

#[test]
fn row_26_the_update() {
    let (w, g) = ([1.0, 2.0, 3.0, 4.0], [1.0, -2.0, 0.5, 4.0]);
    let scale = 0.01 * 7.5_f64.sqrt();
    let updated = |u: [f64; 4]| [0, 1, 2, 3].map(|i| w[i] - scale * u[i]);
    // Factored, at the first step: the means of squares over columns and over rows.
    let (vr, vc): ([f64; 2], [f64; 2]) = ([2.5, 8.125], [0.625, 10.0]);
    let mean = (2.5 + 8.125) / 2.0;
    let u = [0, 1, 2, 3].map(|i: usize| g[i] / (vr[i / 2] / mean).sqrt() / vc[i % 2].sqrt());
    let rms = (u.iter().map(|u| u * u).sum::<f64>() / 4.0).sqrt();
    assert!(rms > 1.1, "{rms} is clipped");
    let u = u.map(|u| u / rms);
    for layout in ["", "a:m", "b:m", "slots/*:m", "params/*:m;slots/*:m"] {
        let mut matrix = Runner::new(&Adafactor::tensor2tensor(), &[2, 2], F32, layout);
        close(&matrix.step(0, Some(&w), &g), &updated(u));
        close(&matrix.read("w/adafactor_vr"), &vr);
        close(&matrix.read("w/adafactor_vc"), &vc);

        // Not factored, clipped: at the second step the mean of squares has a quarter of 16.
        let quarter = Adafactor { decay: Decay::Given(0.75.into()), ..Adafactor::tensor2tensor() };
        let mut vector = Runner::new(&quarter, &[4], F32, &layout.replace("b:", "a:"));
        // Each g² is a quarter of v, so every element of the update is two, and so is its root mean
        // square.
        let clipped = vector.step(0, Some(&w), &g);
        close(&clipped, &updated([1.0, -1.0, 1.0, 1.0]));
        close(&vector.read("w/adafactor_v"), &g.map(|g| g * g / 4.0));
        let higher = Adafactor { clipping_threshold: Some(1.5.into()), ..quarter.clone() };
        let mut vector = Runner::new(&higher, &[4], F32, "");
        close(&vector.step(0, Some(&w), &g), &updated([1.5, -1.5, 1.5, 1.5]));
        let free = Adafactor { clipping_threshold: None, ..quarter };
        let mut vector = Runner::new(&free, &[4], F32, "");
        close(&vector.step(0, Some(&w), &g), &updated([2.0, -2.0, 2.0, 2.0]));
    }
}

#[test]
fn row_27_momentum_of_the_scaled_update() {
    let slow = |preset: Adafactor| Adafactor {
        beta1: 0.75.into(),
        decay: Decay::Given(0.0.into()),
        multiply_by_parameter_scale: false,
        ..preset.learning_rate(0.5)
    };
    for (preset, dtype, kept) in [
        (Adafactor::tensor2tensor(), F32, F32),
        (Adafactor::tensor2tensor(), BF16, BF16),
        (Adafactor::default(), F32, F32),
        (Adafactor::default(), BF16, F32),
    ] {
        let mut runner = Runner::new(&slow(preset), &[2], dtype, "a:m");
        // A quarter of half of the sign; then also three quarters of that. All are exact in bf16.
        assert_eq!(runner.step(0, Some(&[1.0, 1.0]), &[3.0, -5.0]), [0.875, 1.125]);
        assert_eq!(runner.read("w/adafactor_m"), [0.125, -0.125]);
        let second = 0.09375 + 0.125;
        assert_eq!(runner.step(1, Some(&[1.0, 1.0]), &[2.0, -1.0]), [1.0 - second, 1.0 + second]);
        assert_eq!(runner.read("w/adafactor_m"), [second, -second]);
        assert_eq!(runner.dtype_of("w/adafactor_m"), kept);
    }
}

#[test]
fn row_28_ranges() {
    let report = |change: &dyn Fn(&mut Adafactor)| {
        let g = mesh_ops::graph();
        let mut adafactor = Adafactor::tensor2tensor();
        change(&mut adafactor);
        let [a, b] = ["a", "b"].map(|name| g.variable(name, [dim("x", 2)], F32, Initializer::ONES));
        let updates = adafactor.minimize((a.value() * b.value()).sum_all());
        (g.check().err().map(|report| report.to_string()), updates.len())
    };
    type Change = (&'static str, &'static str, fn(&mut Adafactor));
    let illegal: [Change; 11] = [
        ("clipping_threshold is 0.5", "a number from 1 on", |a| {
            a.clipping_threshold = Some(0.5.into())
        }),
        ("clipping_threshold is NaN", "or none", |a| a.clipping_threshold = Some(f64::NAN.into())),
        ("beta1 is -0.5", "a number from 0 to 1", |a| a.beta1 = (-0.5).into()),
        ("beta1 is 1.5", "a number from 0 to 1", |a| a.beta1 = 1.5.into()),
        ("decay is 1", "from 0 to below 1", |a| a.decay = Decay::Given(1.0.into())),
        ("decay is -0.5", "from 0 to below 1", |a| a.decay = Decay::Given((-0.5).into())),
        ("decay beta2 is 1", "from 0 to below 1", |a| a.decay = Decay::Adam { beta2: 1.0 }),
        ("decay exponent is 2", "from 0 to 1", |a| {
            a.decay = Decay::Pow { exponent: 2.0, offset: 0 };
        }),
        ("quantize_bits is 1", "from 2 to 22, or none", |a| a.quantize_bits = Some(1)),
        ("quantize_bits is 23", "from 2 to 22, or none", |a| a.quantize_bits = Some(23)),
        ("epsilon1 is -1", "a number from 0 on", |a| a.epsilon1 = (-1.0).into()),
    ];
    for (what, range, change) in illegal {
        let (report, updates) = report(&change);
        let report = report.unwrap();
        assert!(report.contains(what) && report.contains(range), "{report}");
        assert!(report.contains("seeds/adafactor.rs"), "{report}");
        assert_eq!(report.matches(what).count(), 1, "once for all variables: {report}");
        assert_eq!(updates, 0);
    }
    let legal: [fn(&mut Adafactor); 8] = [
        |a| a.clipping_threshold = Some(1.0.into()),
        |a| a.clipping_threshold = None,
        |a| a.beta1 = 1.0.into(),
        |a| a.decay = Decay::Given(0.0.into()),
        |a| a.decay = Decay::Adam { beta2: 0.0 },
        |a| a.decay = Decay::Pow { exponent: 1.0, offset: 0 },
        |a| a.quantize_bits = Some(2),
        |a| a.quantize_bits = Some(22),
    ];
    for change in legal {
        assert_eq!(report(&change).0, None);
    }
}

#[test]
fn row_29_from_hyper_parameters() {
    let config = |keys: &str| {
        let text = format!(r#"{{"opt_name": "Adafactor", "lr": 0.25{keys}}}"#);
        OptimizerConfig::from_json(&text).map(|config| config.optimizer())
    };
    let theirs = || Adafactor::tensor2tensor().learning_rate(0.25);
    let table: [(&str, Adafactor); 9] = [
        (r#""optimizer_adafactor_decay_type": "pow""#, theirs()),
        (
            r#""optimizer_adafactor_decay_type": "Adam", "optimizer_adafactor_beta2": 0.75"#,
            Adafactor { decay: Decay::Adam { beta2: 0.75 }, ..theirs() },
        ),
        (
            r#""optimizer_adafactor_decay_type": "pow", "optimizer_adafactor_memory_exponent": 0.5"#,
            Adafactor { decay: Decay::Pow { exponent: 0.5, offset: 0 }, ..theirs() },
        ),
        (
            r#""optimizer_adafactor_multiply_by_parameter_scale": false"#,
            Adafactor { multiply_by_parameter_scale: false, ..theirs() },
        ),
        (r#""optimizer_adafactor_beta1": 0.5"#, Adafactor { beta1: 0.5.into(), ..theirs() }),
        (
            r#""optimizer_adafactor_clipping_threshold": 1.25"#,
            Adafactor { clipping_threshold: Some(1.25.into()), ..theirs() },
        ),
        (
            r#""optimizer_adafactor_factored": false"#,
            Adafactor { factoring: Factoring::Never, ..theirs() },
        ),
        (
            r#""simulated_parameter_quantize_bits": 4"#,
            Adafactor { quantize_bits: Some(4), ..theirs() },
        ),
        (r#""simulated_parameter_quantize_bits": 0"#, theirs()),
    ];
    let (w, g) = ([1.0, 2.0, 3.0, 4.0], [1.0, -2.0, 0.5, 4.0]);
    let run = |optimizer: &dyn Optimizer| {
        let mut runner = Runner::new(optimizer, &[2, 2], F32, "");
        runner.step(0, Some(&w), &g);
        runner.step(1, None, &[8.0, 1.0, -2.0, 0.0])
    };
    for (i, (keys, adafactor)) in table.iter().enumerate() {
        let got = run(&*config(&format!(", {keys}")).unwrap());
        assert_eq!(got, run(adafactor), "{keys}");
        let others = table.iter().filter(|(_, other)| run(other) == got).count();
        // The first and the last are the preset; all others differ.
        assert_eq!(others, if [0, 8].contains(&i) { 2 } else { 1 }, "{keys}");
    }
    let refused =
        config(r#", "optimizer_adafactor_decay_type": "linear""#).err().unwrap().to_string();
    for part in ["optimizer_adafactor_decay_type", "linear", "pow", "Adam"] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// The fraction of phi (t+1), by the document's sum over the bits of t+1, and exactly.
fn noise(t: i32) -> f64 {
    let phi = (5_f64.sqrt() - 1.0) / 2.0;
    let bit = |i: i32| f64::from((t + 1) >> i & 1);
    (0..30).map(|i| (phi * 2_f64.powi(i)).fract() * bit(i)).sum::<f64>().fract()
}

#[test]
fn row_30_simulated_quantization() {
    let of_bits = |bits| Adafactor {
        quantize_bits: Some(bits),
        multiply_by_parameter_scale: false,
        ..signs().learning_rate(0.0625)
    };
    let (w, g) = ([1.0, -0.5, 0.25, 2.0, 0.0, -4.0, 1.0, 3.0], [1.0; 8]);
    for bits in [2, 3, 8] {
        for layout in ["", "a:m", "b:m", "slots/*:m", "params/*:m;slots/*:m"] {
            for dtype in [F32, BF16] {
                let mut runner = Runner::new(&of_bits(bits), &[2, 4], dtype, layout);
                for t in 0..20 {
                    let mut want = Vec::new();
                    for row in w.chunks(4) {
                        let row: Vec<f64> = row.iter().map(|x| x - 0.0625).collect();
                        let most = row.iter().fold(0.0_f64, |most, x| most.max(x.abs())) + 1e-9;
                        let scale = most / (2_f64.powi(bits as i32 - 1) - 1.0);
                        want.extend(row.iter().map(|x| (x / scale + noise(t)).floor() * scale));
                    }
                    if dtype == BF16 {
                        // The value is not rounded randomly a second time.
                        want = want.iter().map(|x| half::bf16::from_f64(*x).to_f64()).collect();
                    }
                    close(&runner.step(t, Some(&w), &g), &want);
                }
            }
        }
    }
    // A vector, and a matrix of one column, stay as they are.
    for dims in [vec![8], vec![8, 1]] {
        let got = Runner::new(&of_bits(3), &dims, F32, "").step(5, Some(&w), &g);
        close(&got, &w.map(|x| x - 0.0625));
    }
}

#[test]
fn row_31_the_noise_of_the_step() {
    let steps = [0, 1, 2, 3, 999_999];
    let got = of_step(|g| step_noise(g), &steps);
    for (got, want) in got.iter().zip([0.618034, 0.236068, 0.854102, 0.472136, 0.988750]) {
        assert!((got - want).abs() < 1e-6, "{got} not {want}");
    }
    let many: Vec<_> = (0..1000).map(|i| i * i * 1000 + i).chain([i32::MAX - 1]).collect();
    for (t, got) in many.iter().zip(of_step(|g| step_noise(g), &many)) {
        // phi to 2^-96 in integers.
        let exact = 0x9E37_79B9_7F4A_7C15_F39C_C060_u128 * (*t as u128 + 1) % (1 << 96);
        let exact = (exact >> 32) as f64 / 2_f64.powi(64);
        assert!((0.0..1.0).contains(&got) && (got - exact).abs() < 1e-7, "{got} not {exact}");
        if *t + 1 < 1 << 24 {
            assert!((got - noise(*t)).abs() < 1e-7);
        }
    }
}

#[test]
fn row_32_bf16_parameters_are_rounded_without_bias() {
    let near = |x: f64| half::bf16::from_f64(x).to_f64();
    let w = [1.0, -1.0, 1.5, -3.015625, 0.0078125, 0.25, 100.0, 0.0];
    let g = [1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 0.0];
    let rate = 0.0009765625;
    let steps = Adafactor { multiply_by_parameter_scale: false, ..signs().learning_rate(rate) };
    for layout in ["", "a:m", "params/*:m;slots/*:m"] {
        let mut runner = Runner::new(&steps, &[8], BF16, layout);
        let mut sums = [0.0; 8];
        let count = 500;
        for t in 0..count {
            let got = runner.step(t, Some(&w), &g);
            for i in 0..8 {
                let new = w[i] - rate * g[i];
                let x = new.abs() + 1e-30;
                let first = near(x);
                let second = near(if x > first { first * 1.005 } else { first * 0.995 });
                let up = (x - first) / (second - first) > noise(t);
                let want =
                    if up { second } else { first } * if new == 0.0 { 0.0 } else { new.signum() };
                assert_eq!(got[i], want, "element {i} at step {t}");
                sums[i] += got[i];
            }
        }
        // On average the update is applied, although it is below one rounding.
        for i in 0..8 {
            let mean = sums[i] / f64::from(count);
            let spacing = w[i].abs() / 128.0;
            assert!((mean - (w[i] - rate * g[i])).abs() <= spacing * 0.01, "{i}: {mean}");
        }
    }
}

/// A lookup's gradient is as large as its table, so nothing else is made dense; the numbers are
/// those of a product with one-hot vectors. The guide says what is left out.
#[test]
fn row_33_gradients_of_lookups_are_dense_and_nothing_hinders_fusion() {
    let (words, width, batch) = (dim("words", 8), dim("width", 4), dim("batch", 2));
    let trained = |looked_up: bool, layout: &str| {
        let g = mesh_ops::graph();
        let table = g.variable("w", [words, width], F32, Initializer::ONES);
        let text = g.input("text", [batch], I32);
        let found = match looked_up {
            true => table.value().gather(text, words),
            false => text.one_hot(words, F32).contract(&[table.value()], [words]),
        };
        let scale = g.input("scale", [batch], F32);
        let updates = Adafactor::tensor2tensor().minimize((found * scale).square().sum_all());
        let train = g.function("train", [text, scale], [], updates);
        let module = g.lower(&"m:2".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        for (text, scale) in [([3, 5], [1.0_f32, 2.0]), ([5, 5], [4.0, 0.5]), ([0, 3], [0.25, 1.0])]
        {
            let (text, scale) = (ndarray::arr1(&text), ndarray::arr1(&scale));
            let [] = session.call(&train, [text.view().into(), scale.view().into()]).unwrap();
        }
        ["w", "w/adafactor_vr", "w/adafactor_vc"]
            .map(|name| session.read(name).unwrap().to_f64().into_iter().collect::<Vec<_>>())
    };
    let dense = trained(false, "");
    for layout in ["", "batch:m", "words:m", "batch:m;slots/*:m", "batch:m;params/*:m;slots/*:m"] {
        for (got, want) in trained(true, layout).iter().zip(&dense) {
            close(got, want);
        }
    }
    let path = format!("{}/../docs/from-cross-shard-optimizer.md", env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(path).expect("the guide");
    let heading = "The 1e-30 that is not here";
    assert!(
        guide.lines().any(|line| line.starts_with('#') && line.ends_with(heading)),
        "{heading}"
    );
}
