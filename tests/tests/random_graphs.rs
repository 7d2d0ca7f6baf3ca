//! Random graphs on random meshes under random legal layouts compute what one processor computes,
//! bit for bit, and that is what the reference says.
//!
//! Elements are whole numbers. Each tensor has a bound on the sum of the absolute values of the
//! products that add up to any of its elements; partial sums are below it as well. While it is at
//! most 2^24, f32 is exact in whatever order sums are made.
//!
//! Some graphs train: a variable loses its gradient and a slot gathers it, under `params/` and
//! `slots/` rules of their own.

use mesh_core::graph::{Kind, TensorId, TensorType};
use mesh_core::lower::Module;
use mesh_core::session::Session;
use mesh_ops::elementwise::{abs, cast, greater, less_equal, maximum, minimum, select};
use mesh_ops::prelude::*;
use mesh_ops::testing::{Dense, Fill, Random, Reference, Values, dim_names, options};
use proptest::prelude::*;
use std::collections::BTreeMap;

const EXACT_MOST: f64 = 16_777_216.0;
const ELEMENTS_MOST: usize = 600;
const INPUT_BOUND: i32 = 2;

const DIMS: [(&str, usize); 4] = [("p", 4), ("q", 6), ("r", 8), ("s", 12)];
const MESHES: [&str; 7] = ["a:2", "a:3", "a:4", "a:2;b:2", "a:2;b:3", "a:2;b:4", "a:2;b:2;c:2"];

/// One op, read modulo what there is: every recipe is a graph, and shrinking keeps it one.
#[derive(Clone, Debug)]
struct Pick {
    op: u8,
    a: u8,
    b: u8,
    dims: u8,
}

#[derive(Clone, Debug)]
struct Recipe {
    mesh: u8,
    /// Dims and dtype of each input.
    inputs: Vec<(u8, bool)>,
    picks: Vec<Pick>,
    gradients: bool,
    /// Whether the first input is a variable.
    trains: bool,
    /// The axes of each dim; the last two those of `params/*` and `slots/*`.
    layout: Vec<u8>,
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let pick = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let pick = pick.prop_map(|(op, a, b, dims)| Pick { op, a, b, dims });
    (
        any::<u8>(),
        prop::collection::vec((1..16_u8, prop::bool::weighted(0.2)), 1..4),
        prop::collection::vec(pick, 1..12),
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 8),
    )
        .prop_map(|(mesh, inputs, picks, gradients, trains, layout)| Recipe {
            mesh,
            inputs,
            picks,
            gradients,
            trains,
            layout,
        })
}

/// The dims of a mask.
fn dims(mask: u8) -> Vec<Dimension> {
    let chosen = DIMS.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
    chosen.map(|(_, (name, size))| dim(name, *size)).collect()
}

/// The dims of a tensor that a mask chooses.
fn some_dims(x: Tensor<'_>, mask: u8) -> Vec<Dimension> {
    x.shape().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, d)| d).collect()
}

fn union(a: Tensor<'_>, b: Tensor<'_>) -> Vec<Dimension> {
    a.shape().union(&b.shape()).unwrap().iter().collect()
}

fn apply<'g>(pool: &[Tensor<'g>], pick: &Pick, gradients: bool) -> Option<Tensor<'g>> {
    let of = |i: u8| pool[usize::from(i) % pool.len()];
    let (a, b) = (of(pick.a), of(pick.b));
    let size = |dims: &[Dimension]| dims.iter().map(|d| d.size).product::<usize>();
    let all = union(a, b);
    let fits = size(&all) <= ELEMENTS_MOST;
    let alike = cast(b, a.dtype());
    let float = a.dtype() == F32;
    // Their gradients divide, which is not exact.
    let choice = |x: Tensor<'g>| if gradients { x.stop_gradient() } else { x };
    let chosen = choice(a);
    let some_dim = some_dims(a, pick.dims).first().copied();
    Some(match pick.op % 24 {
        0 if fits => a + alike,
        1 if fits => a - alike,
        2 | 3 if fits => a * alike,
        4 if float => a.relu(),
        5 => -a,
        6 => a.sum(some_dims(a, pick.dims)),
        7 => chosen.max(some_dims(a, pick.dims)),
        8 => chosen.min(some_dims(a, pick.dims)),
        9..=11 if fits => {
            let kept = all.iter().enumerate().filter(|(i, _)| pick.dims >> i & 1 == 1);
            let kept: Vec<_> = kept.map(|(_, d)| *d).collect();
            a.einsum(&[alike], kept)
        }
        12 => {
            let more: Vec<_> =
                dims(pick.dims).into_iter().filter(|d| !a.shape().contains(d.name)).collect();
            let shape = Shape::new(more.into_iter().chain(&a.shape())).unwrap();
            if shape.size() > ELEMENTS_MOST {
                return None;
            }
            a.broadcast(&shape)
        }
        13 => {
            let mut order: Vec<_> = a.shape().iter().collect();
            let by = usize::from(pick.dims) % order.len().max(1);
            order.rotate_left(by);
            a.transpose(order)
        }
        14 => cast(a, if float { I32 } else { F32 }),
        15 if fits => {
            let test = if pick.dims.is_multiple_of(2) { greater } else { less_equal };
            cast(test(a, alike), F32)
        }
        16 if fits => maximum(chosen, choice(alike)),
        17 if fits => minimum(chosen, choice(alike)),
        18 => abs(a),
        19 if fits => select(greater(a, alike), alike, a),
        20 => {
            let d = some_dim?;
            let offset = i64::from(pick.b % 16) - 8;
            mesh_ops::shift(a, d, offset, pick.a.is_multiple_of(2))
        }
        21 => {
            // Cut in two, and the parts swapped.
            let d = some_dim?;
            let cut = 1 + usize::from(pick.b) % (d.size - 1);
            let head = mesh_ops::slice(a, d.resized(cut), 0);
            let tail = mesh_ops::slice(a, d.resized(d.size - cut), cut);
            mesh_ops::concat(tail, &[head], d.name)
        }
        22 => {
            // The end replaced by zeros, or the beginning.
            let d = some_dim?;
            let cut = 1 + usize::from(pick.b) % (d.size - 1);
            let kept = d.resized(d.size - cut);
            let (begin, low) = if pick.a.is_multiple_of(2) { (0, 0) } else { (cut, cut) };
            mesh_ops::pad(mesh_ops::slice(a, kept, begin), kept, low, cut - low)
        }
        23 => {
            // Flat and back, with something done meanwhile.
            let flat = [dim(&format!("flat{}", a.shape().size()), a.shape().size())];
            let there = mesh_ops::reshape(a, flat);
            mesh_ops::reshape(there + there.sum(flat), a.shape())
        }
        _ => return None,
    })
}

