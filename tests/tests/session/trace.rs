//! A trace is JSON and contains what was recorded: lanes, steps, nesting, order.

use crate::models::{MODELS, borrowed, feeds, layouts};
use mesh_core::lower::Target;
use mesh_core::names::Axis;
use mesh_core::program::{Block, Form};
use mesh_core::session::{StepTimes, Threads, Trace};
use mesh_ops::prelude::*;
use mesh_optimize::{Optimizer, Sgd};
use serde_json::Value;
use tests::on_host;

/// A nanosecond and a half, in microseconds: the difference between whole nanoseconds and floats.
const ROUNDING: f64 = 1.5e-3;

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap_or_else(|| panic!("no {key} in {event}"))
}

fn text<'e>(event: &'e Value, key: &str) -> &'e str {
    event[key].as_str().unwrap_or_else(|| panic!("no {key} in {event}"))
}

fn end(event: &Value) -> f64 {
    number(event, "ts") + number(event, "dur")
}

fn parse(json: &[u8]) -> Vec<Value> {
    serde_json::from_slice(json).unwrap()
}

/// The X events of a lane, in the order of the file.
fn lane(events: &[Value], process: u64, processor: usize) -> Vec<&Value> {
    let of = |event: &&Value| {
        event["ph"] == "X" && event["pid"] == process && event["tid"] == processor as u64
    };
    events.iter().filter(of).collect()
}

/// An event and the events within it.
struct Nested<'e> {
    event: &'e Value,
    inner: Vec<Nested<'e>>,
}

/// The events of a lane as trees. They must nest and be in order.
fn nest<'e>(
    events: &mut std::iter::Peekable<std::vec::IntoIter<&'e Value>>,
    until: f64,
) -> Vec<Nested<'e>> {
    let (mut found, mut last) = (Vec::new(), f64::NEG_INFINITY);
    while let Some(event) = events.next_if(|event| number(event, "ts") < until) {
        assert!(number(event, "dur") >= 0.0);
        assert!(
            number(event, "ts") + ROUNDING >= last,
            "{event} begins before the one before ends"
        );
        assert!(end(event) <= until + ROUNDING, "{event} ends beyond {until}");
        last = end(event);
        found.push(Nested { event, inner: nest(events, last - ROUNDING / 2.0) });
    }
    found
}

