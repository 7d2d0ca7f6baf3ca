use super::*;
use crate::names::{AxisList, DType, ReduceKind};
use crate::program::sketch::labelled;
use crate::program::{ALIGNMENT, Extents, Offset, Piece, Scalar, Slot};
use ndarray::Array2;
use proptest::prelude::*;
use smallvec::smallvec;

/// What a random program does next, with numbers that choose its inputs.
#[derive(Clone, Debug)]
struct Act {
    form: u8,
    one: usize,
    two: usize,
}

const VARIABLES: u32 = 3;
const EXTENTS: [usize; 2] = [4, 8];

/// All values have [`EXTENTS`] but those between the steps of one act.
fn random(dtype: DType, acts: &[Act], fetches: &[usize], writes: &[(u32, usize)]) -> Program {
    let mesh = square();
    let (rows, cols) = (axis(&mesh, "rows"), axis(&mesh, "cols"));
    built(&mesh, |b| {
        let mut fed = |name: &str| {
            let (name, shape, split) =
                (name.to_owned(), EXTENTS.to_vec(), vec![AxisList::new(); 2]);
            b.feed(
                dtype,
                Extents::from_slice(&EXTENTS),
                Slot { name, shape, split, ..Slot::default() },
            )
        };
        let mut values = vec![fed("one"), fed("two")];
        for (time, act) in acts.iter().enumerate() {
            let (one, two) = (values[act.one % values.len()], values[act.two % values.len()]);
            let value = match act.form {
                0 => b.of(x(0) + x(1), &[one, two]),
                1 => b.of(x(0).tanh(), &[one]),
                2 => {
                    let flat = b.reshape(one, smallvec![8, 4]);
                    let inputs = vec![b.whole(two), labelled(flat, &[1, 0])];
                    b.map(inputs, smallvec![4, 8], &(x(0) * x(1)), dtype).unwrap()
                }
                3 => {
                    let sums = b.reduce(ReduceKind::Sum, labelled(one, &[0, 1]), smallvec![4]);
                    let inputs = vec![labelled(sums, &[0]), b.whole(two)];
                    b.map(inputs, smallvec![4, 8], &(x(0) - x(1)), dtype).unwrap()
                }
                4 => {
                    let turned = b.transpose(one, &[1, 0]);
                    b.reshape(turned, smallvec![4, 8])
                }
                5 if act.two % 5 == 0 => {
                    let dims = [[0, 1], [1, 0]][act.one % 2];
                    let other = b.reshape(two, smallvec![8, 4]);
                    let other = if act.one % 2 == 0 { two } else { other };
                    let rows =
                        b.contract(labelled(one, &[0, 1]), labelled(other, &dims), smallvec![4]);
                    let outer =
                        b.contract(labelled(rows, &[0]), labelled(two, &[0, 1]), smallvec![4, 8]);
                    b.of(x(0) + x(1), &[outer, one])
                }
                5 => {
                    let product =
                        b.contract(labelled(one, &[0, 2]), labelled(two, &[1, 2]), smallvec![4, 4]);
                    b.all_gather(&[cols], 1, product)
                }
                6 => b.all_reduce(ReduceKind::Sum, &[rows], one),
                7 => {
                    let part = b.reduce_scatter(ReduceKind::Sum, &[cols], 0, one);
                    let part = b.of(x(0) * x(0), &[part]);
                    b.all_gather(&[cols], 0, part)
                }
                8 => b.permute(&[rows, cols], 1, time % 2 == 0, one),
                9 => b.fill(Scalar::new(dtype, act.two as f64), smallvec![4, 8]),
                10 => {
                    let turned = b.all_to_all(&[rows], 0, 1, one);
                    b.reshape(turned, smallvec![4, 8])
                }
                11 => copied(b, one, two, act),
                12 => folded(b, one, two, act),
                _ => b.read(var(act.one as u32 % VARIABLES), dtype, Extents::from_slice(&EXTENTS)),
            };
            values.push(value);
            // Writes stand anywhere, once each.
            for &(variable, at) in writes.iter().filter(|(_, at)| at % acts.len() == time) {
                let value = values[(at / 7) % values.len()];
                b.write(var(variable), value);
            }
        }
        for fetch in fetches {
            b.fetched("value", values[fetch % values.len()]);
        }
    })
}

