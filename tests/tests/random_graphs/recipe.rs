//! Recipes of random graphs, and the inputs of drawing functions.

use mesh_ops::prelude::*;
use proptest::prelude::*;

/// The sizes of tensors.
#[derive(Debug)]
pub struct Sizes {
    pub dims: [(&'static str, usize); 4],
    /// The most elements of a tensor.
    pub most: usize,
    /// The dims of the first input as masks to choose from; if there are none, any.
    pub first: &'static [u8],
    /// The most ops that are drawn.
    pub picks: usize,
}

pub const SMALL: Sizes =
    Sizes { dims: [("p", 4), ("q", 6), ("r", 8), ("s", 12)], most: 600, first: &[], picks: 12 };

/// A few f32 tensors with three of these dims exceed the second cache, so they are tiled.
pub const LARGE: Sizes = Sizes {
    dims: [("p", 4), ("q", 128), ("r", 288), ("s", 96)],
    most: 150_000,
    // p, q, r; p, q, s; p, r, s.
    first: &[0b0111, 0b1011, 0b1101],
    picks: 8,
};

/// The recipe of an op. Numbers are read modulo what there is, so every recipe is a graph, also
/// after shrinking.
#[derive(Clone, Debug)]
pub struct Pick {
    pub op: u8,
    pub a: u8,
    pub b: u8,
    pub dims: u8,
}

#[derive(Clone, Debug)]
pub struct Recipe {
    pub mesh: u8,
    /// The dims of each input, and whether it is of i32.
    pub inputs: Vec<(u8, bool)>,
    pub picks: Vec<Pick>,
    pub gradients: bool,
    /// Whether the first input is a variable.
    pub trains: bool,
    /// The axes of each dim; the last two those of `params/*` and `slots/*`.
    pub layout: Vec<u8>,
}

pub fn recipes(sizes: &'static Sizes) -> impl Strategy<Value = Recipe> {
    let pick = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let pick = pick.prop_map(|(op, a, b, dims)| Pick { op, a, b, dims });
    (
        any::<u8>(),
        prop::collection::vec((1..16_u8, prop::bool::weighted(0.2)), 1..4),
        prop::collection::vec(pick, 1..sizes.picks),
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 8),
    )
        .prop_map(|(mesh, mut inputs, picks, gradients, trains, layout)| {
            let first = sizes.first.iter().cycle().nth(usize::from(inputs[0].0) - 1);
            inputs[0].0 = first.copied().unwrap_or(inputs[0].0);
            Recipe { mesh, inputs, picks, gradients, trains, layout }
        })
}

impl Sizes {
    /// The dims of a mask, or of half of it if they are too many for one tensor.
    pub fn shape(&self, mask: u8) -> Shape {
        let dims = |mask: u8| {
            let chosen = self.dims.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
            Shape::new(chosen.map(|(_, (name, size))| dim(name, *size))).unwrap()
        };
        let all = dims(mask);
        if all.size() <= self.most { all } else { dims(mask & 3) }
    }
}

/// The inputs of a drawing function: two tensors of the pool, and numbers that choose.
pub struct Draw<'g> {
    pub graph: &'g Graph,
    pub sizes: &'static Sizes,
    pub a: Tensor<'g>,
    pub b: Tensor<'g>,
    pub pick: Pick,
    /// Whether the drawn tensor is differentiated.
    pub gradients: bool,
}

/// A drawing function of an op; `None` if the op does not fit.
pub type Drawn = for<'g> fn(&Draw<'g>) -> Option<Vec<Tensor<'g>>>;

/// A list with this tensor.
pub fn one<'g>(x: Tensor<'g>) -> Option<Vec<Tensor<'g>>> {
    Some(vec![x])
}

impl<'g> Draw<'g> {
    pub fn new(
        graph: &'g Graph,
        sizes: &'static Sizes,
        pool: &[Tensor<'g>],
        pick: &Pick,
        gradients: bool,
    ) -> Self {
        let of = |i: u8| pool[usize::from(i) % pool.len()];
        Self { graph, sizes, a: of(pick.a), b: of(pick.b), pick: pick.clone(), gradients }
    }

    /// Whether a tensor of these dims is not too large.
    pub fn fits(&self, shape: &Shape) -> bool {
        shape.size() <= self.sizes.most
    }

    pub fn is_float(&self) -> bool {
        self.a.dtype().is_float()
    }

    /// A random bit.
    pub fn heads(&self) -> bool {
        self.pick.a.is_multiple_of(2)
    }

    /// The dims of both tensors.
    pub fn all(&self) -> Shape {
        self.a.shape().union(&self.b.shape()).unwrap()
    }

    /// The other tensor, cast to the dtype of the first, if both together are not too large.
    pub fn alike(&self) -> Option<Tensor<'g>> {
        self.fits(&self.all()).then(|| self.b.cast(self.a.dtype()))
    }

    /// A choice of `x` or another tensor, for an op whose gradient is not exact or not continuous.
    pub fn choice(&self, x: Tensor<'g>) -> Tensor<'g> {
        if self.gradients { x.stop_gradient() } else { x }
    }

    /// Some of the dims of a shape.
    pub fn some_of(&self, shape: &Shape) -> Vec<Dimension> {
        let chosen = shape.iter().enumerate().filter(|(i, _)| self.pick.dims >> i & 1 == 1);
        chosen.map(|(_, d)| d).collect()
    }

    /// Some of the first tensor's dims.
    pub fn some_dims(&self) -> Vec<Dimension> {
        self.some_of(&self.a.shape())
    }

    /// One of the first tensor's dims.
    pub fn dim(&self) -> Option<Dimension> {
        let shape = self.a.shape();
        let at = usize::from(self.pick.dims) % shape.rank().max(1);
        shape.iter().nth(at)
    }

    /// One of the first tensor's dims, and where to cut it in two.
    pub fn cut(&self) -> Option<(Dimension, usize)> {
        let d = self.dim().filter(|d| d.size > 1)?;
        Some((d, 1 + usize::from(self.pick.b) % (d.size - 1)))
    }

    /// A dim that the first tensor lacks, if the tensor with it is not too large.
    pub fn other_dim(&self) -> Option<Dimension> {
        let shape = self.a.shape();
        let from = usize::from(self.pick.dims);
        let all = &self.sizes.dims;
        let dims = (0..all.len()).map(|i| all[(from + i) % all.len()]);
        let mut lacking = dims.filter(|(name, _)| !shape.contains((*name).into()));
        let (name, size) = lacking.next()?;
        (shape.size() * size <= self.sizes.most).then(|| dim(name, size))
    }

    /// The other tensor as positions, without one dim.
    pub fn indices(&self, without: Dimension) -> Tensor<'g> {
        let own = self.b.shape().get(without.name);
        self.b.max(own).cast(I32)
    }

    /// A tensor whose dim has a new size, under a name that contains the size.
    pub fn resized(&self, x: Tensor<'g>, d: Dimension) -> Option<Tensor<'g>> {
        let now = x.shape().get(d.name)?;
        let name = format!("{}_{}", d.name, now.size);
        let taken = x.shape().contains(name.as_str().into());
        (!taken).then(|| mesh_ops::rename(x, now, &name))
    }
}
