//! Text of modules: names, types, locations, functions.

use super::Options;
use crate::names::{DType, Mesh};
use crate::program::{Extents, Origin, Value, VariableType};
use std::fmt::{self, Write as _};
use std::mem::{replace, take};

/// The element type of a [`Tensor`]: a dtype, or a type that positions and random bits have on the way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::program) enum Element {
    F32,
    F64,
    BF16,
    I32,
    Bool,
    U16,
    U32,
    U64,
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            DType::BF16 => Self::BF16,
            DType::I32 => Self::I32,
            DType::Bool => Self::Bool,
        }
    }
}

impl Element {
    /// Whether it is a float type.
    pub(in crate::program) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::BF16)
    }

    /// The type in which sums are held.
    pub(in crate::program) fn reduction(self) -> Self {
        if self == Self::BF16 { Self::F32 } else { self }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
            Self::Bool => "i1",
            Self::U16 => "ui16",
            Self::U32 => "ui32",
            Self::U64 => "ui64",
        })
    }
}

/// A value of the text; prints as its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::program) struct Tensor {
    number: usize,
    pub(in crate::program) element: Element,
    pub(in crate::program) extents: Extents,
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.number)
    }
}

impl Tensor {
    /// The type, as the text has it.
    pub(super) fn kind(&self) -> String {
        kind(self.element, &self.extents)
    }
}

/// A tensor's type.
pub(super) fn kind(element: Element, extents: &[usize]) -> String {
    let sizes: String = extents.iter().map(|extent| format!("{extent}x")).collect();
    format!("tensor<{sizes}{element}>")
}

/// Texts of items, with commas between them.
pub(super) fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// The types of tensors.
pub(super) fn kinds(tensors: &[Tensor]) -> String {
    listed(tensors.iter().map(Tensor::kind))
}

