//! An instance of an op, read from a golden file, built and compared.

use mesh_ops::prelude::*;
use mesh_ops::testing::{Dense, Tolerance, compare, legal_layouts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The mesh, and how many of its legal layouts are run besides one processor. The conformance suite
/// runs every layout; a few are enough here.
const MESH: &str = "a:2;b:2";
const LAYOUTS_MOST: usize = 3;

/// Instances of a builder that differ in the shapes of their inputs.
const SHAPES_LEAST: usize = 3;

/// The files have ten digits, so their numbers are off by at most 5e-10 of an element; rounding in
/// f64 adds up to less than the other half of the tolerance.
const F64_WITHIN: Tolerance = Tolerance::Within(1e-9);

/// The name of an op's instances, and a function that builds one: it returns the outputs in the
/// order of the file.
pub(crate) type Builder = (&'static str, for<'a, 'g> fn(&'a Given<'g>) -> Vec<Tensor<'g>>);

/// The inputs of a builder.
pub(crate) struct Given<'g> {
    pub(crate) graph: &'g Graph,
    /// The inputs.
    pub(crate) x: Vec<Tensor<'g>>,
    /// The dtype of floats in this run.
    pub(crate) float: DType,
    attributes: Value,
}

impl<'g> Given<'g> {
    /// An attribute.
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or_else(|| panic!("no attribute {name}"))
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap()
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.get(name).as_f64().unwrap()
    }

    pub(crate) fn integer(&self, name: &str) -> i64 {
        self.get(name).as_i64().unwrap()
    }

    pub(crate) fn size(&self, name: &str) -> usize {
        self.integer(name).try_into().unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap()
    }

    pub(crate) fn sizes(&self, name: &str) -> Vec<usize> {
        self.get(name).as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
    }

    /// The dim of that name, which some input has.
    pub(crate) fn dim(&self, name: &str) -> Dimension {
        let found = self.x.iter().find_map(|x| x.shape().get(name.into()));
        found.unwrap_or_else(|| panic!("no input has a dim {name}"))
    }

    /// The dim that an attribute names.
    pub(crate) fn along(&self, attribute: &str) -> Dimension {
        self.dim(self.text(attribute))
    }

    /// The dims that an attribute lists.
    pub(crate) fn dims(&self, attribute: &str) -> Vec<Dimension> {
        let names = self.get(attribute).as_array().unwrap();
        names.iter().map(|name| self.dim(name.as_str().unwrap())).collect()
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// The golden files of a folder, in order.
pub(crate) fn files(within: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder().join(within)).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".json"));
    names.sort_unstable();
    names
}

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(path)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What an instance is built by.
fn op(instance: &Value) -> &str {
    instance["name"].as_str().unwrap().split('/').next().unwrap()
}

/// Checks every instance of a file, and every instance at edges.
pub(crate) fn check_family(family: &str, builders: &[Builder]) {
    let (file, edges) = (read(&format!("{family}.json")), read(&format!("edges/{family}.json")));
    let instances = list(&file, "instances");
    for (name, _) in builders {
        let of_it = instances.iter().filter(|instance| op(instance) == *name);
        let shapes: Vec<_> = of_it.map(shapes).collect();
        let different: BTreeSet<_> = shapes.iter().map(|shapes| format!("{shapes:?}")).collect();
        assert!(
            different.len() >= SHAPES_LEAST,
            "{name} in {family}.json has the shapes {shapes:?}"
        );
        let is_odd = |d: &Dimension| d.size > 1 && d.size % 2 == 1;
        let odd = shapes.iter().flatten().flat_map(|shape| shape.iter()).any(|d| is_odd(&d));
        assert!(odd, "{name} in {family}.json has no odd size");
    }
    let mut faults = Vec::new();
    for instance in instances.iter().chain(list(&edges, "instances")) {
        let name = instance["name"].as_str().unwrap();
        match builders.iter().find(|(op_name, _)| op(instance) == *op_name) {
            None => faults.push(format!("{name} has no builder")),
            Some(builder) => {
                let checked = check(instance, builder);
                faults.extend(checked.err().map(|message| format!("{name}: {message}")));
            }
        }
    }
    assert!(faults.is_empty(), "{family}:\n{}", faults.join("\n"));
}

