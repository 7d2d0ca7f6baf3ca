//! Where values live: one arena for all processors alike, and the variables' own buffers.
//!
//! Values that are names for the same bytes form a *class*: a reshape in declared order joins its
//! input's, a barrier's outs join its inputs'. A class lives from the step that defines it to its last use; feeds from before the
//! first step, fetches until after the last. What a collective reads is *held* until it is awaited.
//!
//! * A read's class lives in the variable's buffer, unless the variable is written while it lives.
//! * A written value's class is computed in the variable's buffer, if those who hold the variable
//!   make it, and every use of the old value
//!   comes before it, or is by the very step that makes it and that may work in place.
//! * A map's or all-reduce's out takes over an arena buffer that dies at that step, if the two lie
//!   alike and are met element by element.
//! * The values of a loop's body get an arena of their own behind that of the program. What the body
//!   is given lies where the loop has it, and what is stacked is computed in its place in the stack,
//!   if slices are aligned and only kernels meet them, which look up where things lie in every round.
//!   What is carried in one place and carried on in another is copied into that arena first.
//! * All other classes get arena buffers, the largest first, each at the lowest offset that is free
//!   while it lives.

use crate::program::{
    ALIGNMENT, Node, Place, Plan, Program, Rounds, Step, Value, ValueId, VariableType,
};

/// Places every value of a verified program whose writes stand last.
///
/// The plan takes a read, write or reshape between equal places as done, and one between different
/// places as a copy at the step's position; a read's and write's other place is the variable's
/// buffer.
pub fn plan(program: &Program, variables: &[VariableType]) -> Plan {
    planned(program, variables.len(), None)
}

/// The plan of a program, which may be the body of a loop.
fn planned(program: &Program, variables: usize, rounds: Option<&Rounds>) -> Plan {
    let classes = Classes::new(program, variables, rounds);
    let (of, buffers) = arena(program, &classes);
    let (offsets, arena_bytes) = pack(&buffers);
    let place = |&class: &usize| match classes.list[class].home {
        Some(home) => home,
        None => Place::Arena(offsets[of[class]]),
    };
    let places = classes.of.iter().map(place).collect();
    let bodies = loops(program).map(|rounds| planned(&rounds.body, 0, Some(rounds)));
    let bodies: Vec<_> = bodies.collect();
    let inside = bodies.iter().map(|body| body.arena_bytes).max().unwrap_or_default();
    Plan { places, arena_bytes: arena_bytes + inside, bodies }
}

fn loops(program: &Program) -> impl Iterator<Item = &Rounds> {
    program.steps.iter().filter_map(|node| match &node.step {
        Step::Loop(rounds) => Some(&**rounds),
        _ => None,
    })
}

/// The most bytes that live in the arena at once: no plan with the same sharing of buffers is
/// smaller.
pub fn lower_bound(program: &Program, variables: &[VariableType]) -> usize {
    least(program, variables.len(), None)
}

/// As [`lower_bound`], of a program that may be the body of a loop.
pub(super) fn least(program: &Program, variables: usize, rounds: Option<&Rounds>) -> usize {
    let (_, buffers) = arena(program, &Classes::new(program, variables, rounds));
    // Times of program points, and one behind the last.
    let mut change = vec![0_isize; program.steps.len() + 3];
    for buffer in &buffers {
        change[buffer.first] += buffer.bytes as isize;
        change[buffer.last + 1] -= buffer.bytes as isize;
    }
    let live = change.iter().scan(0, |live, change| {
        *live += change;
        Some(*live)
    });
    let inside = loops(program).map(|rounds| least(&rounds.body, 0, Some(rounds))).max();
    let inside = inside.unwrap_or_default();
    live.max().unwrap_or_default().unsigned_abs() + inside
}

/// Values that are names for the same bytes. Times: 0 for feeds, `i + 1` for step `i`, one more
/// than the last step's for fetches.
struct Class {
    first: usize,
    last: usize,
    /// When it is awaited, last, or its last use.
    until: usize,
    /// How many awaits hold it.
    holds: usize,
    /// Padded to [`ALIGNMENT`].
    bytes: usize,
    /// Where it lives, if that is not the arena.
    home: Option<Place>,
}

struct Classes {
    list: Vec<Class>,
    /// Class of each value.
    of: Vec<usize>,
    /// Per step, whether a collective is only begun there.
    begins: Vec<bool>,
}