/// For every tensor: the bound of the module's comment.
fn bounds(graph: &Graph) -> BTreeMap<TensorId, f64> {
    let mut bounds = BTreeMap::new();
    for operation in graph.operations() {
        let Some(&output) = operation.outputs.first() else { continue };
        let x: Vec<f64> = operation.inputs.iter().map(|t| bounds[t]).collect();
        let size = |t: &TensorId| graph.type_of(*t).shape.size() as f64;
        let terms = || {
            let shapes = operation.inputs.iter().map(|t| graph.type_of(*t).shape);
            let all = shapes.fold(Shape::scalar(), |all, s| all.union(&s).unwrap());
            all.size() as f64 / size(&output).min(all.size() as f64)
        };
        let greatest = x.iter().fold(0.0, |most: f64, &x| most.max(x));
        let bound = match (&operation.kind, operation.op.name()) {
            (Kind::Input(_) | Kind::Read(_), _) => f64::from(INPUT_BOUND),
            (Kind::Fill(value), _) => value.abs(),
            (_, "add" | "sub") => x[0] + x[1],
            (_, "mul") => x[0] * x[1],
            (_, "einsum") => x[0] * x[1] * terms(),
            (_, "sum") => x[0] * terms(),
            (_, "equal" | "greater" | "less_equal") => 1.0,
            (_, "sign") => 1.0,
            (Kind::Identity, _)
            | (_, "neg" | "relu" | "relu_gradient" | "max" | "min" | "broadcast" | "transpose")
            | (_, "cast" | "maximum" | "minimum" | "abs" | "select" | "select_gradient")
            | (_, "shift" | "slice" | "concat" | "pad" | "reshape") => greatest,
            _ => f64::INFINITY,
        };
        bounds.insert(output, bound);
    }
    bounds
}

struct Trial {
    graph: Graph,
    feeds: Values,
    variables: Values,
}

/// Whether everything on the way to a tensor is exact.
fn exact(graph: &Graph, tensor: TensorId) -> bool {
    let bounds = bounds(graph);
    let mut needed = vec![tensor];
    graph.operations().iter().rev().all(|operation| {
        if !operation.outputs.iter().any(|t| needed.contains(t)) {
            return true;
        }
        needed.extend(&operation.inputs);
        operation.outputs.iter().all(|t| bounds[t] <= EXACT_MOST)
    })
}

