//! Parts of a dim that is split: only what other processors have is sent.

use mesh_core::array::Array;
use mesh_ops::prelude::*;
use proptest::prelude::*;

/// Bytes that each processor receives in each permute of a function of `x`, q:12, and of `y`, q:4; f32.
fn permutes(mesh: &str, build: for<'g> fn([Tensor<'g>; 2]) -> Tensor<'g>) -> Vec<u64> {
    let g = mesh_ops::graph();
    let (x, y) = (g.input("x", [dim("q", 12)], F32), g.input("y", [dim("q", 4)], F32));
    g.function("f", [x, y], [build([x, y])], []);
    let module = g.lower(&mesh.parse().unwrap(), &"q:a".parse().unwrap()).unwrap();
    let explain = module.explain();
    let sent = explain.functions[0].collectives().map(|(form, _, bytes)| {
        assert_eq!(form, "permute");
        *bytes
    });
    sent.collect()
}

#[test]
fn what_crosses_borders_is_sent() {
    // Halves that stay, and the half that the second processor lacks.
    assert_eq!(permutes("a:2", |[x, _]| x.slice(dim("q", 6), 3)), [0; 0]);
    assert_eq!(permutes("a:2", |[x, _]| x.slice(dim("q", 6), 0)), [12]);
    // Of 0 to 8 and 8 to 16 the second lacks 8 and 9, which are 4 and 5 of x.
    assert_eq!(permutes("a:2", |[x, _]| x.pad(dim("q", 12), 4, 0)), [8]);
    // The first lacks 6 and 7 of x, the second 0 and 1 of y.
    assert_eq!(permutes("a:2", |[x, y]| x.concat(&[y], "q")), [8, 8]);
    // 2 of 4 to each of two neighbours, in two rounds.
    assert_eq!(permutes("a:2", |[x, _]| x.shift(dim("q", 12), 1, true)), [4]);
    assert_eq!(permutes("a:4", |[x, _]| x.slice(dim("q", 4), 8)), [4, 4]);
}

/// The parts of x that are taken, and how they are put together again.
#[derive(Clone, Debug)]
struct Chain {
    mesh: usize,
    sizes: [usize; 2],
    begin: usize,
    kept: usize,
    low: usize,
    high: usize,
}

fn chains() -> impl Strategy<Value = Chain> {
    (2..6usize).prop_flat_map(|mesh| {
        let size = move |most: usize| (1..=most).prop_map(move |n| n * mesh);
        (size(5), size(3), size(4), 0..100usize, 0..100usize, 0..8usize).prop_map(
            move |(x, y, grown, begin, kept, low)| {
                let kept = (1 + kept % (x / mesh)) * mesh;
                let low = low % (grown + 1);
                let begin = begin % (x - kept + 1);
                Chain { mesh, sizes: [x, y], begin, kept, low, high: grown - low }
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A slice of x, then y, then x padded; with the gradient, which pads, slices and slices.
    #[test]
    fn parts_are_those_of_the_whole(chain in chains()) {
        let Chain { mesh, sizes: [nx, ny], begin, kept, low, high } = chain;
        let g = mesh_ops::graph();
        let (x, y) = (g.input("x", [dim("q", nx)], F32), g.input("y", [dim("q", ny)], F32));
        let parts = [y, x.pad(dim("q", nx), low, high)];
        let all = x.slice(dim("q", kept), begin).concat(&parts, "q");
        let weights = g.input("weights", [all.shape().dims()[0]], F32);
        let dx = g.gradients(&[all], &[x], Some(&[weights]))[0].unwrap();
        g.function("f", [x, y, weights], [all, dx], []);
        let module = g.lower(&format!("a:{mesh}").parse().unwrap(), &"q:a".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 3).unwrap();
        let floats = |n: usize, from: f32| -> Vec<f32> { (0..n).map(|i| from + i as f32).collect() };
        let (fed, other) = (floats(nx, 1.0), floats(ny, 100.0));
        let cotangents = floats(kept + ny + low + nx + high, 1000.0);
        let array = |data: &Vec<f32>| Array::from(ndarray::Array1::from_vec(data.clone()));
        let feeds = [array(&fed), array(&other), array(&cotangents)];
        let named = [("x", feeds[0].view()), ("y", feeds[1].view()), ("weights", feeds[2].view())];
        let got = session.call_named("f", &named).unwrap();
        let data = |array: &Array| -> Vec<f32> { array.to_f64().iter().map(|&x| x as f32).collect() };

        let zeros = |n| vec![0f32; n];
        let whole = [&fed[begin..begin + kept], &other, &zeros(low), &fed, &zeros(high)].concat();
        let mut by_x = cotangents[kept + ny + low..][..nx].to_vec();
        by_x[begin..begin + kept].iter_mut().zip(&cotangents).for_each(|(sum, more)| *sum += more);
        let got: Vec<_> = got.iter().map(|(_, array)| data(array)).collect();
        prop_assert_eq!(&got, &[whole, by_x]);
    }
}
