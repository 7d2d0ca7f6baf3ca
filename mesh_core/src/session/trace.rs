//! Writes recorded calls as a trace for <https://ui.perfetto.dev> and `chrome://tracing`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::{CallTimes, Recorded, Session, Span, StepTimes};
use crate::names::Mesh;
use crate::program::{Block, Form, Program, Slot, Step, ValueId, cost};

/// Writes the recorded times of calls in the trace-event format, as an array of JSON objects.
///
/// Each processor has a lane. In it there is one event per call, named after the function, and
/// within it one event for the feeds, one per step, named after its op, and one for the fetches. A
/// step's event carries the operation's name, source line and placement, the step's line in the
/// printed program, its types, bytes and arithmetic operations. Collectives have the category
/// `collective` and name their axes. Calls follow each other on one time line, also those of
/// several sessions.
///
/// A loop is one event. Of each step in its body only the number of runs and their total time are
/// known. So the loop's event contains one event per step, of that length and of category `sum`,
/// one after another from the loop's beginning. The rest of the loop's event is the loop's own
/// work.
///
/// Events are written call by call. A truncated file without the closing bracket can be opened,
/// too.
///
/// ```
/// # use mesh_core::session::{Session, Trace};
/// # fn doc(session: &mut Session) -> Result<(), Box<dyn std::error::Error>> {
/// session.record(true)?;
/// let mut trace = Trace::new(Vec::new())?;
/// for number in 0..3 {
///     session.call_named("train", &[])?;
///     trace.add(session, number)?;
/// }
/// let json = trace.finish()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Trace<W: Write> {
    writer: W,
    /// Whether the array has an element.
    begun: bool,
    /// The time at which the first call began; times are counted from it.
    origin: Option<Instant>,
    /// The meshes whose lanes have been named. Each is a process in the trace, by its index.
    meshes: IndexSet<String>,
}

impl Trace<BufWriter<File>> {
    /// Writes a trace file. The session [`record`](Session::record)s from now on; call
    /// [`add`](Self::add) after each of its calls.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create(path: impl AsRef<Path>, session: &mut Session) -> io::Result<Self> {
        let trace = Self::new(BufWriter::new(File::create(path)?))?;
        session.record(true).map_err(io::Error::other)?;
        Ok(trace)
    }
}

impl<W: Write> Trace<W> {
    /// An empty trace.
    ///
    /// # Errors
    ///
    /// If the writer fails.
    pub fn new(mut writer: W) -> io::Result<Self> {
        writer.write_all(b"[")?;
        Ok(Self { writer, begun: false, origin: None, meshes: IndexSet::new() })
    }

    /// Adds a session's last call under this number. A failed call is added up to where it stopped.
    ///
    /// # Errors
    ///
    /// If the call was not [recorded](Session::record), or the writer fails.
    pub fn add(&mut self, session: &Session, number: u64) -> io::Result<()> {
        let mesh = &session.mesh;
        // The times of other processes' processors are not known in this process.
        let mut here = session.processes().of(session.rank()).iter();
        let (known, labels) = match here.find_map(|&processor| session.recorded(processor)) {
            Some(Recorded { program, times }) => (times.started, labels(&program.block, mesh)),
            None => {
                let message = "the last call was not recorded; Session::record(true) comes first";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        let origin = *self.origin.get_or_insert(known);
        let process = self.lanes(mesh)?;
        for processor in 0..mesh.processors() {
            let Some(Recorded { program, times }) = session.recorded(processor) else { continue };
            let start = times.started.saturating_duration_since(origin).as_nanos() as u64;
            let mut lane = Lane { trace: self, process, processor, start };
            lane.call(program, &times, &labels, number)?;
        }
        self.writer.flush()
    }

    /// Ends the array and returns the writer.
    ///
    /// # Errors
    ///
    /// If the writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(b"\n]\n")?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    /// The trace's process for a mesh. The first call for a mesh names its lanes.
    fn lanes(&mut self, mesh: &Mesh) -> io::Result<usize> {
        let (process, new) = self.meshes.insert_full(mesh.to_string());
        if !new {
            return Ok(process);
        }
        let mut name = |what: &str, lane: usize, args: Value| {
            self.event(
                &json!({ "name": what, "ph": "M", "pid": process, "tid": lane, "args": args }),
            )
        };
        let title =
            if mesh.processors() == 1 { "one processor".into() } else { format!("mesh {mesh}") };
        name("process_name", 0, json!({ "name": title }))?;
        for processor in 0..mesh.processors() {
            let at = |axis| format!("{}={}", mesh.name(axis), mesh.coordinate(processor, axis));
            let coordinates: Vec<_> = mesh.axes().map(at).collect();
            let title = match coordinates.is_empty() {
                true => format!("processor {processor}"),
                false => format!("processor {processor} ({})", coordinates.join(", ")),
            };
            name("thread_name", processor, json!({ "name": title }))?;
            name("thread_sort_index", processor, json!({ "sort_index": processor }))?;
        }
        Ok(process)
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.writer.write_all(if self.begun { b",\n" } else { b"\n" })?;
        self.begun = true;
        Ok(serde_json::to_writer(&mut self.writer, event)?)
    }
}

/// Writes the events of one processor's call.
struct Lane<'t, W: Write> {
    trace: &'t mut Trace<W>,
    process: usize,
    processor: usize,
    /// The beginning of the call, in nanoseconds since the beginning of the trace.
    start: u64,
}

impl<W: Write> Lane<'_, W> {
    fn call(
        &mut self,
        program: &Program,
        times: &CallTimes,
        labels: &[Label],
        number: u64,
    ) -> io::Result<()> {
        let CallTimes { feeds, steps, fetches, .. } = times;
        let ends = steps.iter().map(|step| step.span.end).chain([feeds.end, fetches.end]);
        let whole = Span { begin: 0, end: ends.max().unwrap_or_default() };
        self.event(&program.name, "call", whole, &json!({ "call": number }))?;
        let names =
            |slots: &[Slot]| json!({ "names": slots.iter().map(|s| &s.name).collect::<Vec<_>>() });
        self.event("feeds", "feeds", *feeds, &names(&program.feeds))?;
        for (label, times) in labels.iter().zip(steps).filter(|(_, times)| times.runs > 0) {
            self.event(
                &label.name,
                label.category,
                times.span,
                &Value::Object(label.args.clone()),
            )?;
            self.body(label, times, times.span.begin)?;
        }
        if fetches.end > 0 {
            self.event("fetches", "fetches", *fetches, &names(&program.fetches))?;
        }
        Ok(())
    }

