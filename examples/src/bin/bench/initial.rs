//! Initial values and batches: those of the peers from a file, or our own from the same
//! distributions.

use super::models::CNN_BATCH;
use super::workload::Workload;
use examples::Rng;
use mesh_ops::prelude::*;
use ndarray::{Array1, Array2, ArrayD, Axis, IxDyn};
use safetensors::{Dtype, SafeTensors};
use std::error::Error;
use std::path::Path;

/// The number of batches that stay in memory and are used in turn, so that no input pipeline is
/// timed.
pub(crate) const POOL: usize = 8;

/// The longest file that is read, in bytes.
const LONGEST: usize = 1 << 32;

/// The inputs of a training step: examples and their targets.
pub(crate) struct Batch {
    pub(crate) input: Array,
    pub(crate) target: Array,
}

/// Sets the variables to the values that `examples/bench/initial.py` wrote, and returns its
/// batches.
pub(crate) fn read(
    folder: &Path,
    workload: Workload,
    module: &Module,
    session: &mut Session,
    shapes: [&[usize]; 2],
) -> Result<Vec<Batch>, Box<dyn Error>> {
    let path = folder.join(workload.data()).with_extension("safetensors");
    let named = |problem: &dyn std::fmt::Display| format!("--init {}: {problem}", path.display());
    let bytes = mesh_core::files::read(&path, LONGEST).map_err(|e| named(&e))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| named(&e))?;
    let floats = |name: &str, shape: &[usize]| {
        tensor(&tensors, name, Dtype::F32, shape, f32::from_le_bytes).map_err(|e| named(&e))
    };
    let integers = |name: &str, shape: &[usize]| {
        tensor(&tensors, name, Dtype::I32, shape, i32::from_le_bytes).map_err(|e| named(&e))
    };
    for variable in module.variables().iter().filter(|v| v.trainable) {
        session.write(&variable.name, &floats(&variable.name, &variable.shape.sizes())?)?;
    }
    let pool = |shape: &[usize]| [&[POOL], shape].concat();
    let input: Vec<Array> = match workload {
        Workload::LmAdamw | Workload::LmAdafactor | Workload::LmMuon => {
            cut(integers("batches/x", &pool(shapes[0]))?)
        }
        _ => cut(floats("batches/x", &pool(shapes[0]))?),
    };
    let target = cut(integers("batches/y", &pool(shapes[1]))?);
    let pairs = input.into_iter().zip(target);
    Ok(pairs.map(|(input, target)| Batch { input, target }).collect())
}

fn cut<T: Clone>(pool: ArrayD<T>) -> Vec<Array>
where
    Array: From<ArrayD<T>>,
{
    pool.axis_iter(Axis(0)).map(|batch| Array::from(batch.to_owned())).collect()
}

/// A tensor's elements under other dims. Numpy's row-major order is ours, too.
fn tensor<T>(
    tensors: &SafeTensors<'_>,
    name: &str,
    dtype: Dtype,
    shape: &[usize],
    element: fn([u8; 4]) -> T,
) -> Result<ArrayD<T>, String> {
    let found = tensors.tensor(name).map_err(|error| error.to_string())?;
    if found.dtype() != dtype {
        return Err(format!("`{name}` is of {}, not {dtype}", found.dtype()));
    }
    let (words, _) = found.data().as_chunks::<4>();
    let elements = words.iter().map(|&word| element(word)).collect();
    ArrayD::from_shape_vec(IxDyn(shape), elements)
        .map_err(|_| format!("`{name}` has shape {:?}, not {shape:?}", found.shape()))
}

/// Batches drawn from the peers' distributions.
pub(crate) fn draw(workload: Workload, vocab: usize, shapes: [&[usize]; 2]) -> Vec<Batch> {
    let mut rng = Rng::keyed(1, 0, 0);
    match workload {
        Workload::LmAdamw | Workload::LmAdafactor | Workload::LmMuon => {
            text(&mut rng, vocab, shapes[0])
        }
        Workload::Resnet18 | Workload::Mobilenet | Workload::Vit | Workload::Unet => {
            images(&mut rng, shapes)
        }
        _ => digits(&mut rng, shapes),
    }
}

/// A problem with ten classes that can be learned, in the shape of MNIST.
fn digits(rng: &mut Rng, [image, _]: [&[usize]; 2]) -> Vec<Batch> {
    let batch = image.first().copied().unwrap_or(CNN_BATCH);
    let centers = Array2::from_shape_simple_fn((10, 784), || rng.unit());
    let one = |_| {
        let labels = Array1::from_shape_simple_fn(batch, || rng.below(10));
        let near = |(i, j): (usize, usize)| 0.5 * centers[[labels[i], j]] + 0.5 * rng.unit();
        let images = Array2::from_shape_fn((batch, 784), near);
        let target = labels.mapv(|label| label as i32).into();
        // The image's dims may differ; the number of elements is the same.
        let input = images.into_shape_with_order(IxDyn(image));
        Batch { input: input.map_or_else(|_| Array::zeros(F32, image), Array::from), target }
    };
    (0..POOL).map(one).collect()
}

/// Noise, and labels in turn.
fn images(rng: &mut Rng, [image, label]: [&[usize]; 2]) -> Vec<Batch> {
    let input = ArrayD::from_shape_simple_fn(image, || rng.unit() - 0.5);
    let mut labels = (0..10).cycle();
    let target = ArrayD::from_shape_simple_fn(label, || labels.next().unwrap_or(0));
    vec![Batch { input: input.into(), target: target.into() }]
}

/// Token numbers whose logarithms are evenly distributed.
fn text(rng: &mut Rng, vocab: usize, shape: &[usize]) -> Vec<Batch> {
    let [batch, length] = [0, 1].map(|dim| shape.get(dim).copied().unwrap_or(1));
    let one = |_| {
        let mut word = || (vocab as f32).powf(rng.unit()) as i32 - 1;
        let words = Array2::from_shape_simple_fn((batch, length + 1), &mut word);
        let part = |from: usize| words.slice(ndarray::s![.., from..from + length]).to_owned();
        Batch { input: part(0).into(), target: part(1).into() }
    };
    (0..POOL).map(one).collect()
}