impl Classes {
    fn new(program: &Program, variables: usize, rounds: Option<&Rounds>) -> Self {
        let awaits = program.awaits();
        let begins = |out: &ValueId| awaits[out.index()].is_some();
        let begins = program.steps.iter().map(|node| node.step.outs().iter().any(begins));
        let (list, begins) = (Vec::new(), begins.collect());
        let mut classes = Self { list, of: vec![usize::MAX; program.values.len()], begins };
        for slot in &program.feeds {
            classes.define(program, slot.value, 0);
        }
        for (time, node) in (1..).zip(&program.steps) {
            let held = matches!(node.step, Step::Await { .. });
            node.step.inputs().iter().for_each(|&input| match held {
                true => classes.hold(input, time),
                false => classes.extend(input, time),
            });
            match &node.step {
                Step::Reshape { input, out } if both_in_order(program, *input, *out) => {
                    classes.of[out.index()] = classes.of[input.index()];
                }
                Step::Barrier { inputs, outs } => {
                    for (input, out) in inputs.iter().zip(outs) {
                        classes.of[out.index()] = classes.of[input.index()];
                    }
                }
                step => step.outs().iter().for_each(|&out| classes.define(program, out, time)),
            }
        }
        let end = program.steps.len() + 1;
        program.fetches.iter().for_each(|slot| classes.extend(slot.value, end));
        classes.settle(program, variables);
        if let Some(rounds) = rounds {
            classes.settle_in(rounds);
        }
        classes
    }

    /// Gives classes of a loop's body a home in the loop's values.
    fn settle_in(&mut self, rounds: &Rounds) {
        let Rounds { body, carried, sliced, captured, outs, .. } = rounds;
        let kernels_only = self.met_by_kernels(body);
        let moves = |class: usize, value: ValueId| {
            kernels_only[class] && body.value(value).bytes().is_multiple_of(ALIGNMENT)
        };
        let slices = carried.len()..carried.len() + sliced.len();
        let next: Vec<_> =
            body.fetches[..carried.len()].iter().map(|s| self.class(s.value)).collect();
        // The loop fills the place of what is carried for the next round one after the other.
        let leaves = |i: usize, class| {
            i < carried.len() && (0..).zip(&next).any(|(j, &c)| j != i && c == class)
        };
        for (i, slot) in body.feeds.iter().take(slices.end + captured.len()).enumerate() {
            let class = self.class(slot.value);
            let stays = match slices.contains(&i) {
                true => moves(class, slot.value),
                false => !leaves(i, class),
            };
            if stays {
                self.list[class].home = Some(Place::Fed(i));
            }
        }
        let stacks = body.fetches.iter().enumerate().take(outs.len()).skip(carried.len());
        for (i, slot) in stacks {
            let class = self.class(slot.value);
            let Class { first, home, .. } = &mut self.list[class];
            if home.is_none() && *first > 0 && moves(class, slot.value) {
                *home = Some(Place::Stacked(i));
            }
        }
    }

    /// Per class, whether only kernels meet its values: other steps are prepared for fixed places.
    fn met_by_kernels(&self, program: &Program) -> Vec<bool> {
        let mut all = vec![true; self.list.len()];
        let others = |step: &&Step| step.axes().is_some() || matches!(step, Step::Loop(_));
        for step in program.steps.iter().map(|node| &node.step).filter(others) {
            let met = step.inputs().into_iter().chain(step.outs().iter().copied());
            met.for_each(|value| all[self.class(value)] = false);
        }
        all
    }

    fn define(&mut self, program: &Program, value: ValueId, time: usize) {
        self.of[value.index()] = self.list.len();
        let bytes = program.value(value).bytes().next_multiple_of(ALIGNMENT);
        let (last, until) = (time, time);
        self.list.push(Class { first: time, last, until, holds: 0, bytes, home: None });
    }

    fn extend(&mut self, value: ValueId, time: usize) {
        let Class { last, until, .. } = &mut self.list[self.of[value.index()]];
        (*last, *until) = (time.max(*last), time.max(*until));
    }

    fn hold(&mut self, value: ValueId, time: usize) {
        let Class { until, holds, .. } = &mut self.list[self.of[value.index()]];
        (*until, *holds) = (time.max(*until), *holds + 1);
    }

    /// Whether the step at a time is the last that touches a class, though it may be a collective
    /// that does so until it is awaited.
    fn ends(&self, class: usize, time: usize) -> bool {
        let Class { last, until, holds, .. } = self.list[class];
        let own = holds == 1 && time > 0 && self.begins[time - 1];
        last == time && (until == time || own)
    }

    fn class(&self, value: ValueId) -> usize {
        self.of[value.index()]
    }

    /// Gives classes a home in the variables.
    fn settle(&mut self, program: &Program, variables: usize) {
        let steps = || (1..).zip(&program.steps).map(|(time, node)| (time, &node.step));
        let mut written = vec![None; variables];
        for (time, step) in steps() {
            if let Step::Write { variable, input } = step {
                written[variable.index()] = Some((time, *input));
            }
        }
        let mut reads: Vec<Vec<usize>> = vec![Vec::new(); variables];
        let mut is_read = vec![false; self.list.len()];
        for (_, step) in steps() {
            let Step::Read { variable, out } = step else { continue };
            let class = self.class(*out);
            let survives = match written[variable.index()] {
                Some((time, input)) => self.class(input) == class || self.list[class].until < time,
                None => true,
            };
            if survives && program.value(*out).in_order() {
                self.list[class].home = Some(Place::Variable(*variable));
            }
            is_read[class] = true;
            reads[variable.index()].push(class);
        }
        for node in &program.steps {
            let Step::Write { variable, input } = &node.step else { continue };
            let class = self.class(*input);
            let Class { first, home, .. } = self.list[class];
            let free = home.is_none() && first > 0 && !is_read[class];
            if !free || !program.value(*input).in_order() {
                continue;
            }
            let Node { step: maker, owners, .. } = &program.steps[first - 1];
            if *owners != node.owners {
                continue;
            }
            let over = reads[variable.index()].iter().all(|&read| {
                let Class { first: read_at, until, home, .. } = self.list[read];
                match home {
                    None => read_at < first,
                    Some(_) if self.ends(read, first) => self.in_place(program, maker, class, read),
                    Some(_) => until < first,
                }
            });
            if over {
                let class = &mut self.list[class];
                class.home = Some(Place::Variable(*variable));
                class.last = program.steps.len() + 1;
                class.until = class.last;
            }
        }
    }

