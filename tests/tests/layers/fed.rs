//! Graphs with their feeds, run under several layouts.

use mesh_core::lower::{Options, Warnings};
use mesh_ops::prelude::*;
use mesh_ops::testing::Random;
use ndarray::ArrayD;

/// Inputs of a graph, with their elements.
pub(crate) struct Fed<'g> {
    graph: &'g Graph,
    random: Random,
    inputs: Vec<(String, Tensor<'g>, Array)>,
}

impl<'g> Fed<'g> {
    /// Nothing is fed yet.
    pub(crate) fn new(graph: &'g Graph, seed: &str) -> Self {
        Self { graph, random: Random::new(seed), inputs: Vec::new() }
    }

    fn add(&mut self, name: &str, shape: &str, array: Array) -> Tensor<'g> {
        let shape: Shape = shape.parse().unwrap();
        let tensor = self.graph.input(name, &shape, array.dtype());
        self.inputs.push((name.to_owned(), tensor, array));
        tensor
    }

    /// An input, and the normally distributed numbers that it is fed.
    pub(crate) fn normal(&mut self, name: &str, shape: &str) -> (Tensor<'g>, ArrayD<f32>) {
        let sizes = shape.parse::<Shape>().unwrap().sizes();
        let random = &mut self.random;
        let mut draw = || (0..3).map(|_| random.float(-1.0, 1.0)).sum::<f64>() as f32;
        let array = ArrayD::from_shape_fn(sizes, |_| draw());
        (self.add(name, shape, array.clone().into()), array)
    }

    /// An input that is fed these floats.
    pub(crate) fn given(&mut self, name: &str, shape: &str, elements: &[f32]) -> Tensor<'g> {
        let sizes = shape.parse::<Shape>().unwrap().sizes();
        let array = ArrayD::from_shape_vec(sizes, elements.to_vec()).unwrap();
        self.add(name, shape, array.into())
    }

    /// An input that is fed these integers.
    pub(crate) fn integers(&mut self, name: &str, shape: &str, elements: &[i32]) -> Tensor<'g> {
        let sizes = shape.parse::<Shape>().unwrap().sizes();
        let array = ArrayD::from_shape_vec(sizes, elements.to_vec()).unwrap();
        self.add(name, shape, array.into())
    }

    /// The values of tensors under a layout; nothing where it is not legal.
    pub(crate) fn values(
        &self,
        ys: &[Tensor<'g>],
        mesh: &str,
        layout: &str,
    ) -> Option<Vec<ArrayD<f64>>> {
        if self.graph.functions().is_empty() {
            let inputs: Vec<_> = self.inputs.iter().map(|(_, tensor, _)| *tensor).collect();
            self.graph.declare_function("values", &inputs, ys, Vec::new());
        }
        self.graph.check().unwrap();
        let (mesh, layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
        let quiet = Options { warnings: Warnings::Keep, ..Options::default() };
        let module = match self.graph.lower_with(&mesh, &layout, &quiet) {
            Ok(module) => module,
            Err(report) => {
                let text = report.to_string();
                assert!(!text.contains("internal error"), "{text}");
                return None;
            }
        };
        let mut session = Session::threads(&module, 0).unwrap();
        session.set_replica_check(true).unwrap();
        let fed: Vec<_> =
            self.inputs.iter().map(|(name, _, array)| (name.as_str(), array.view())).collect();
        let results = session.call_named("values", &fed).unwrap();
        Some(results.iter().map(|(_, array)| array.to_f64().to_owned()).collect())
    }

    /// The value of a tensor under each of these meshes and layouts. All must agree to 1e-5 of the
    /// largest element; the first is returned.
    pub(crate) fn value(&self, y: Tensor<'g>, layouts: &[(&str, &str)]) -> ArrayD<f64> {
        let name = format!("value{}", self.graph.functions().len());
        let inputs: Vec<_> = self.inputs.iter().map(|(_, tensor, _)| *tensor).collect();
        self.graph.declare_function(&name, &inputs, &[y], Vec::new());
        self.graph.check().unwrap();
        let mut first: Option<ArrayD<f64>> = None;
        for (mesh, layout) in layouts {
            let module = self.graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap());
            let module = module.unwrap_or_else(|report| panic!("{layout} on {mesh}: {report}"));
            let mut session = Session::threads(&module, 0).unwrap();
            session.set_replica_check(true).unwrap();
            let fed: Vec<_> =
                self.inputs.iter().map(|(name, _, array)| (name.as_str(), array.view())).collect();
            let results = session.call_named(&name, &fed).unwrap();
            let value = results[0].1.to_f64().to_owned();
            match &first {
                None => first = Some(value),
                Some(first) => near(&value, first, 1e-5, layout),
            }
        }
        first.unwrap()
    }
}

/// Whether two arrays agree to this fraction of the greatest element, or of 1.
#[track_caller]
pub(crate) fn near(got: &ArrayD<f64>, want: &ArrayD<f64>, within: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let finite = want.iter().filter(|x| x.is_finite());
    let scale = finite.fold(1.0, |most: f64, x| most.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got == want || (got - want).abs() <= within * scale;
        assert!(same, "{what}: element {i} is {got}, not {want}");
    }
}