/// Writes a module. Names are numbers, in the order in which they are given.
pub(in crate::program) struct Writer<'a> {
    pub(in crate::program) mesh: &'a Mesh,
    pub(super) variables: &'a [VariableType],
    pub(super) options: Options,
    /// The seed, if anything is random.
    pub(in crate::program) seed: Option<Tensor>,
    /// By variable: what it was when the call started.
    pub(in crate::program) old: Vec<Option<Tensor>>,
    /// By variable: what it will be when the call is over.
    pub(in crate::program) new: Vec<Option<Tensor>>,
    /// The lines of the present function.
    lines: String,
    /// How deep the present line stands.
    depth: usize,
    names: usize,
    /// The present line's place among `locations`.
    location: usize,
    locations: Vec<String>,
    /// Functions beside `@main`, by name.
    functions: Vec<(String, String)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(mesh: &'a Mesh, variables: &'a [VariableType], options: Options) -> Self {
        let none = vec![None; variables.len()];
        Self {
            mesh,
            variables,
            options,
            seed: None,
            old: none.clone(),
            new: none,
            lines: String::new(),
            depth: 2,
            names: 0,
            location: 0,
            locations: vec!["unknown".to_owned()],
            functions: Vec::new(),
        }
    }

    /// A new name.
    pub(super) fn argument(&mut self, element: Element, extents: &[usize]) -> Tensor {
        self.names += 1;
        Tensor { number: self.names - 1, element, extents: Extents::from_slice(extents) }
    }

    /// What follows comes from there.
    pub(super) fn locate(&mut self, origin: &Origin) {
        let text = location(origin);
        let known = self.locations.iter().rposition(|known| *known == text);
        self.location = known.unwrap_or_else(|| {
            self.locations.push(text);
            self.locations.len() - 1
        });
    }

    /// Writes an operation that gives one tensor.
    pub(super) fn line(
        &mut self,
        text: impl fmt::Display,
        element: Element,
        extents: &[usize],
    ) -> Tensor {
        let out = self.argument(element, extents);
        self.write_located(format_args!("{out} = {text}"));
        out
    }

    /// Writes an operation.
    pub(super) fn write_located(&mut self, text: impl fmt::Display) {
        let location = self.location;
        self.write(format_args!("{text} loc(#loc{location})"));
    }

    /// Writes a line.
    pub(super) fn write(&mut self, line: impl fmt::Display) {
        // Text takes whatever is written.
        let _ = writeln!(self.lines, "{}{line}", "  ".repeat(self.depth));
    }

    /// Writes an operation that has regions: `begin`, the regions, `end`.
    pub(super) fn enclosing<T>(
        &mut self,
        outs: &[(Element, &[usize])],
        begin: impl fmt::Display,
        regions: impl FnOnce(&mut Self) -> T,
        end: impl fmt::Display,
    ) -> (Vec<Tensor>, T) {
        let location = self.location;
        let outs: Vec<_> = outs.iter().map(|&(of, extents)| self.argument(of, extents)).collect();
        self.write(format_args!("{} = {begin} ({{", listed(&outs)));
        let done = regions(self);
        self.write(format_args!("}}) {end} loc(#loc{location})"));
        self.location = location;
        (outs, done)
    }

    /// Writes what stands between two regions of an operation.
    pub(super) fn between(&mut self) {
        self.write("}, {");
    }

    /// Writes a region: its arguments, what `body` writes, and that it returns what `body` gives.
    pub(super) fn region<E>(
        &mut self,
        arguments: &[(Element, &[usize])],
        body: impl FnOnce(&mut Self, &[Tensor]) -> Result<Vec<Tensor>, E>,
    ) -> Result<(), E> {
        let arguments: Vec<_> =
            arguments.iter().map(|&(of, extents)| self.argument(of, extents)).collect();
        let head = listed(arguments.iter().map(|of| format!("{of}: {}", of.kind())));
        self.write(format_args!("^bb0({head}):"));
        self.depth += 1;
        let outs = body(self, &arguments)?;
        let (names, kinds) = (listed(&outs), kinds(&outs));
        self.write_located(format_args!("stablehlo.return {names} : {kinds}"));
        self.depth -= 1;
        Ok(())
    }

    /// Calls a function, which `body` writes if it is not there; functions of one name are the same. It
    /// gives one tensor.
    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: &[Tensor],
        (element, extents): (Element, &[usize]),
        body: impl FnOnce(&mut Self, &[Tensor]) -> Tensor,
    ) -> Tensor {
        if self.functions.iter().all(|(known, _)| known != name) {
            let (lines, depth) = (take(&mut self.lines), replace(&mut self.depth, 2));
            // Whose calls they are is told where they are called.
            let location = take(&mut self.location);
            let named: Vec<_> =
                arguments.iter().map(|of| self.argument(of.element, &of.extents)).collect();
            let out = body(self, &named);
            let head: Vec<_> = named.iter().map(|of| (of.clone(), "", None)).collect();
            let lines = replace(&mut self.lines, lines);
            let text = function("private", name, &head, &[out], &lines);
            self.functions.push((name.to_owned(), text));
            (self.depth, self.location) = (depth, location);
        }
        let (inputs, kinds) = (listed(arguments), kinds(arguments));
        let out = kind(element, extents);
        let text = format!("call @{}({inputs}) : ({kinds}) -> {out}", quoted(name));
        self.line(text, element, extents)
    }

    /// Calls a function of so many results whose body is given: it names its arguments `%arg0`, … and ends
    /// with its `return`.
    pub(in crate::program) fn call_text(
        &mut self,
        name: &str,
        body: &str,
        inputs: &[Tensor],
        outs: &[&Value],
    ) -> Vec<Tensor> {
        let name = format!("{name} {}", self.functions.len());
        let head = inputs.iter().enumerate().map(|(i, of)| format!("%arg{i}: {}", of.kind()));
        let outs: Vec<(Element, &[usize])> =
            outs.iter().map(|out| (out.dtype.into(), &out.extents[..])).collect();
        let results = listed(outs.iter().map(|&(of, extents)| kind(of, extents)));
        let (head, symbol) = (listed(head), quoted(&name));
        let text = format!(
            "  func.func private @{symbol}({head}) -> ({results}) {{\n{}\n  }}\n",
            body.trim_end()
        );
        self.functions.push((name, text));
        let outs: Vec<_> =
            outs.into_iter().map(|(of, extents)| self.argument(of, extents)).collect();
        let call =
            format!("call @{symbol}({}) : ({}) -> ({results})", listed(inputs), kinds(inputs));
        self.write_located(format_args!("{} = {call}", listed(&outs)));
        outs
    }

    /// The module whose `@main` takes arguments, each with a name and the result that takes its bytes, and
    /// returns results.
    pub(super) fn module(
        self,
        name: &str,
        arguments: &[(Tensor, &str, Option<usize>)],
        results: &[Tensor],
    ) -> String {
        let (symbol, processors) = (quoted(name), self.mesh.processors());
        let mut text = format!(
            "module @{symbol} attributes {{mhlo.num_replicas = {processors} : i32, \
             mhlo.num_partitions = 1 : i32}} {{\n"
        );
        text += &function("public", "main", arguments, results, &self.lines);
        self.functions.iter().for_each(|(_, function)| text += function);
        text += "}\n";
        for (i, location) in self.locations.iter().enumerate() {
            text += &format!("#loc{i} = loc({location})\n");
        }
        text
    }
}

/// A function as text.
fn function(
    visibility: &str,
    name: &str,
    arguments: &[(Tensor, &str, Option<usize>)],
    results: &[Tensor],
    lines: &str,
) -> String {
    let arguments = listed(arguments.iter().map(|(of, name, donated)| {
        let attribute = donated.map(|result| format!(" {{tf.aliasing_output = {result} : i32}}"));
        let place =
            if name.is_empty() { String::new() } else { format!(" loc({:?})", plain(name)) };
        format!("{of}: {}{}{place}", of.kind(), attribute.unwrap_or_default())
    }));
    let (symbol, kinds) = (quoted(name), kinds(results));
    let returned =
        if results.is_empty() { String::new() } else { format!(" {} : {kinds}", listed(results)) };
    format!(
        "  func.func {visibility} @{symbol}({arguments}) -> ({kinds}) {{\n{lines}    return{returned}\n  }}\n"
    )
}

/// A symbol as the text has it.
fn quoted(name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_word && begins { name.to_owned() } else { format!("{:?}", plain(name)) }
}

/// Without what a string of the text cannot hold.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '_' }).collect()
}

/// The user's line under the operation's name.
fn location(origin: &Origin) -> String {
    let name = plain(if origin.name.is_empty() { &origin.op } else { &origin.name });
    let file = origin.at.rsplit_once(':').and_then(|(file, line)| {
        let line: usize = line.parse().ok()?;
        Some(format!("{:?}:{line}:1", plain(file)))
    });
    match (name.is_empty(), file) {
        (true, None) => "unknown".to_owned(),
        (true, Some(file)) => file,
        (false, None) => format!("{name:?}"),
        (false, Some(file)) => format!("{name:?}({file})"),
    }
}