    /// Whether a step that makes class `made` may do so in the bytes of class `used`: each element
    /// is written after the last read of the old element there.
    fn in_place(&self, program: &Program, step: &Step, made: usize, used: usize) -> bool {
        let position = |outs: &[ValueId]| outs.iter().position(|&out| self.class(out) == made);
        match step {
            Step::Map { inputs, outs, .. } => position(outs).is_some_and(|position| {
                let out = program.value(outs[position]);
                inputs.iter().filter(|input| self.class(input.value) == used).all(|input| {
                    let labels = input.dims.iter().enumerate();
                    alike(program.value(input.value), out)
                        && labels.into_iter().all(|(i, &label)| i == usize::from(label))
                })
            }),
            Step::AllReduce { inputs, outs, .. } => position(outs).is_some_and(|position| {
                let out = program.value(outs[position]);
                let of_used = |(_, input): &(usize, &ValueId)| self.class(**input) == used;
                inputs
                    .iter()
                    .enumerate()
                    .filter(of_used)
                    .all(|(i, &input)| i == position && alike(program.value(input), out))
            }),
            _ => false,
        }
    }
}

fn both_in_order(program: &Program, one: ValueId, other: ValueId) -> bool {
    program.value(one).in_order() && program.value(other).in_order()
}

fn alike(one: &Value, other: &Value) -> bool {
    one.dtype.size() == other.dtype.size()
        && one.extents == other.extents
        && one.order == other.order
}

/// Arena memory of classes that follow each other in place.
struct Buffer {
    first: usize,
    last: usize,
    bytes: usize,
    /// The latest of the classes.
    holder: usize,
}

/// The arena's buffers, and the buffer of each class that has no home.
fn arena(program: &Program, classes: &Classes) -> (Vec<usize>, Vec<Buffer>) {
    let mut of = vec![usize::MAX; classes.list.len()];
    let mut buffers: Vec<Buffer> = Vec::new();
    // Classes are listed in the order of their definition, so donors have their buffer.
    for (class, &Class { first, until, bytes, home, .. }) in classes.list.iter().enumerate() {
        if home.is_some() {
            continue;
        }
        let donor = first.checked_sub(1).and_then(|step| {
            let step = &program.steps[step].step;
            let inputs = step.inputs();
            let mut used = inputs.iter().map(|&input| classes.class(input));
            used.find(|&used| {
                classes.list[used].home.is_none()
                    && classes.ends(used, first)
                    && buffers[of[used]].holder == used
                    && classes.in_place(program, step, class, used)
            })
        });
        match donor {
            Some(donor) => {
                of[class] = of[donor];
                let buffer = &mut buffers[of[donor]];
                (buffer.last, buffer.holder) = (until.max(buffer.last), class);
            }
            None => {
                of[class] = buffers.len();
                buffers.push(Buffer { first, last: until, bytes, holder: class });
            }
        }
    }
    (of, buffers)
}

/// Offsets of buffers, such that buffers that live at once do not overlap, and the bytes needed.
fn pack(buffers: &[Buffer]) -> (Vec<usize>, usize) {
    let mut by_size: Vec<usize> = (0..buffers.len()).collect();
    by_size.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].bytes), buffers[i].first, i));
    let mut offsets = vec![0; buffers.len()];
    // Sorted by offset.
    let mut placed: Vec<Placed> = Vec::with_capacity(buffers.len());
    let mut arena_bytes = 0;
    for index in by_size {
        let Buffer { first, last, bytes, .. } = buffers[index];
        let mut begin = 0;
        for other in &placed {
            if other.last < first || last < other.first {
                continue;
            }
            if begin + bytes <= other.begin {
                break;
            }
            begin = begin.max(other.end);
        }
        offsets[index] = begin;
        let end = begin + bytes;
        arena_bytes = arena_bytes.max(end);
        let position = placed.partition_point(|other| other.begin <= begin);
        placed.insert(position, Placed { begin, end, first, last });
    }
    (offsets, arena_bytes)
}

struct Placed {
    begin: usize,
    end: usize,
    first: usize,
    last: usize,
}
