//! A picture of the layout: the mesh as a grid of processors, and the slices that each holds.

use super::text::{bytes, escape, grouped};
use mesh_core::lower::{Module, VariableSpec};
use mesh_core::names::{Layout, Mesh};
use std::fmt::Write;

/// The most processors that are drawn along each side of a grid.
const SIDE: usize = 8;
/// The most variables of each kind that are listed.
const LISTED: usize = 60;

/// An axis of the mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisPicture {
    /// The axis's name.
    pub name: String,
    /// The axis's size.
    pub size: usize,
    /// The layout's rules that name the axis, as text.
    pub rules: Vec<String>,
}

/// A dim of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DimPicture {
    /// The dim's name.
    pub name: String,
    /// The dim's size.
    pub size: usize,
    /// The axes that split the dim, by index, major first.
    pub axes: Vec<usize>,
}

/// A variable and its slices.
#[derive(Clone, PartialEq, Debug)]
pub struct VariablePicture {
    /// The variable's name.
    pub name: String,
    /// Whether optimizers update it.
    pub trainable: bool,
    /// The variable's dtype.
    pub dtype: String,
    /// The variable's dims in order.
    pub dims: Vec<DimPicture>,
    /// The bytes of one slice.
    pub bytes: u64,
    /// The slice that each processor holds, drawn in a unit square that stands for the variable:
    /// left, top, width, height. `None` for a processor that holds no slice.
    pub slices: Vec<Option<[f64; 4]>>,
}

/// A mesh and the variables on it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LayoutPicture {
    /// The layout as text.
    pub layout: String,
    /// The mesh's axes. The last varies fastest from one processor to the next.
    pub axes: Vec<AxisPicture>,
    /// All variables.
    pub variables: Vec<VariablePicture>,
}

