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
//! * An out takes over an arena buffer that dies at its step, if the two lie alike and the form may work
//!   in place.
//! * The values of a loop's body get an arena of their own behind that of the program. What the body
//!   is given lies where the loop has it, and what is stacked is computed in its place in the stack,
//!   if slices are aligned and no collective meets them: kernels and loops look up where things lie.
//!   What is carried on is made where what was carried lies, if nobody reads that any more, or the step that makes
//!   it may work in place. What such a step takes over on the way to either is made there as well, unless a slice may lie there that is still read. What is carried in one place and carried on in another is copied into that arena first.
//! * All other classes get arena buffers, the largest first, each at the lowest offset that is free
//!   while it lives.

use crate::program::forms::Loop;
use crate::program::{ALIGNMENT, Block, Form, Place, Plan, Program, Step, ValueId, VariableType};

/// Places every value of a verified program whose writes stand last.
///
/// The plan takes a read, write or reshape between equal places as done, and one between different
/// places as a copy at the step's position; a read's and write's other place is the variable's
/// buffer.
pub fn plan(program: &Program, variables: &[VariableType]) -> Plan {
    planned(&program.block, variables.len(), None)
}

/// The plan of a block, which may be the body of a loop.
fn planned(block: &Block, variables: usize, of_loop: Option<&Loop>) -> Plan {
    let classes = Classes::new(block, variables, of_loop);
    let (of, buffers) = arena(block, &classes);
    let (offsets, arena_bytes) = pack(&buffers);
    let place = |&class: &usize| match classes.list[class].home {
        Some(home) => home,
        None => Place::Arena(offsets[of[class]]),
    };
    let places = classes.of.iter().map(place).collect();
    let bodies = block.loops().map(|(_, form)| planned(&form.body, 0, Some(form)));
    let bodies: Vec<_> = bodies.collect();
    let inside = bodies.iter().map(|body| body.arena_bytes).max().unwrap_or_default();
    Plan { places, arena_bytes: arena_bytes + inside, bodies }
}

/// The most bytes that live in the arena at once: no plan with the same sharing of buffers is
/// smaller.
pub fn lower_bound(program: &Program, variables: &[VariableType]) -> usize {
    least(&program.block, variables.len(), None)
}

