//! Tables of numbers as text (RFC 4180, with any delimiter): a line per row, fields between delimiters.

use super::bytes::{FromStart, Input, decompressed};
use super::{ReadError, Result};
use mesh_core::array::Array;
use ndarray::{Array1, Array2};
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

/// The longest line in bytes.
const LONGEST: u64 = 1 << 20;
/// The most numbers of a table, which is held in memory.
const MOST: usize = 1 << 27;

/// How a table of numbers is read.
///
/// ```
/// use mesh_optimize::dataset::read::{Csv, Input};
///
/// let table = Csv::default().delimiter('\t').headerless();
/// let table = table.read(Input::of_bytes("a.tsv", b"1\t2\n3\t4\n".to_vec()))?;
/// assert_eq!((table.rows(), table.columns()), (2, &["0".to_owned(), "1".to_owned()][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Csv {
    delimiter: char,
    header: bool,
}

impl Default for Csv {
    /// Fields between commas; the first line names the columns.
    fn default() -> Self {
        Self { delimiter: ',', header: true }
    }
}

/// A table of numbers in memory: named columns of equally many finite numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    file: String,
    columns: Vec<String>,
    /// Row after row.
    numbers: Vec<f64>,
}

/// A table of numbers whose first line names the columns, plain or gzip: [`Csv::default`].
///
/// The table is held in memory, with 8 bytes for each of at most 2²⁷ numbers. Larger data are better
/// kept in files whose examples can be read one by one, such as [`npy`](super::npy()).
///
/// ```
/// use mesh_optimize::dataset::{Dataset, read::{self, Input}};
///
/// let file = "height,width,class\n1.5,2,0\n0.5,1e-1,1\n";
/// let table = read::csv(Input::of_bytes("shapes.csv", file.as_bytes().to_vec()))?;
/// let data = Dataset::from_arrays([
///     ("x", table.f32(&["width", "height"])?),
///     ("class", table.i32("class")?),
/// ])?;
/// assert_eq!(data.cardinality(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, a field is no finite number, lines have different numbers of fields, two
/// columns have the same name, or the table is too large. The error names the line.
pub fn csv(file: impl Into<Input>) -> Result<Table> {
    Csv::default().read(file)
}

impl Csv {
    /// The character between two fields.
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// The first line has numbers, too. The columns are called `0`, `1` and so on.
    pub fn headerless(mut self) -> Self {
        self.header = false;
        self
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// As [`csv`].
    pub fn read(self, file: impl Into<Input>) -> Result<Table> {
        let (file, bytes) = file.into().open()?;
        let failed = |source| ReadError::Io { file: file.clone(), source };
        let (stream, compressed) =
            decompressed(FromStart { bytes: &*bytes, taken: 0 }).map_err(failed)?;
        let (mut stream, mut line) = (BufReader::new(stream), Vec::new());
        let mut table = Table { file: file.clone(), columns: Vec::new(), numbers: Vec::new() };
        for number in 1_u64.. {
            line.clear();
            let taken = stream.by_ref().take(LONGEST + 1).read_until(b'\n', &mut line);
            let taken = taken.map_err(|source| match compressed {
                true => ReadError::Compressed { file: file.clone(), source },
                false => failed(source),
            })?;
            if taken == 0 {
                break;
            }
            let added = self.add(&mut table, number, &line);
            added
                .map_err(|problem| ReadError::content(&file, format!("line {number}"), problem))?;
        }
        Ok(table)
    }

    /// Adds a line to a table.
    fn add(self, table: &mut Table, number: u64, line: &[u8]) -> Result<(), String> {
        if line.len() as u64 > LONGEST {
            return Err(format!("a line is at most {LONGEST} bytes long"));
        }
        let text = std::str::from_utf8(line).map_err(|error| format!("it is no UTF-8: {error}"))?;
        let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            return Ok(());
        }
        let fields = fields(text, self.delimiter)?;
        if table.columns.is_empty() {
            table.columns = match self.header {
                true => fields.iter().map(|field| field.trim().to_owned()).collect(),
                false => (0..fields.len()).map(|column| column.to_string()).collect(),
            };
            let mut names = table.columns.iter().enumerate();
            if let Some((_, twice)) = names.find(|(i, name)| table.columns[..*i].contains(name)) {
                return Err(format!("two columns are called `{twice}`"));
            }
            if self.header {
                return Ok(());
            }
        }
        let (found, expected) = (fields.len(), table.columns.len());
        if found != expected {
            return Err(format!("it has {found} fields, but there are {expected} columns"));
        }
        if table.numbers.len() + found > MOST {
            return Err(format!("a table has at most {MOST} numbers: use a file of np.save"));
        }
        for (column, field) in table.columns.iter().zip(fields) {
            let number = field.trim().parse().ok().filter(|number: &f64| number.is_finite());
            let number = number
                .ok_or_else(|| format!("column `{column}`: {field:?} is no finite number"))?;
            table.numbers.push(number);
        }
        Ok(())
    }
}

/// The fields of a line, without the quotes around them.
fn fields(line: &str, delimiter: char) -> Result<Vec<Cow<'_, str>>, String> {
    if !line.contains('"') {
        return Ok(line.split(delimiter).map(Cow::from).collect());
    }
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find(delimiter).unwrap_or(rest.len());
                (rest[..end].into(), &rest[end..])
            }
        };
        fields.push(field);
        rest = match after.strip_prefix(delimiter) {
            Some(rest) => rest,
            None if after.is_empty() => return Ok(fields),
            None => {
                return Err(format!("{after:?} follows a quoted field: legal is {delimiter:?}"));
            }
        };
    }
}

/// A field whose opening quote is gone, and what follows its closing quote. Two quotes are one of the
/// field's own.
fn unquoted(text: &str) -> Result<(Cow<'_, str>, &str), String> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote is not closed on its line")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field.into(), after)),
        }
    }
}

impl Table {
    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.columns.len().max(1)
    }

    /// These columns side by side, `[rows, columns]`, each number rounded to f32.
    ///
    /// # Errors
    ///
    /// If there is no such column.
    pub fn f32(&self, columns: &[&str]) -> Result<Array> {
        let columns = columns.iter().map(|name| self.find(name)).collect::<Result<Vec<_>>>()?;
        let shape = (self.rows(), columns.len());
        Ok(Array2::from_shape_fn(shape, |(row, i)| self.at(row, columns[i]) as f32).into())
    }

    /// A column of whole numbers, `[rows]`.
    ///
    /// # Errors
    ///
    /// If there is no such column, or a number is no i32.
    pub fn i32(&self, column: &str) -> Result<Array> {
        let index = self.find(column)?;
        let whole = |row: usize| {
            let number = self.at(row, index);
            let whole = number as i32;
            if f64::from(whole) == number {
                return Ok(whole);
            }
            let place = format!("row {row}, column `{column}`");
            Err(ReadError::content(&self.file, place, format!("{number} does not fit into i32")))
        };
        let numbers = (0..self.rows()).map(whole).collect::<Result<Array1<i32>>>()?;
        Ok(numbers.into())
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.columns.len() + column]
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column == name).ok_or_else(|| {
            let known = self.columns.join(", ");
            ReadError::asked(&self.file, format!("has no column `{name}`: it has {known}"))
        })
    }
}