/// Folds of expressions along one of the dims, of which one is the difference from another.
fn folded(b: &mut Builder<'_>, one: ValueId, two: ValueId, act: &Act) -> ValueId {
    let (dim, kind) = (act.one % 2, [ReduceKind::Sum, ReduceKind::Max][act.two % 2]);
    let (left, labels) = (EXTENTS[dim], [[0, 1], [1, 0]][dim]);
    let product = b.of(x(0) * x(1), &[one, two]);
    let most = b.reduce(kind, labelled(product, &labels), smallvec![left]);
    let dtype = b.value(one).dtype;
    let inputs = vec![b.whole(one), labelled(most, &[dim as u8])];
    let less = b.map(inputs, Extents::from_slice(&EXTENTS), &(x(0) - x(1)), dtype).unwrap();
    let square = b.of(x(0) * x(0), &[less]);
    let sums = b.reduce(ReduceKind::Sum, labelled(square, &labels), smallvec![left]);
    let inputs = vec![b.whole(less), labelled(sums, &[dim as u8])];
    b.map(inputs, Extents::from_slice(&EXTENTS), &(x(0) + x(1)), dtype).unwrap()
}

/// Something larger of two values and a part of that, along one of the dims, with a map between.
fn copied(b: &mut Builder<'_>, one: ValueId, two: ValueId, act: &Act) -> ValueId {
    let (dim, joined) = (act.one % 2, act.two.is_multiple_of(2));
    let mut larger = EXTENTS;
    larger[dim] += if joined { EXTENTS[dim] } else { 3 };
    let piece = |value: ValueId, from: usize| {
        let mut at = [0, 0];
        at[dim] = from;
        let (begin, at) = (vec![Offset::default(); 2], Extents::from_slice(&at));
        let (input, extents) = (labelled(value, &[0, 1]), Extents::from_slice(&EXTENTS));
        (input, Piece { begin, at, extents })
    };
    let pieces = match joined {
        true => vec![piece(one, 0), piece(two, EXTENTS[dim])],
        false => vec![piece(one, act.two % 4)],
    };
    let fill = Scalar::new(b.value(one).dtype, 0.5);
    let all = b.assemble(pieces, fill, Extents::from_slice(&larger));
    let all = if act.two.is_multiple_of(3) { all } else { b.of(x(0) * 0.5, &[all]) };
    let mut begin = vec![Offset::default(); 2];
    begin[dim] = Offset::fixed(act.one / 2 % 4 % (larger[dim] - EXTENTS[dim] + 1));
    let part = b.cut(all, begin, Extents::from_slice(&EXTENTS));
    b.of(x(0) + x(1), &[part, one])
}

prop_compose! {
    fn programs(dtype: DType)(
        acts in prop::collection::vec((0..15_u8, 0..99_usize, 0..99_usize), 1..40),
        fetches in prop::collection::vec(0..99_usize, 0..4),
        writes in prop::collection::btree_map(0..VARIABLES, 0..9999_usize, 0..4),
    ) -> Program {
        let acts: Vec<_> = acts.into_iter().map(|(form, one, two)| Act { form, one, two }).collect();
        let writes: Vec<_> = writes.into_iter().collect();
        random(dtype, &acts, &fetches, &writes)
    }
}

fn variables() -> Vec<VariableType> {
    variables_of(DType::F32)
}

fn variables_of(dtype: DType) -> Vec<VariableType> {
    vec![VariableType { dtype, ..variable(&EXTENTS) }; VARIABLES as usize]
}

/// How far results in f64 may be apart whose sums are rounded differently, relative to the largest number.
/// Differences of large numbers and `tanh` enlarge a rounding of 1e-16, so this allows for a factor of 1e9.
const NEAR: f64 = 1e-7;

/// The largest difference of finite numbers of two arrays.
fn apart(one: &Array, other: &Array) -> f64 {
    let pairs = one.to_f64().into_iter().zip(other.to_f64());
    let finite = pairs.map(|(a, b)| (a - b).abs()).filter(|apart| apart.is_finite());
    finite.fold(0.0, f64::max)
}

/// Whether arrays of f64 are equal up to the rounding of sums, and what that may have become.
fn near(found: &[Array], expected: &[Array]) -> bool {
    found.iter().zip(expected).all(|(found, expected)| {
        let zeros = Array::zeros(expected.dtype(), expected.shape());
        let allowed = NEAR * apart(expected, &zeros).max(1.0);
        let same =
            |(a, b): (f64, f64)| a == b || (a - b).abs() <= allowed || a.is_nan() && b.is_nan();
        found.to_f64().into_iter().zip(expected.to_f64()).all(same)
    })
}