/// Every step that ran occurs once, in order, with its times.
fn check_steps(found: &[Nested<'_>], block: &Block, times: &[StepTimes], start: f64) {
    let ran: Vec<_> = block.steps.iter().zip(times).filter(|(_, times)| times.runs > 0).collect();
    assert_eq!(found.len(), ran.len());
    for (Nested { event, inner }, (step, times)) in found.iter().zip(ran) {
        let origin = &step.origin;
        assert_eq!(text(event, "name"), origin.op);
        let args = &event["args"];
        assert_eq!((text(args, "form"), text(args, "at")), (step.form.name(), &origin.at[..]));
        assert!((number(event, "ts") - start - times.span.begin as f64 / 1e3).abs() < ROUNDING);
        assert!((number(event, "dur") - times.span.nanoseconds() as f64 / 1e3).abs() < ROUNDING);
        let outs: Vec<_> = step.outs.iter().map(|&out| block.value(out).to_string()).collect();
        assert_eq!(args["outs"], serde_json::json!(outs));
        match &step.form {
            Form::Loop(form) => {
                assert_eq!(text(event, "cat"), "loop");
                check_body(inner, &form.body, &times.body);
            }
            _ => {
                assert!(inner.is_empty());
                assert_eq!(step.axes().is_some(), text(event, "cat") == "collective");
                assert_eq!(step.axes().is_some(), args.get("axes").is_some());
            }
        }
    }
}

/// Each step of a body has one event, as long as all of its runs.
fn check_body(found: &[Nested<'_>], body: &Block, times: &[StepTimes]) {
    let ran: Vec<_> = body.steps.iter().zip(times).filter(|(_, times)| times.runs > 0).collect();
    assert_eq!(found.len(), ran.len());
    for (Nested { event, .. }, (step, times)) in found.iter().zip(ran) {
        assert_eq!(text(event, "cat"), "sum");
        assert_eq!(text(event, "name"), step.origin.op);
        assert_eq!(event["args"]["runs"], times.runs);
        assert!((number(event, "dur") - times.nanoseconds as f64 / 1e3).abs() < ROUNDING);
        assert!(text(&event["args"], "drawn").contains(&format!("all {} runs", times.runs)));
    }
}

/// A training step with a loop over layers.
fn looped(g: &Graph) {
    let (batch, width, layers) = (dim("batch", 8), dim("width", 16), dim("layers", 3));
    let x = g.input("image", [batch, width], F32);
    let w = g.variable("w", [layers, width], F32, Initializer::ONES).value();
    let ([y], []) = g.scan(layers, [x], [w], |[h], [w]| ([(h * w).tanh()], []));
    let loss = y.dense(dim("out", 16), "out").square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
}

#[test]
fn everything_that_ran_is_in_its_lane() {
    for (name, build) in MODELS.iter().chain(&[("looped", looped as fn(&Graph))]) {
        let g = mesh_ops::graph();
        build(&g);
        let meshes = ["", "a:2", "a:2;b:2"].map(|mesh| mesh.parse::<Mesh>().unwrap());
        let all = meshes.iter().flat_map(|mesh| layouts(&g, mesh, 4));
        for (layout, module) in all {
            let mesh = module.mesh();
            let mut session = Session::threads(&module, 0).unwrap();
            let feeds = feeds(&module, "train");
            session.record(true).unwrap();
            let mut trace = Trace::new(Vec::new()).unwrap();
            let mut recorded = Vec::new();
            for call in 0..3 {
                session.call_named("train", &borrowed(&feeds)).unwrap();
                trace.add(&session, 10 + call).unwrap();
                let times = (0..mesh.processors()).map(|p| session.recorded(p).unwrap().times);
                recorded.push(times.collect::<Vec<_>>());
            }
            let events = parse(&trace.finish().unwrap());
            let function = &on_host(&module)[0].program;
            for processor in 0..mesh.processors() {
                let mut flat = lane(&events, 0, processor).into_iter().peekable();
                let calls = nest(&mut flat, f64::INFINITY);
                assert_eq!((calls.len(), flat.len()), (3, 0), "{name} on {mesh} under {layout}");
                for (number, (call, recorded)) in (10u64..).zip(calls.iter().zip(&recorded)) {
                    let Nested { event, inner } = call;
                    let times = &recorded[processor];
                    assert_eq!((text(event, "name"), text(event, "cat")), ("train", "call"));
                    assert_eq!(event["args"]["call"], number);
                    let start = self::number(event, "ts");
                    let since = times.started - recorded[0].started;
                    assert_eq!(since.as_nanos(), 0, "one call begins at one time");
                    let (first, rest) = inner.split_first().unwrap();
                    let (last, steps) = rest.split_last().unwrap();
                    assert_eq!(
                        (text(first.event, "cat"), text(last.event, "cat")),
                        ("feeds", "fetches")
                    );
                    assert!((end(event) - start - times.fetches.end as f64 / 1e3).abs() < ROUNDING);
                    check_steps(steps, &function.block, &times.steps, start);
                }
            }
            check_lanes(&events, mesh);
        }
    }
}

/// Each lane is named after its processor and the processor's coordinates.
fn check_lanes(events: &[Value], mesh: &Mesh) {
    let named: Vec<_> = events.iter().filter(|event| event["name"] == "thread_name").collect();
    assert_eq!(named.len(), mesh.processors());
    for (processor, event) in named.iter().enumerate() {
        let at = |axis: Axis| format!("{}={}", mesh.name(axis), mesh.coordinate(processor, axis));
        let at: Vec<_> = mesh.axes().map(at).collect();
        let title = match at.is_empty() {
            true => "processor 0".to_owned(),
            false => format!("processor {processor} ({})", at.join(", ")),
        };
        assert_eq!(event["tid"], processor as u64);
        assert_eq!(text(&event["args"], "name"), title);
    }
}

#[test]
fn collectives_name_their_axes() {
    let g = mesh_ops::graph();
    let x = g.input("image", [dim("batch", 8), dim("width", 16)], F32);
    let loss = x.dense(dim("out", 16), "out").square().mean();
    g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    let module = g.lower(&"a:2;b:2".parse().unwrap(), &"batch:a;width:b".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let path = std::env::temp_dir().join(format!("mesh-trace-{}.json", std::process::id()));
    let mut trace = Trace::create(&path, &mut session).unwrap();
    session.call_named("train", &borrowed(&feeds(&module, "train"))).unwrap();
    trace.add(&session, 1).unwrap();
    // A truncated file lacks only the bracket.
    let cut = std::fs::read_to_string(&path).unwrap();
    let events = parse(format!("{cut}]").as_bytes());
    drop(trace);
    std::fs::remove_file(&path).unwrap();
    let lane = lane(&events, 0, 3);
    let functions = on_host(&module);
    let expected: Vec<_> =
        functions[0].program.steps().iter().filter_map(|step| step.axes()).collect();
    let found: Vec<_> = lane.iter().filter(|event| event["cat"] == "collective").collect();
    assert!(expected.len() >= 2 && expected.len() == found.len());
    for (axes, event) in expected.iter().zip(found) {
        assert_eq!(text(&event["args"], "axes"), module.mesh().list(axes));
        assert_eq!(event["args"]["members"], module.mesh().group_size(axes));
        assert!(event["args"]["received"].as_u64().unwrap() > 0);
    }
}

#[test]
fn sessions_share_a_file_and_keep_apart() {
    let g = mesh_ops::graph();
    looped(&g);
    let mut trace = Trace::new(Vec::new()).unwrap();
    for (mesh, layout) in [("a:2", "batch:a"), ("", ""), ("a:2", "width:a")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let feeds = feeds(&module, "train");
        session.call_named("train", &borrowed(&feeds)).unwrap();
        let refused = trace.add(&session, 0).unwrap_err();
        assert!(refused.to_string().contains("Session::record(true)"), "{refused}");
        session.record(true).unwrap();
        session.call_named("train", &borrowed(&feeds)).unwrap();
        trace.add(&session, 0).unwrap();
    }
    let events = parse(&trace.finish().unwrap());
    let calls = |process| {
        let all = lane(&events, process, 0).into_iter();
        all.filter(|event| event["cat"] == "call").collect::<Vec<_>>()
    };
    assert_eq!((calls(0).len(), calls(1).len()), (2, 1));
    assert!(end(calls(0)[0]) < number(calls(1)[0], "ts"));
    assert!(end(calls(1)[0]) < number(calls(0)[1], "ts"));
    let processes = events.iter().filter(|event| event["name"] == "process_name").count();
    assert_eq!(processes, 2);
}

#[test]
fn an_empty_trace_is_an_empty_array() {
    assert!(parse(&Trace::new(Vec::new()).unwrap().finish().unwrap()).is_empty());
}

/// A failed call has events up to the failure.
#[test]
fn a_call_that_failed_ends_where_it_failed() {
    let g = mesh_ops::graph();
    let x = g.input("image", [dim("batch", 8), dim("width", 16)], F32);
    let y = (x.sum([dim("width", 16)]) * 1e38).square().sum_all();
    g.function("train", [x], [y], []);
    let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
    let threads = Threads::default().target(Target::host().check_numerics());
    let mut session = Session::threads_with(&module, 0, &threads).unwrap();
    session.record(true).unwrap();
    session.call_named("train", &borrowed(&feeds(&module, "train"))).unwrap_err();
    let mut trace = Trace::new(Vec::new()).unwrap();
    trace.add(&session, 0).unwrap();
    let events = parse(&trace.finish().unwrap());
    for processor in 0..2 {
        let lane = lane(&events, 0, processor);
        let call = lane[0];
        assert_eq!(text(call, "cat"), "call");
        assert!(lane.iter().all(|event| end(event) <= end(call) + ROUNDING));
        assert!(lane.iter().all(|event| event["cat"] != "fetches"));
    }
}
