//! Timings, printed; run by hand.
use super::contract::operand;
use super::{Block, Memory, Tensor, id, prepare, program, whole};
use crate::names::{DType, Mesh, ReduceKind};
use crate::program::*;
use smallvec::smallvec;
use std::time::Instant;

fn time(name: &str, inputs: &[Value], outs: &[Value], step: &Step, work: f64, unit: &str) {
    let tensors: Vec<Tensor> = inputs.iter().map(|v| whole(v, 3)).collect();
    let program = program(&tensors, outs);
    let kernel = prepare(&program, step, &Mesh::single(), 0, 7).unwrap().unwrap();
    let blocks: Vec<_> = program.values.iter().map(|v| Block::new(v.bytes())).collect();
    let memory = Memory { pointers: blocks.iter().map(Block::pointer).collect() };
    for (t, &p) in tensors.iter().zip(&memory.pointers) {
        unsafe { t.write(p) };
    }
    let scratch = Block::new(kernel.scratch_bytes());
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut n = 0;
    while n < 3 || start.elapsed().as_secs_f64() < 0.25 {
        let t = Instant::now();
        unsafe { kernel.run(&memory, scratch.pointer()) };
        best = best.min(t.elapsed().as_secs_f64());
        n += 1;
    }
    println!(
        "{name:40} {:10.1} us  {:8.2} {unit}  scratch {} KiB",
        best * 1e6,
        work / best / 1e9,
        kernel.scratch_bytes() / 1024
    );
}

fn f32s(extents: &[usize]) -> Value {
    Value::new(DType::F32, extents.iter().copied())
}

fn map(name: &str, expr: Expr, ins: &[(&[usize], &[u8])], out: &[usize]) {
    let values: Vec<_> = ins.iter().map(|i| f32s(i.0)).collect();
    let body = Body::new(&vec![DType::F32; ins.len()], &[(expr, DType::F32)]).unwrap();
    let inputs = ins.iter().enumerate().map(|(i, x)| operand(i, x.1)).collect();
    let step = Step::Map { body, inputs, outs: smallvec![id(ins.len())] };
    let n: usize = out.iter().product();
    time(name, &values, &[f32s(out)], &step, n as f64, "Gelem/s");
}