/// What two calls of a program in f64 leave on the reference back-end.
fn meant(program: &Program) -> Vec<Array> {
    let variables = variables_of(DType::F64);
    let reference = Reference::of(&square(), variables, vec![program.clone()], 7).unwrap();
    called(reference, program, DType::F64).0
}

/// What two calls of a program in f32 leave: fetches, and the bytes of one processor's variables.
fn numbers(program: &Program, passes: &[PassId]) -> (Vec<Array>, Vec<Vec<u8>>) {
    let compiled = super::compiled(program.clone(), &square(), &variables(), passes);
    numbers_of(compiled, DType::F32, false)
}

fn numbers_of(compiled: Compiled, dtype: DType, couriers: bool) -> (Vec<Array>, Vec<Vec<u8>>) {
    let program = compiled.program.clone();
    let backend = backend(&square(), &variables_of(dtype), compiled, Some(couriers), false);
    called(backend, &program, dtype)
}

/// What is left as bits, of which all that are no number are alike: which of two of them an operation keeps
/// is left to the machine.
fn bits((fetched, variables): (Vec<Array>, Vec<Vec<u8>>)) -> Vec<Vec<u32>> {
    let bit = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    let fetched = fetched.iter().map(|x| x.to_f64().iter().map(|x| bit(*x as f32)).collect());
    let number = |bytes: &[u8]| bit(f32::from_le_bytes(bytes.try_into().unwrap()));
    let variables = variables.iter().map(|x| x.chunks_exact(4).map(number).collect());
    fetched.chain(variables).collect()
}

fn called(
    mut backend: impl Backend,
    program: &Program,
    dtype: DType,
) -> (Vec<Array>, Vec<Vec<u8>>) {
    let feed = |start: usize| {
        let element = |i: usize| ((start + i) as f64 * 0.37).sin() * 3.0;
        let doubles = Array2::from_shape_fn(EXTENTS, |(i, j)| element(i * 8 + j));
        if dtype == DType::F64 { doubles.into() } else { doubles.mapv(|x| x as f32).into() }
    };
    let feeds: [Array; 2] = [feed(1), feed(50)];
    let mut outs = zeros(program);
    for _ in 0..2 {
        backend.call(0, &feeds.each_ref().map(ArrayRef::from), &mut outs, &mut []).unwrap();
    }
    let bytes = |i| backend.slice(3, i).unwrap().to_vec();
    let bytes = (0..VARIABLES as usize).map(bytes).collect();
    (outs, bytes)
}

