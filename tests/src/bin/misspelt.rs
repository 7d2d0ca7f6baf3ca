//! A user's program whose layout has a misspelt dim; `tests/told.rs` reads its output.
//!
//! `misspelt WAY...` lowers once for each way, `default` or `keep`. The way `logger` installs a
//! logger.

use mesh_core::lower::{Options, Warnings};
use mesh_ops::prelude::*;
use std::error::Error;
use std::io::Write;

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}\n", record.level(), record.args());
        let _ = std::io::stdout().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("batch", 4), dim("features", 2)], F32);
    let double = g.function("double", [x], [x * 2.0], []);
    g.warn("x", "is hardly meant");
    let (mesh, layout) = ("data:2".parse()?, "bacth:data".parse()?);
    let mut module = None;
    for way in std::env::args().skip(1) {
        module = match way.as_str() {
            "default" => Some(g.lower(&mesh, &layout)?),
            "keep" => {
                let options = Options { warnings: Warnings::Keep, ..Options::default() };
                Some(g.lower_with(&mesh, &layout, &options)?)
            }
            "logger" => {
                log::set_logger(&Logger).map_err(|error| error.to_string())?;
                log::set_max_level(log::LevelFilter::Warn);
                module
            }
            _ => return Err(format!("{way} is no way").into()),
        };
    }
    let module = module.ok_or("nothing was lowered")?;
    let kept = (module.warnings().len(), g.warnings().len());
    let ones = ndarray::Array2::<f32>::ones((4, 2));
    let [doubled] = Session::threads(&module, 0)?.call(&double, [ones.view().into()])?;
    let sum: f64 = doubled.to_f64().iter().sum();
    Ok(std::io::stdout().write_all(format!("kept {kept:?}, sum {sum}\n").as_bytes())?)
}