/// The shapes of an instance's inputs.
fn shapes(instance: &Value) -> Vec<Shape> {
    let shape = |input: &Value| input["shape"].as_str().unwrap().parse().unwrap();
    list(instance, "inputs").iter().map(shape).collect()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    // Infinities and NaN are texts.
    let number = |x: &Value| x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap());
    value.as_array().unwrap().iter().map(number).collect()
}

/// The dtype of this kind of elements.
fn dtype_of(value: &Value, float: DType) -> DType {
    match value["kind"].as_str().unwrap() {
        "float" => float,
        "int" => I32,
        _ => Bool,
    }
}

/// An expected result from the file.
struct Wanted {
    what: String,
    sizes: Vec<usize>,
    dtype: DType,
    data: Vec<f64>,
}

fn of_file(output: &Value, float: DType) -> Wanted {
    let sizes = numbers(&output["sizes"]).into_iter().map(|x| x as usize).collect();
    let (dtype, data) = (dtype_of(output, float), numbers(&output["data"]));
    Wanted { what: "output".to_owned(), sizes, dtype, data }
}

fn check(instance: &Value, builder: &Builder) -> Result<(), String> {
    let mut layouts = None;
    for float in [F64, F32] {
        let graph = mesh_ops::graph();
        let fed = build(&graph, instance, builder, float)?;
        let layouts = match &layouts {
            Some(layouts) => layouts,
            None => layouts.insert(some_layouts(&graph)?),
        };
        for layout in layouts {
            fed.compare(&graph, layout)
                .map_err(|message| format!("{float}, layout \"{layout}\": {message}"))?;
        }
    }
    Ok(())
}

/// The layout of one processor, and an even selection of the other legal layouts.
fn some_layouts(graph: &Graph) -> Result<Vec<Layout>, String> {
    let legal = legal_layouts(graph, &MESH.parse().unwrap())?.legal;
    let split = legal.len() - 1;
    if split == 0 {
        return Err(format!("no layout on {MESH} splits it"));
    }
    let chosen = (1..=LAYOUTS_MOST.min(split)).map(|k| k * split / LAYOUTS_MOST.min(split));
    Ok(std::iter::once(0).chain(chosen).map(|k| legal[k].clone()).collect())
}

/// A built instance: the feeds of the function `check`, and its results.
struct Fed {
    inputs: Vec<(String, Array)>,
    wanted: Vec<Wanted>,
    tolerance: Tolerance,
}

fn build(
    graph: &Graph,
    instance: &Value,
    (_, build): &Builder,
    float: DType,
) -> Result<Fed, String> {
    let mut feeds = Feeds { graph, tensors: Vec::new(), arrays: Vec::new() };
    let mut x = Vec::new();
    for input in list(instance, "inputs") {
        let shape: Shape = input["shape"].as_str().unwrap().parse().map_err(|e| format!("{e}"))?;
        let name = input["name"].as_str().unwrap();
        x.push(feeds.feed(name, shape, dtype_of(input, float), &input["data"])?);
    }
    let attributes = instance["attributes"].clone();
    let outputs = build(&Given { graph, x: x.clone(), float, attributes });
    let mut wanted: Vec<_> = list(instance, "outputs").iter().map(|y| of_file(y, float)).collect();
    let mut fetches = outputs.clone();
    // At edges there are values alone.
    let is_smooth = instance["edge"].is_null();
    let x = if is_smooth { x } else { Vec::new() };
    let sloped = if is_smooth { &outputs[..] } else { &[] };
    for (x, gradient, data) in differentiate(&mut feeds, instance, &x, sloped, float)? {
        fetches.push(gradient);
        let (what, sizes) = (format!("gradient of {x:?}"), x.shape().sizes());
        wanted.push(Wanted { what, sizes, dtype: float, data: numbers(data) });
    }
    if fetches.len() != wanted.len() {
        return Err(format!("{} results instead of {}", fetches.len(), wanted.len()));
    }
    graph.declare_function("check", &feeds.tensors, &fetches, Vec::new());
    graph.check().map_err(|report| report.to_string())?;
    // Some ops compute in f32 whatever the dtype of their inputs.
    let rough = float == F32 || instance["attributes"]["computed_in"] == "f32";
    let tolerance = if rough { Tolerance::of(F32) } else { F64_WITHIN };
    Ok(Fed { inputs: feeds.arrays, wanted, tolerance })
}