impl LayoutPicture {
    /// The picture of a module that was lowered under `layout`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # let layout = Layout::default();
    /// # let module = g.lower(&Mesh::single(), &layout)?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let x = ndarray::Array2::<f32>::ones((20, 2));
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// let picture = LayoutPicture::of(&module, &layout);
    /// assert_eq!(picture.variables[0].name, "out/kernel");
    /// assert_eq!(picture.variables[0].slices, [Some([0.0, 0.0, 1.0, 1.0])]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn of(module: &Module, layout: &Layout) -> Self {
        let mesh = module.mesh();
        let axis = |axis| {
            let name = mesh.name(axis).to_owned();
            let rules = layout.rules().iter().filter(|rule| rule.axes.contains(&name));
            let rules = rules.map(ToString::to_string).collect();
            AxisPicture { size: mesh.size(axis), name, rules }
        };
        let axes = mesh.axes().map(axis).collect();
        let variables = module.variables().iter().map(|v| VariablePicture::of(v, mesh)).collect();
        Self { layout: layout.to_string(), axes, variables }
    }

    /// The rows and columns of the grid. The last axis runs along a row.
    fn grid(&self) -> [usize; 2] {
        let columns = self.axes.last().map_or(1, |axis| axis.size);
        [self.axes.iter().rev().skip(1).map(|axis| axis.size).product(), columns]
    }

    pub(super) fn write(&self, page: &mut String) {
        *page += "<section>\n<h2>Layout</h2>\n<div class=\"mesh\">\n";
        self.write_mesh(page);
        self.write_axes(page);
        *page += "</div>\n";
        let of = |trainable| self.variables.iter().filter(move |v| v.trainable == trainable);
        self.write_variables(page, of(true));
        if of(false).next().is_some() {
            let count = of(false).count();
            let _ = writeln!(
                page,
                "<details><summary>{count} variables that are not trained: optimizer state and \
                 counters</summary>"
            );
            self.write_variables(page, of(false));
            *page += "</details>\n";
        }
        *page += "</section>\n";
    }

    fn write_mesh(&self, page: &mut String) {
        let [rows, columns] = self.grid();
        let (shown_rows, shown_columns) = (rows.min(SIDE), columns.min(SIDE));
        let (cell, gap, left, top) = (46.0, 8.0, 74.0, 30.0);
        let at = |i: usize| i as f64 * (cell + gap);
        let (width, height) = (left + at(shown_columns), top + at(shown_rows));
        let _ = writeln!(
            page,
            "<svg class=\"grid-of\" viewBox=\"0 0 {width} {height}\" style=\"max-width:{width}px\" \
             role=\"img\" aria-label=\"{} processors\">",
            rows * columns
        );
        if let Some((last, others)) = self.axes.split_last() {
            let class = (self.axes.len() - 1) % 6;
            let _ = writeln!(
                page,
                "<text class=\"axis a{class}\" x=\"{left}\" y=\"16\">{} &rarr;</text>",
                escape(&last.name)
            );
            for row in (0..shown_rows).filter(|_| !others.is_empty()) {
                let _ = write!(page, "<text class=\"axis\" x=\"{:.0}\" ", left - 10.0);
                let _ = write!(page, "y=\"{:.1}\" text-anchor=\"end\">", top + at(row) + 28.0);
                let mut below = rows;
                let mut rest = row;
                for (number, axis) in others.iter().enumerate() {
                    below /= axis.size;
                    let (name, coordinate) = (escape(&axis.name), rest / below);
                    rest %= below;
                    let space = if number == 0 { "" } else { " " };
                    let _ = write!(
                        page,
                        "{space}<tspan class=\"a{}\">{name} {coordinate}</tspan>",
                        number % 6
                    );
                }
                *page += "</text>\n";
            }
        }
        for row in 0..shown_rows {
            for column in 0..shown_columns {
                let (x, y) = (left + at(column), top + at(row));
                let _ = writeln!(
                    page,
                    "<rect class=\"cell\" x=\"{x}\" y=\"{y}\" width=\"{cell}\" height=\"{cell}\" \
                     rx=\"8\"/><text class=\"cell\" x=\"{}\" y=\"{}\">{}</text>",
                    x + cell / 2.0,
                    y + cell / 2.0 + 5.0,
                    row * columns + column
                );
            }
        }
        *page += "</svg>\n";
        if (rows, columns) != (shown_rows, shown_columns) {
            let _ = writeln!(
                page,
                "<p class=\"note\">{} processors, {rows} by {columns}; the first are drawn.</p>",
                rows * columns
            );
        }
    }

    fn write_axes(&self, page: &mut String) {
        *page += "<div class=\"axes\">\n";
        if self.axes.is_empty() {
            *page += "<p class=\"note\">One processor, without axes.</p>\n";
        }
        for (number, AxisPicture { name, size, rules }) in self.axes.iter().enumerate() {
            let _ = write!(
                page,
                "<p><span class=\"chip a{}\">{} &times; {size}</span> ",
                number % 6,
                escape(name)
            );
            let rules: Vec<_> =
                rules.iter().map(|rule| format!("<code>{}</code>", escape(rule))).collect();
            let rules =
                if rules.is_empty() { "splits nothing".to_owned() } else { rules.join(" ") };
            let _ = writeln!(page, "{rules}</p>");
        }
        *page += "</div>\n";
    }

    fn write_variables<'v>(
        &self,
        page: &mut String,
        variables: impl Iterator<Item = &'v VariablePicture> + Clone,
    ) {
        if variables.clone().next().is_none() {
            return;
        }
        *page += "<div class=\"wide\"><table class=\"vars\">\n<thead><tr><th>variable</th>\
                  <th>dims</th><th>slices</th><th class=\"n\">each</th></tr></thead>\n<tbody>\n";
        for variable in variables.clone().take(LISTED) {
            self.write_variable(page, variable);
        }
        *page += "</tbody>\n</table></div>\n";
        let more = variables.count().saturating_sub(LISTED);
        if more > 0 {
            let _ = writeln!(page, "<p class=\"note\">and {more} more</p>");
        }
    }

    fn write_variable(&self, page: &mut String, variable: &VariablePicture) {
        let VariablePicture { name, dtype, dims, bytes: size, slices, .. } = variable;
        let _ = write!(page, "<tr><td><code>{}</code></td><td>", escape(name));
        for DimPicture { name, size, axes } in dims {
            let name = escape(name);
            let over = axes.iter().filter_map(|&axis| {
                let name = escape(&self.axes.get(axis)?.name);
                Some(format!("<span class=\"chip small a{}\">{name}</span>", axis % 6))
            });
            let over: String = over.collect();
            let _ = write!(page, "<span class=\"dim\">{name} {size}{over}</span>");
        }
        if dims.is_empty() {
            *page += "<span class=\"dim\">one number</span>";
        }
        *page += "</td><td>";
        self.write_slices(page, slices);
        let (exact, size) = (grouped(*size), bytes(*size));
        let _ = writeln!(
            page,
            "</td><td class=\"n\" title=\"{exact} bytes of {dtype}\">{size}</td></tr>"
        );
    }

    /// Draws a small grid in which each processor's slice is filled.
    fn write_slices(&self, page: &mut String, slices: &[Option<[f64; 4]>]) {
        let [rows, columns] = self.grid();
        let (shown_rows, shown_columns) = (rows.min(SIDE), columns.min(SIDE));
        let (cell, gap) = (17.0, 4.0);
        let at = |i: usize| i as f64 * (cell + gap) + 0.5;
        let (width, height) = (at(shown_columns), at(shown_rows));
        let _ = write!(
            page,
            "<svg class=\"slices\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">"
        );
        for row in 0..shown_rows {
            for column in 0..shown_columns {
                let (x, y) = (at(column), at(row));
                let slice = slices.get(row * columns + column).copied().flatten();
                if let Some([left, top, wide, high]) = slice {
                    let _ = write!(
                        page,
                        "<rect class=\"held\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" \
                         height=\"{:.2}\"/>",
                        x + left * cell,
                        y + top * cell,
                        wide * cell,
                        high * cell
                    );
                }
                let _ = write!(
                    page,
                    "<rect class=\"whole\" x=\"{x}\" y=\"{y}\" width=\"{cell}\" \
                     height=\"{cell}\"/>"
                );
            }
        }
        *page += "</svg>";
    }
}