#[test]
fn speeds() {
    let x = || Expr::input(0);
    let y = || Expr::input(1);
    println!("isa {:?}", super::super::isa::isa());
    map("add 4k", x() + y(), &[(&[4096], &[0]), (&[4096], &[0])], &[4096]);
    map("add 1M", x() + y(), &[(&[1 << 20], &[0]), (&[1 << 20], &[0])], &[1 << 20]);
    map("exp 4k", x().exp(), &[(&[4096], &[0])], &[4096]);
    map("log 4k", x().log(), &[(&[4096], &[0])], &[4096]);
    map("tanh 4k", x().tanh(), &[(&[4096], &[0])], &[4096]);
    map("logistic 4k", x().logistic(), &[(&[4096], &[0])], &[4096]);
    map("sin 4k", x().sin(), &[(&[4096], &[0])], &[4096]);
    map("scalar", x() + y(), &[(&[], &[]), (&[], &[])], &[]);
    map(
        "relu(x+b) [720000,16]+[16]",
        (x() + y()).max(0.0),
        &[(&[72000, 16], &[0, 1]), (&[16], &[1])],
        &[72000, 16],
    );
    map(
        "x-m [4096,128]-[4096]",
        x() - y(),
        &[(&[4096, 128], &[0, 1]), (&[4096], &[0])],
        &[4096, 128],
    );
    map(
        "x+y^T 1024",
        x() + y(),
        &[(&[1024, 1024], &[0, 1]), (&[1024, 1024], &[1, 0])],
        &[1024, 1024],
    );
    let (m, v, g, p) = (Expr::input(0), Expr::input(1), Expr::input(2), Expr::input(3));
    let m2 = 0.9 * m + 0.1 * g.clone();
    let v2 = 0.999 * v + 0.001 * g.clone() * g;
    let e = p - 0.001 * m2 / (v2.sqrt() + 1e-8);
    let n: &[usize] = &[784 * 512];
    map("adam-like 400k", e, &[(n, &[0]), (n, &[0]), (n, &[0]), (n, &[0])], n);
    for (name, ins, dims, out) in [
        ("sum 1M", &[1 << 20][..], &[0_u8][..], &[][..]),
        ("sum rows [4096,256]->4096", &[4096, 256], &[0, 1], &[4096]),
        ("sum rows [1024,10]->1024", &[1024, 10], &[0, 1], &[1024]),
        ("sum cols [4096,256]->256", &[4096, 256], &[1, 0], &[256]),
        ("bias [156800,16]->16", &[156_800, 16], &[1, 0], &[16]),
        ("sum middle [64,256,64]", &[64, 256, 64], &[0, 2, 1], &[64, 64]),
    ] {
        for kind in [ReduceKind::Sum, ReduceKind::Max] {
            let step = Step::Reduce { kind, input: operand(0, dims), out: id(1) };
            let len: usize = ins.iter().product();
            time(
                &format!("{kind} {name}"),
                &[f32s(ins)],
                &[f32s(out)],
                &step,
                len as f64,
                "Gelem/s",
            );
        }
    }
    for [m, n, k] in [
        [128, 512, 784],
        [128, 10, 512],
        [1024, 512, 784],
        [512, 512, 512],
        [4, 4, 4],
        [16, 16, 16],
        [1, 512, 784],
        [512, 1, 784],
        [784, 512, 1],
    ] {
        for (t, ls, ld, rs, rd) in [
            ("NN", [m, k], [0_u8, 2], [k, n], [2_u8, 1]),
            ("TN", [k, m], [2, 0], [k, n], [2, 1]),
            ("NT", [m, k], [0, 2], [n, k], [1, 2]),
        ] {
            let step = Step::Contract { lhs: operand(0, &ld), rhs: operand(1, &rd), out: id(2) };
            time(
                &format!("{t} {m}x{n}x{k}"),
                &[f32s(&ls), f32s(&rs)],
                &[f32s(&[m, n])],
                &step,
                2.0 * (m * n * k) as f64,
                "GFLOP/s",
            );
        }
    }
    // Attention logits: b q h d, b k h d -> b h q k.
    let step = Step::Contract {
        lhs: operand(0, &[0, 2, 1, 4]),
        rhs: operand(1, &[0, 3, 1, 4]),
        out: id(2),
    };
    time(
        "attention",
        &[f32s(&[8, 128, 4, 64]), f32s(&[8, 128, 4, 64])],
        &[f32s(&[8, 4, 128, 128])],
        &step,
        2.0 * (8 * 4 * 128 * 128 * 64) as f64,
        "GFLOP/s",
    );
    for c in [1, 16] {
        let w = |i, k, o| Window { input: i, kernel: k, output: o, stride: 1, dilation: 1, pad: 0 };
        let flop = 2.0 * (280 * 49 * 81 * c * 16) as f64;
        let (i, k, o) = (f32s(&[280, 15, 15, c]), f32s(&[9, 9, c, 16]), f32s(&[280, 7, 7, 16]));
        // forward: out n y x f = 0 1 2 3; image 0 4 5 6; kernel 7 8 6 3
        let step = Step::Convolve {
            lhs: operand(0, &[0, 4, 5, 6]),
            rhs: operand(1, &[7, 8, 6, 3]),
            windows: smallvec![w(4, 7, 1), w(5, 8, 2)],
            out: id(2),
        };
        time(
            &format!("conv fwd c={c}"),
            &[i.clone(), k.clone()],
            &[o.clone()],
            &step,
            flop,
            "GFLOP/s",
        );
        // input gradient: out n y x c = 0 1 2 3; dy 0 4 5 6; kernel 7 8 3 6
        let step = Step::Convolve {
            lhs: operand(0, &[0, 4, 5, 6]),
            rhs: operand(1, &[7, 8, 3, 6]),
            windows: smallvec![w(1, 7, 4), w(2, 8, 5)],
            out: id(2),
        };
        time(
            &format!("conv igrad c={c}"),
            &[o.clone(), k.clone()],
            &[i.clone()],
            &step,
            flop,
            "GFLOP/s",
        );
        // kernel gradient: out ky kx c f = 0 1 2 3; image 4 5 6 2; dy 4 7 8 3
        let step = Step::Convolve {
            lhs: operand(0, &[4, 5, 6, 2]),
            rhs: operand(1, &[4, 7, 8, 3]),
            windows: smallvec![w(5, 0, 7), w(6, 1, 8)],
            out: id(2),
        };
        time(&format!("conv kgrad c={c}"), &[i, o], &[k], &step, flop, "GFLOP/s");
    }
    // A usual 3x3 convolution with padding.
    let w = |i, k, o| Window { input: i, kernel: k, output: o, stride: 1, dilation: 1, pad: 1 };
    let flop = 2.0 * (4 * 28 * 28 * 9 * 64 * 64) as f64;
    let (i, k, o) = (f32s(&[4, 28, 28, 64]), f32s(&[3, 3, 64, 64]), f32s(&[4, 28, 28, 64]));
    let step = Step::Convolve {
        lhs: operand(0, &[0, 4, 5, 6]),
        rhs: operand(1, &[7, 8, 6, 3]),
        windows: smallvec![w(4, 7, 1), w(5, 8, 2)],
        out: id(2),
    };
    time("conv 3x3 same fwd", &[i.clone(), k.clone()], &[o.clone()], &step, flop, "GFLOP/s");
    let step = Step::Convolve {
        lhs: operand(0, &[0, 4, 5, 6]),
        rhs: operand(1, &[7, 8, 3, 6]),
        windows: smallvec![w(1, 7, 4), w(2, 8, 5)],
        out: id(2),
    };
    time("conv 3x3 same igrad", &[o.clone(), k.clone()], &[i.clone()], &step, flop, "GFLOP/s");
    let step = Step::Convolve {
        lhs: operand(0, &[4, 5, 6, 2]),
        rhs: operand(1, &[4, 7, 8, 3]),
        windows: smallvec![w(5, 0, 7), w(6, 1, 8)],
        out: id(2),
    };
    time("conv 3x3 same kgrad", &[i, o], &[k], &step, flop, "GFLOP/s");
    for (name, order) in
        [("copy", [0_u8, 1, 2]), ("transpose inner", [0, 2, 1]), ("transpose outer", [1, 0, 2])]
    {
        let mut dims = [0_u8; 3];
        order.iter().enumerate().for_each(|(i, &d)| dims[d as usize] = i as u8);
        let sizes = [64, 128, 256];
        let out: Vec<_> = order.iter().map(|&d| sizes[d as usize]).collect();
        let piece = Piece {
            input: operand(0, &dims),
            begin: smallvec![Offset::default(); 3],
            at: smallvec![0; 3],
            extents: out.iter().copied().collect(),
        };
        let step =
            Step::Move { pieces: vec![piece], fill: Scalar::new(DType::F32, 0.0), out: id(1) };
        time(name, &[f32s(&sizes)], &[f32s(&out)], &step, (2 << 21) as f64 * 4.0, "GB/s");
    }
    let n = 1 << 20;
    for (name, generator) in [
        ("uniform", Generator::Uniform { key: 1, low: 0.0, high: 1.0 }),
        ("normal", Generator::TruncatedNormal { key: 1, mean: 0.0, stddev: 1.0 }),
    ] {
        let step = Step::Generate {
            generator,
            begin: smallvec![Offset::default()],
            global: smallvec![n],
            out: id(0),
        };
        time(name, &[], &[f32s(&[n])], &step, n as f64, "Gelem/s");
    }
}