/// As [`lower_bound`], of a block that may be the body of a loop.
pub(super) fn least(block: &Block, variables: usize, of_loop: Option<&Loop>) -> usize {
    let (_, buffers) = arena(block, &Classes::new(block, variables, of_loop));
    // Times of program points, and one behind the last.
    let mut change = vec![0_isize; block.steps.len() + 3];
    for buffer in &buffers {
        change[buffer.first] += buffer.bytes as isize;
        change[buffer.last + 1] -= buffer.bytes as isize;
    }
    let live = change.iter().scan(0, |live, change| {
        *live += change;
        Some(*live)
    });
    let inside = block.loops().map(|(_, form)| least(&form.body, 0, Some(form))).max();
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
    fn new(block: &Block, variables: usize, of_loop: Option<&Loop>) -> Self {
        let awaits = block.awaits();
        let begins = |out: &ValueId| awaits[out.index()].is_some();
        let begins = block.steps.iter().map(|step| step.outs.iter().any(begins));
        let (list, begins) = (Vec::new(), begins.collect());
        let mut classes = Self { list, of: vec![usize::MAX; block.values.len()], begins };
        for &param in &block.params {
            classes.define(block, param, 0);
        }
        for (time, step) in (1..).zip(&block.steps) {
            let held = matches!(step.form, Form::Await(_));
            step.reads().for_each(|input| match held {
                true => classes.hold(input, time),
                false => classes.extend(input, time),
            });
            let mut reads = step.reads();
            for &out in &step.outs {
                match reads.next().filter(|&input| is_renamed(block, step, input, out)) {
                    Some(input) => classes.of[out.index()] = classes.of[input.index()],
                    None => classes.define(block, out, time),
                }
            }
        }
        let end = block.steps.len() + 1;
        block.results.iter().for_each(|&result| classes.extend(result, end));
        classes.settle(block, variables);
        if let Some(of_loop) = of_loop {
            classes.settle_in(block, of_loop);
        }
        classes
    }

    /// Gives classes of a loop's body a home in the loop's values.
    fn settle_in(&mut self, block: &Block, of_loop: &Loop) {
        let (body, carried) = (&*of_loop.body, of_loop.carried);
        let may_move = self.met_by_no_collective(body);
        let moves = |class: usize, value: ValueId| {
            may_move[class] && body.value(value).bytes().is_multiple_of(ALIGNMENT)
        };
        let next: Vec<_> = body.results[..carried].iter().map(|&v| self.class(v)).collect();
        // The loop fills the place of what is carried for the next iteration one after the other.
        let leaves =
            |i: usize, class| i < carried && (0..).zip(&next).any(|(j, &c)| j != i && c == class);
        let given = body.params.split_last().map_or(&[][..], |(_, given)| given);
        for (i, &param) in given.iter().enumerate() {
            let class = self.class(param);
            let stays = match of_loop.slices().contains(&i) {
                true => moves(class, param),
                false => !leaves(i, class),
            };
            if stays {
                self.list[class].home = Some(Place::Param(i));
            }
        }
        for i in 0..carried {
            let (before, after) = (self.class(body.params[i]), self.class(body.results[i]));
            let is_there = self.list[before].home == Some(Place::Param(i));
            let mut next = Some(after);
            while let Some(made) = next.filter(|&c| is_there && self.follows(block, before, c)) {
                self.list[made].home = Some(Place::Param(i));
                next = self.donor(block, made, |_| true);
            }
        }
        for i in of_loop.stacks() {
            let result = body.results[i];
            let mut next = Some(self.class(result)).filter(|&c| {
                let Class { first, home, .. } = self.list[c];
                home.is_none() && first > 0
            });
            // A slice may lie there, too, as long as it is read.
            let slices = of_loop.slices().map(|slice| body.params[slice]);
            let slices: Vec<_> = slices.filter(|&slice| body.gives_way(slice, result)).collect();
            while let Some(made) = next.filter(|&c| moves(c, result)) {
                self.list[made].home = Some(Place::Stacked(i));
                let spares = |value| slices.iter().all(|&slice| body.gives_way(slice, value));
                next = self.donor(block, made, spares);
            }
        }
    }

    /// Whether what is carried on may be made where what was carried lies: that is read no more, or by the step
    /// that makes it, which works in place.
    fn follows(&self, block: &Block, before: usize, after: usize) -> bool {
        let Class { first, home, .. } = self.list[after];
        let Some(maker) = first.checked_sub(1).map(|step| &block.steps[step]) else { return false };
        let is_over = self.list[before].until < first;
        let takes = || self.ends(before, first) && self.in_place(block, maker, after, before);
        before != after && home.is_none() && (is_over || takes())
    }

    /// The class without a home in whose bytes the step that makes another one may do so, of a value that fits.
    fn donor(&self, block: &Block, made: usize, fits: impl Fn(ValueId) -> bool) -> Option<usize> {
        let time = self.list[made].first;
        let step = &block.steps[time.checked_sub(1)?];
        step.reads().filter(|&input| fits(input)).map(|input| self.class(input)).find(|&used| {
            let Class { first, home, .. } = self.list[used];
            let is_free = home.is_none() && first > 0 && self.ends(used, time);
            is_free && self.in_place(block, step, made, used)
        })
    }

    /// Per class, whether no collective meets its values, nor one in the body of a loop that does: these are
    /// prepared for fixed places.
    fn met_by_no_collective(&self, block: &Block) -> Vec<bool> {
        let mut all = vec![true; self.list.len()];
        for step in block.steps.iter().filter(|step| is_fixed(step)) {
            step.values().for_each(|value| all[self.class(value)] = false);
        }
        all
    }

    fn define(&mut self, block: &Block, value: ValueId, time: usize) {
        self.of[value.index()] = self.list.len();
        let bytes = block.value(value).bytes().next_multiple_of(ALIGNMENT);
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
    fn settle(&mut self, block: &Block, variables: usize) {
        let mut written = vec![None; variables];
        let mut reads: Vec<Vec<usize>> = vec![Vec::new(); variables];
        let mut is_read = vec![false; self.list.len()];
        for (time, step) in (1..).zip(&block.steps) {
            if let Form::Write(form) = step.form {
                written[form.variable.index()] = Some((time, step.inputs[0].value));
            }
        }
        for step in &block.steps {
            let Form::Read(form) = step.form else { continue };
            let (variable, out) = (form.variable, step.outs[0]);
            let class = self.class(out);
            let survives = match written[variable.index()] {
                Some((time, input)) => self.class(input) == class || self.list[class].until < time,
                None => true,
            };
            if survives && block.value(out).in_order() {
                self.list[class].home = Some(Place::Variable(variable));
            }
            is_read[class] = true;
            reads[variable.index()].push(class);
        }
        for step in &block.steps {
            let Form::Write(form) = step.form else { continue };
            let input = step.inputs[0].value;
            let class = self.class(input);
            let Class { first, home, .. } = self.list[class];
            let free = home.is_none() && first > 0 && !is_read[class];
            if !free || !block.value(input).in_order() {
                continue;
            }
            let maker = &block.steps[first - 1];
            if maker.owners != step.owners {
                continue;
            }
            let over = reads[form.variable.index()].iter().all(|&read| {
                let Class { first: read_at, until, home, .. } = self.list[read];
                match home {
                    None => read_at < first,
                    Some(_) if self.ends(read, first) => self.in_place(block, maker, class, read),
                    Some(_) => until < first,
                }
            });
            if over {
                let class = &mut self.list[class];
                class.home = Some(Place::Variable(form.variable));
                class.last = block.steps.len() + 1;
                class.until = class.last;
            }
        }
    }

    /// Whether a step that makes class `made` may do so in the bytes of class `used`: each element
    /// is written after the last read of the old element there.
    fn in_place(&self, block: &Block, step: &Step, made: usize, used: usize) -> bool {
        let Some(out) = step.outs.iter().position(|&out| self.class(out) == made) else {
            return false;
        };
        let value = block.value(step.outs[out]);
        let mut inputs = step.reads().enumerate().filter(|(_, input)| self.class(*input) == used);
        inputs.all(|(i, input)| {
            block.value(input).lies_as(value) && step.form.may_work_in_place(&step.inputs, out, i)
        })
    }
}

/// Whether a step is prepared for fixed places of its values: a collective, or a loop with one in its body.
pub(super) fn is_fixed(step: &Step) -> bool {
    let inside = |step: &Step| matches!(&step.form, Form::Loop(form) if form.body.steps.iter().any(is_fixed));
    step.axes().is_some() || inside(step)
}

/// Whether a step makes a value another name for its input's bytes.
pub(super) fn is_renamed(block: &Block, step: &Step, input: ValueId, out: ValueId) -> bool {
    let (from, to) = (block.value(input), block.value(out));
    let lie_alike = from.extents == to.extents && from.order == to.order;
    step.form.renames() && (lie_alike || from.in_order() && to.in_order())
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
fn arena(block: &Block, classes: &Classes) -> (Vec<usize>, Vec<Buffer>) {
    let mut of = vec![usize::MAX; classes.list.len()];
    let mut buffers: Vec<Buffer> = Vec::new();
    // Classes are listed in the order of their definition, so donors have their buffer.
    for (class, &Class { first, until, bytes, home, .. }) in classes.list.iter().enumerate() {
        if home.is_some() {
            continue;
        }
        let donor = first.checked_sub(1).and_then(|step| {
            let step = &block.steps[step];
            let mut used = step.reads().map(|input| classes.class(input));
            used.find(|&used| {
                classes.list[used].home.is_none()
                    && classes.ends(used, first)
                    && buffers[of[used]].holder == used
                    && classes.in_place(block, step, class, used)
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