impl VariablePicture {
    fn of(variable: &VariableSpec, mesh: &Mesh) -> Self {
        let VariableSpec { name, dtype, shape, placement, trainable } = variable;
        let dims: Vec<_> = (shape.iter())
            .map(|dim| DimPicture {
                name: dim.name.to_string(),
                size: dim.size,
                axes: placement.axes(dim.name).iter().map(|axis| axis.index()).collect(),
            })
            .collect();
        let [across, down] = sides(&dims);
        let slice = |processor| {
            let mut owned = placement.owned().iter();
            if !owned.all(|&(axis, owner)| mesh.coordinate(processor, axis) == owner) {
                return None;
            }
            let slice = placement.slice(mesh, shape, processor)?;
            let part = |dim: Option<usize>| match dim {
                None => (0.0, 1.0),
                Some(dim) => {
                    let whole = dims[dim].size as f64;
                    (slice.begin[dim] as f64 / whole, slice.size[dim] as f64 / whole)
                }
            };
            let ((left, wide), (top, high)) = (part(across), part(down));
            Some([left, top, wide, high])
        };
        let local = placement.local_shape(mesh, shape);
        let elements: usize = local.as_ref().unwrap_or(shape).sizes().into_iter().product();
        Self {
            name: name.clone(),
            trainable: *trainable,
            dtype: dtype.to_string(),
            bytes: (elements * dtype.size()) as u64,
            slices: (0..mesh.processors()).map(slice).collect(),
            dims,
        }
    }
}

/// The dims that are drawn from left to right and from top to bottom: the last two that are split.
/// A single split dim lies as it would in a matrix.
fn sides(dims: &[DimPicture]) -> [Option<usize>; 2] {
    let mut split = (0..dims.len()).rev().filter(|&dim| !dims[dim].axes.is_empty());
    match (split.next(), split.next()) {
        (Some(only), None) if only + 1 < dims.len() => [None, Some(only)],
        (last, before) => [last, before],
    }
}