/// A program that has gone through all passes and then something else.
fn then(program: &Program, dtype: DType, run: impl Fn(&mut Block)) -> Compiled {
    let (mesh, variables) = (square(), variables_of(dtype));
    let mut program = compiled(program.clone(), &mesh, &variables, &all()).program;
    program.block.everywhere(&mut |block| run(block));
    compiled(program, &mesh, &variables, &[])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// `compile` verifies between passes and checks the plan.
    #[test]
    fn random_programs_compile(program in programs(DType::F32)) {
        let variables = variables();
        let mesh = square();
        let ways = [AllReduce::Ring, AllReduce::Hierarchical, AllReduce::ReduceToOne];
        let mut all = vec![program.clone()];
        for way in [AllReduce::Direct].into_iter().chain(ways) {
            let mut program = program.clone();
            improve(&mut program, &mesh, &variables, way, &PORTABLE).unwrap();
            all.push(program);
        }
        for program in all {
            let compiled = compile(program, &mesh, &variables, &Target::host());
            let Compiled { program, plan } = compiled.unwrap();
            let padded = |value: &crate::program::Value| value.bytes().next_multiple_of(ALIGNMENT);
            let all: usize = program.block.values.iter().map(padded).sum();
            let least = lower_bound(&program, &variables);
            prop_assert!(least <= plan.arena_bytes && plan.arena_bytes <= all);
        }
    }

    /// Each pass can be left out, and a second run finds nothing more to do.
    #[test]
    fn passes_stand_alone(program in programs(DType::F32)) {
        let mesh = square();
        let machine = host();
        for pass in all() {
            let mut once = program.clone();
            pass.run(&mut once.block, &cx(&mesh, &machine));
            prop_assert_eq!(verify(&once, &mesh, &variables()), Ok(()));
            let grows = pass == PassId::ElementwiseProducts;
            prop_assert!(grows || once.steps().len() <= program.steps().len());
            let mut twice = once.clone();
            pass.run(&mut twice.block, &cx(&mesh, &machine));
            prop_assert_eq!(once, twice, "{}", pass);
        }
    }

    /// Fused maps compute the same bits, whatever lies where.
    #[test]
    fn fusion_changes_no_bit(program in programs(DType::F32)) {
        let without = without(PassId::Fusion);
        prop_assert_eq!(bits(numbers(&program, &all())), bits(numbers(&program, &without)));
    }

    /// A program means the same before and after all passes, and that is what threads make of it, up to
    /// the rounding of sums.
    #[test]
    fn passes_change_no_meaning(program in programs(DType::F64)) {
        let variables = variables_of(DType::F64);
        let compiled = super::compiled(program.clone(), &square(), &variables, &all());
        let expected = meant(&program);
        for found in [meant(&compiled.program), numbers_of(compiled, DType::F64, false).0] {
            prop_assert!(near(&found, &expected), "{found:?} instead of {expected:?}");
        }
    }

    /// Tiles, however small, compute the same up to the rounding of sums.
    #[test]
    fn tiles_change_no_number(program in programs(DType::F64)) {
        let limits = tile::Limits { worth: 1, tile: 300, again: 600 };
        let tiny = then(&program, DType::F64, |block| tile::run_within(block, limits));
        let one = then(&program, DType::F64, |_| ());
        let [one, other] = [one, tiny].map(|compiled| numbers_of(compiled, DType::F64, false).0);
        prop_assert!(near(&other, &one), "{other:?} instead of {one:?}");
    }

    /// The last out of a program may not lie on a fetched value, unless both are read from a variable.
    #[test]
    fn a_fetch_overwritten_is_noticed(program in programs(DType::F32)) {
        let variables = variables();
        let compiled = super::compiled(program, &square(), &variables, &[]);
        let (program, mut plan) = (compiled.program, compiled.plan);
        let reads = program.steps().iter().filter(|step| matches!(step.form, Form::Read(_)));
        let read: Vec<_> = reads.flat_map(|step| &step.outs).copied().collect();
        let outs = program.steps().iter().rev().find_map(|step| step.outs.first().copied());
        let fetch = program.block.results.first().copied();
        let fetch = fetch.filter(|value| !read.contains(value));
        let (Some(last), Some(fetched)) = (outs, fetch) else { return Ok(()) };
        let place = plan.places[fetched.index()];
        if plan.places[last.index()] != place {
            plan.places[last.index()] = place;
            prop_assert!(check(&program, &plan, &variables).is_err());
        }
    }
}

/// A program in which whatever can begin, begins.
fn eager(program: &Program) -> Compiled {
    let (mesh, machine) = (square(), host());
    let limits = overlap::Limits { least: 1, worth: 0, growth: 1 };
    then(program, DType::F32, |block| overlap::run_within(block, &cx(&mesh, &machine), limits))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is under way beside computation leaves the same bits, whoever carries it out.
    #[test]
    fn overlap_changes_no_bit(program in programs(DType::F32)) {
        let expected = bits(numbers(&program, &all()));
        prop_assert_eq!(&bits(numbers_of(eager(&program), DType::F32, false)), &expected);
        prop_assert_eq!(&bits(numbers_of(eager(&program), DType::F32, true)), &expected);
    }

    /// What an earlier step fills may not be filled again while a collective needs it.
    #[test]
    fn a_disturbed_collective_is_noticed(program in programs(DType::F32)) {
        let variables = variables();
        let Compiled { program, plan } = eager(&program);
        let (block, awaits) = (&program.block, program.block.awaits());
        for (at, step) in block.steps.iter().enumerate() {
            let begun = step.outs.first().and_then(|out| awaits[out.index()]);
            let Some(until) = begun.filter(|_| step.axes().is_some()) else { continue };
            for beside in &block.steps[at + 1..until] {
                let copies = matches!(beside.form, Form::Map(_) | Form::Contract(_));
                let Some(out) = beside.outs.first().filter(|_| copies) else { continue };
                for held in step.values() {
                    let mut plan = plan.clone();
                    plan.places[out.index()] = plan.places[held.index()];
                    prop_assert!(check(&program, &plan, &variables).is_err());
                }
            }
        }
    }
}