/// Each float input, its gradient, and the gradient in the file.
fn differentiate<'a, 'g>(
    feeds: &mut Feeds<'g>,
    instance: &'a Value,
    x: &[Tensor<'g>],
    y: &[Tensor<'g>],
    float: DType,
) -> Result<Vec<(Tensor<'g>, Tensor<'g>, &'a Value)>, String> {
    let floats = |all: &[Tensor<'g>]| all.iter().copied().filter(|t| t.dtype() == float).collect();
    let (x, y): (Vec<_>, Vec<_>) = (floats(x), floats(y));
    let (cotangents, wanted) = (list(instance, "cotangents"), list(instance, "gradients"));
    let expected = (y.len(), if y.is_empty() { 0 } else { x.len() });
    if (cotangents.len(), wanted.len()) != expected {
        return Err(format!("not {expected:?} cotangents and gradients"));
    }
    let mut seeds = Vec::new();
    for (y, data) in y.iter().zip(cotangents) {
        seeds.push(feeds.feed(&format!("dy{}", seeds.len()), y.shape(), float, data)?);
    }
    if seeds.is_empty() {
        return Ok(Vec::new());
    }
    let gradients = feeds.graph.gradients(&y, &x, Some(&seeds));
    // A missing gradient is a gradient of zeros.
    let gradients = x.iter().zip(gradients).map(|(x, dx)| dx.unwrap_or_else(|| x.fill_like(0.0)));
    Ok(x.iter().copied().zip(gradients).zip(wanted).map(|((x, dx), data)| (x, dx, data)).collect())
}

/// What is fed to a graph.
struct Feeds<'g> {
    graph: &'g Graph,
    tensors: Vec<Tensor<'g>>,
    arrays: Vec<(String, Array)>,
}

impl<'g> Feeds<'g> {
    fn feed(
        &mut self,
        name: &str,
        shape: Shape,
        dtype: DType,
        data: &Value,
    ) -> Result<Tensor<'g>, String> {
        let tensor = self.graph.input(name, &shape, dtype);
        let dense = Dense { ty: tensor.tensor_type(), data: numbers(data) };
        self.arrays.push((name.to_owned(), dense.to_array()?));
        self.tensors.push(tensor);
        Ok(tensor)
    }
}

impl Fed {
    fn compare(&self, graph: &Graph, layout: &Layout) -> Result<(), String> {
        let one = *layout == Layout::default();
        let mesh = if one { Mesh::single() } else { MESH.parse().unwrap() };
        let module = graph.lower(&mesh, layout).map_err(|report| report.to_string())?;
        let mut session = Session::threads(&module, 0).map_err(|error| error.to_string())?;
        session.set_replica_check(true).unwrap();
        let fed: Vec<_> =
            self.inputs.iter().map(|(name, array)| (name.as_str(), array.view())).collect();
        let results = session.call_named("check", &fed).map_err(|error| error.to_string())?;
        for (i, ((_, got), want)) in results.iter().zip(&self.wanted).enumerate() {
            if (got.dtype(), got.shape()) != (want.dtype, &want.sizes[..]) {
                let (is, should) = ((got.dtype(), got.shape()), (want.dtype, &want.sizes));
                return Err(format!("result {i}, {}, is {is:?}, not {should:?}", want.what));
            }
            let tolerance = if want.dtype.is_float() { self.tolerance } else { Tolerance::Exact };
            compare(got.to_f64(), &want.data, tolerance)
                .map_err(|message| format!("result {i}, {}: {message}", want.what))?;
        }
        Ok(())
    }
}