fn build(recipe: &Recipe) -> Trial {
    let graph = mesh_ops::graph();
    let mut random = Random::new("random graphs");
    let (mut feeds, mut variables) = (Values::new(), Values::new());
    {
        let (mut inputs, mut fed, mut trained) = (Vec::new(), Vec::new(), None);
        for (i, (mask, whole)) in recipe.inputs.iter().enumerate() {
            let shape = Shape::new(dims(*mask)).unwrap();
            // All four dims are too many.
            let fits = shape.size() <= ELEMENTS_MOST;
            let shape = if fits { shape } else { Shape::new(dims(*mask & 3)).unwrap() };
            let ty = TensorType::new(shape, if *whole { I32 } else { F32 });
            let fill = Fill::Integers(-INPUT_BOUND, INPUT_BOUND);
            let value = fill.draw(&ty, &mut random).unwrap();
            if i == 0 && recipe.trains && !whole {
                let variable = graph.variable("v", &ty.shape, F32, Initializer::ZEROS);
                trained = Some(variable);
                inputs.push(variable.value());
                variables.insert("v".to_owned(), value);
            } else {
                let name = format!("x{i}");
                inputs.push(graph.input(&name, &ty.shape, ty.dtype));
                fed.push(inputs[i]);
                feeds.insert(name, value);
            }
        }
        let mut pool = inputs.clone();
        for pick in &recipe.picks {
            let Some(result) = apply(&pool, pick, recipe.gradients) else { continue };
            if exact(&graph, result.id()) {
                pool.push(result);
            }
        }
        let mut fetches: Vec<_> = pool.iter().rev().take(2).copied().collect();
        let mut updates = Vec::new();
        let last = pool.iter().rposition(|t| t.dtype() == F32);
        if let (true, Some(last)) = (recipe.gradients, last) {
            let loss = pool[last].sum_all();
            let grads = graph.gradients(&[loss], &inputs, None);
            let of_variable = grads[0].filter(|grad| exact(&graph, grad.id()));
            let exact = grads.into_iter().flatten().filter(|grad| exact(&graph, grad.id()));
            fetches.extend(exact);
            if let (Some(v), Some(grad)) = (trained, of_variable) {
                // Fetched, the sum would be settled for the fetch.
                fetches.retain(|t| t.id() != grad.id());
                let ty = v.value().tensor_type();
                let slot = v.slot("m", &ty.shape, F32, Initializer::ONES);
                updates.extend([v.assign_sub(grad), slot.assign_add(grad)]);
                variables.insert("v/m".to_owned(), Dense::filled(ty, 1.0));
                let step = TensorType::new(Shape::scalar(), I32);
                variables.insert("step".to_owned(), Dense::zeros(step));
            }
        }
        graph.declare_function("f", &fed, &fetches, updates);
    }
    graph.check().unwrap();
    Trial { graph, feeds, variables }
}

/// As much of a layout as is legal, rule by rule.
fn legal_part(graph: &Graph, mesh: &Mesh, picks: &[u8]) -> (String, Module) {
    let (options, (picks, state)) = (options(mesh), picks.split_at(picks.len() - 2));
    let mut rules: Vec<_> = dim_names(graph)
        .into_iter()
        .zip(picks.iter().cycle())
        .map(|(name, &pick)| (name.to_string(), pick))
        .collect();
    if !graph.variable_names().is_empty() {
        rules.extend([("params/*".to_owned(), state[0]), ("slots/*".to_owned(), state[1])]);
    }
    let mut layout = String::new();
    let mut module = graph.lower(mesh, &Layout::default()).unwrap();
    for (target, pick) in rules {
        // The first of a few that is legal.
        for axes in options.iter().cycle().skip(usize::from(pick) % options.len()).take(3) {
            let owner = match pick / 64 {
                0 if target.ends_with('*') && !axes.contains('+') => "@each",
                1 if target.ends_with('*') && !axes.contains('+') => "@1",
                _ => "",
            };
            if axes.is_empty() {
                break;
            }
            let more =
                format!("{layout};{target}:{axes}{owner}").trim_start_matches(';').to_owned();
            if let Ok(lowered) = graph.lower(mesh, &more.parse().unwrap()) {
                (layout, module) = (more, lowered);
                break;
            }
        }
    }
    (layout, module)
}

/// Fetches, then variables.
fn run(module: &Module, trial: &Trial) -> Vec<Array> {
    let mut session = Session::threads(module, 0).unwrap();
    session.set_replica_check(true);
    for (name, value) in &trial.variables {
        session.write(name, &value.to_array().unwrap()).unwrap();
    }
    let slots = module.functions[0].program.feeds.iter();
    let fed: Vec<_> =
        slots.map(|s| (s.name.as_str(), trial.feeds[&s.name].to_array().unwrap())).collect();
    let fed: Vec<_> = fed.iter().map(|(name, array)| (*name, array.view())).collect();
    let fetched = session.call_named("f", &fed).unwrap();
    let mut all: Vec<_> = fetched.into_iter().map(|(_, array)| array).collect();
    all.extend(trial.variables.keys().map(|name| session.read(name).unwrap()));
    all
}

fn expected(trial: &Trial) -> Vec<Array> {
    let call = Reference::new(&trial.graph).call("f", &trial.feeds, &trial.variables).unwrap();
    let after = |(name, before)| call.updated.get(name).unwrap_or(before);
    let values = call.fetches.iter().chain(trial.variables.iter().map(after));
    values.map(|value| value.to_array().unwrap()).collect()
}

fn agree(recipe: &Recipe) -> Result<(), TestCaseError> {
    let trial = build(recipe);
    let alone = run(&trial.graph.lower(&Mesh::single(), &Layout::default()).unwrap(), &trial);
    prop_assert_eq!(&alone, &expected(&trial), "one processor and the reference");
    let mesh: Mesh = MESHES[usize::from(recipe.mesh) % MESHES.len()].parse().unwrap();
    let (layout, module) = legal_part(&trial.graph, &mesh, &recipe.layout);
    prop_assert_eq!(&run(&module, &trial), &alone, "mesh {} layout {}", mesh, layout);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn layouts_change_nothing(recipe in recipes()) {
        agree(&recipe)?;
    }
}