    /// Writes one event for each step of a loop's body, with the total time of its runs.
    fn body(&mut self, label: &Label, times: &StepTimes, mut begin: u64) -> io::Result<()> {
        for (label, times) in label.body.iter().zip(&times.body).filter(|(_, t)| t.runs > 0) {
            let drawn = Span { begin, end: begin + times.nanoseconds };
            let mut args = label.args.clone();
            args.insert("runs".into(), times.runs.into());
            let note = format!(
                "all {} runs together, drawn behind the step before; the first began and the last \
                 ended when the arguments say, in microseconds from the call's start",
                times.runs
            );
            args.insert("drawn".into(), note.into());
            args.insert("kind".into(), label.category.into());
            args.insert("first began".into(), microseconds(times.span.begin).into());
            args.insert("last ended".into(), microseconds(times.span.end).into());
            self.event(&label.name, "sum", drawn, &Value::Object(args))?;
            self.body(label, times, begin)?;
            begin = drawn.end;
        }
        Ok(())
    }

    fn event(&mut self, name: &str, category: &str, span: Span, args: &Value) -> io::Result<()> {
        self.trace.event(&json!({
            "name": name,
            "cat": category,
            "ph": "X",
            "ts": microseconds(self.start + span.begin),
            "dur": microseconds(span.nanoseconds()),
            "pid": self.process,
            "tid": self.processor,
            "args": args,
        }))
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// The description of a step, which is the same on every processor.
struct Label {
    name: String,
    category: &'static str,
    args: Map<String, Value>,
    body: Vec<Label>,
}

fn labels(block: &Block, mesh: &Mesh) -> Vec<Label> {
    block.steps.iter().map(|step| label(block, step, mesh)).collect()
}

fn label(block: &Block, step: &Step, mesh: &Mesh) -> Label {
    let ty = |id: ValueId| Value::from(block.value(id).to_string());
    let origin = &*step.origin;
    let cost = cost(block, step, mesh);
    let mut args = Map::new();
    let mut put = |key: &str, value: Value| drop(args.insert(key.to_owned(), value));
    put("form", step.form.name().into());
    put("operation", origin.name.as_str().into());
    let note = if origin.note.is_empty() { String::new() } else { format!(" ({})", origin.note) };
    put("at", format!("{}{note}", origin.at).into());
    if !origin.merged.is_empty() {
        let merged = origin.merged.iter().map(|one| format!("{} at {}", one.name, one.at));
        put("merged", merged.collect());
    }
    put("placed", origin.slice.as_str().into());
    put("step", block.display_step(step, mesh).to_string().into());
    put("inputs", step.reads().map(ty).collect());
    put("outs", step.outs.iter().copied().map(ty).collect());
    put("bytes", cost.bytes.into());
    put("flops", cost.flops.into());
    if let Some(axes) = step.axes() {
        put("axes", mesh.list(axes).into());
        put("members", mesh.group_size(axes).into());
        put("received", cost.sent.into());
    }
    let (category, body) = match &step.form {
        Form::Loop(form) => {
            put("iterations", form.count.into());
            ("loop", labels(&form.body, mesh))
        }
        Form::Read(_) | Form::Write(_) => ("state", Vec::new()),
        Form::Await(_) => ("wait", Vec::new()),
        _ if step.axes().is_some() => ("collective", Vec::new()),
        _ => ("local", Vec::new()),
    };
    let name = if origin.op.is_empty() { step.form.name().to_owned() } else { origin.op.clone() };
    Label { name, category, args, body }
}
