//! Arrays in files, read where they are asked for.

use super::bytes::{ReadAt, contents};
use super::element::Element;
use super::{ReadError, Result};
use crate::dataset::{self, Dataset, DatasetError, Record, Source};
use mesh_core::array::Array;
use mesh_core::names::DType;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An array in a file. The first dim is that of the examples; an example is read when it is asked for.
///
/// Arrays of integers are read as i32, those of f16 as f32; others keep their dtype.
///
/// ```
/// use mesh_core::names::DType;
/// use mesh_optimize::dataset::read::{self, Input};
///
/// // Three labels as an IDX file.
/// let labels = read::idx(Input::of_bytes("labels", vec![0, 0, 8, 1, 0, 0, 0, 3, 7, 9, 4]))?;
/// assert_eq!((labels.shape(), labels.dtype(), labels.examples()), (&[3][..], DType::I32, 3));
/// assert_eq!(labels.read(&[2, 0])?, ndarray::arr1(&[4, 7]).into());
/// assert!(labels.contents()?.starts_with("3 bytes, crc32c "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ArrayFile {
    stored: Arc<Stored>,
    /// What the elements are divided by, as f32.
    divisor: Option<f32>,
}

/// Where an array is and what it is of.
pub(super) struct Stored {
    /// The name that errors use.
    pub(super) file: String,
    /// The name of the array in its file, if that has several.
    pub(super) name: Option<String>,
    pub(super) bytes: Arc<dyn ReadAt>,
    /// The position of the first element.
    pub(super) offset: u64,
    pub(super) element: Element,
    /// Whether the highest byte of an element comes first.
    pub(super) big: bool,
    pub(super) shape: Vec<usize>,
}

impl Stored {
    /// The bytes of an array of this shape; `None` if they are more than a file can have.
    pub(super) fn size(element: Element, shape: &[usize]) -> Option<u64> {
        let dims = shape.iter().map(|&dim| dim as u64);
        dims.chain([element.size() as u64]).try_fold(1, u64::checked_mul)
    }
}

impl ArrayFile {
    pub(super) fn new(stored: Stored) -> Self {
        Self { stored: Arc::new(stored), divisor: None }
    }

    /// The sizes of the dims.
    pub fn shape(&self) -> &[usize] {
        &self.stored.shape
    }

    /// The dtype of the arrays that are read.
    pub fn dtype(&self) -> DType {
        if self.divisor.is_some() { DType::F32 } else { self.stored.element.dtype() }
    }

    /// Reads every element divided by `divisor`, as f32: of images with bytes from 0 to 255, divided by
    /// 255, numbers from 0 to 1.
    ///
    /// ```
    /// use mesh_optimize::dataset::read::{self, Input};
    ///
    /// // Two images of two pixels each, as an IDX file.
    /// let file = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 51, 255, 102].to_vec();
    /// let images = read::idx(Input::of_bytes("images", file))?.divided_by(255.0);
    /// assert_eq!(images.shape(), [2, 2]);
    /// assert_eq!(images.range(1..2)?, ndarray::arr2(&[[1.0_f32, 0.4]]).into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn divided_by(mut self, divisor: f32) -> Self {
        self.divisor = Some(divisor);
        self
    }

    /// The number of examples; an array without dims has none.
    pub fn examples(&self) -> u64 {
        self.shape().first().map_or(0, |&examples| examples as u64)
    }

    /// The examples of a range, with a first dim.
    ///
    /// # Errors
    ///
    /// If there are no such examples, an element does not fit its dtype, or the file cannot be read.
    pub fn range(&self, range: Range<u64>) -> Result<Array> {
        let mut bytes = Vec::new();
        self.append(&range, &mut bytes)?;
        self.array(range.end - range.start, &bytes, |position| range.start + position)
    }

    /// The examples of these numbers, in this order.
    ///
    /// # Errors
    ///
    /// As [`range`](Self::range).
    pub fn read(&self, rows: &[u64]) -> Result<Array> {
        let mut bytes = Vec::new();
        for run in rows.chunk_by(|row, next| row.checked_add(1) == Some(*next)) {
            let start = run.first().copied().unwrap_or(0);
            self.append(&(start..start.saturating_add(run.len() as u64)), &mut bytes)?;
        }
        let row_of = |position: u64| rows.get(position as usize).copied().unwrap_or(position);
        self.array(rows.len() as u64, &bytes, row_of)
    }

    /// The whole array.
    ///
    /// # Errors
    ///
    /// As [`range`](Self::range).
    pub fn whole(&self) -> Result<Array> {
        if self.shape().is_empty() {
            let mut bytes = vec![0; self.stored.element.size()];
            self.fill(0, &mut bytes)?;
            return self.decoded(&bytes, &[], |position| position);
        }
        self.range(0..self.examples())
    }

    /// The length and the checksum of the elements' bytes, which distinguish them from others, whatever
    /// file they are in. Reads all of them.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn contents(&self) -> Result<String> {
        let Stored { file, bytes, offset, element, shape, .. } = &*self.stored;
        let end = offset.saturating_add(Stored::size(*element, shape).unwrap_or(u64::MAX));
        let contents = contents(&**bytes, *offset..end);
        contents.map_err(|source| ReadError::Io { file: file.clone(), source })
    }

    /// The bytes of an example.
    fn row(&self) -> u64 {
        let dims = self.shape().get(1..).unwrap_or_default();
        // The whole array's bytes were counted when it was opened.
        Stored::size(self.stored.element, dims).unwrap_or(u64::MAX)
    }

    fn append(&self, range: &Range<u64>, bytes: &mut Vec<u8>) -> Result<()> {
        if range.start > range.end || range.end > self.examples() {
            let Range { start, end } = range;
            let problem = format!("has {} examples: none from {start} to {end}", self.examples());
            return Err(ReadError::asked(&self.stored.file, problem));
        }
        let (begin, size) = (bytes.len(), (range.end - range.start).saturating_mul(self.row()));
        let end = usize::try_from(size).ok().and_then(|size| begin.checked_add(size));
        let end = end.ok_or_else(|| {
            ReadError::asked(&self.stored.file, format!("has {size} bytes there: too many at once"))
        })?;
        bytes.resize(end, 0);
        self.fill(range.start.saturating_mul(self.row()), &mut bytes[begin..])
    }

    /// Fills `bytes` with those from the position `at` of the elements on.
    fn fill(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let Stored { file, bytes: all, offset, element, shape, .. } = &*self.stored;
        all.read_exact_at(offset.saturating_add(at), bytes).map_err(|source| {
            let declared = offset.saturating_add(Stored::size(*element, shape).unwrap_or(u64::MAX));
            match (source.kind(), all.size()) {
                (io::ErrorKind::UnexpectedEof, Ok(found)) => ReadError::size(file, declared, found),
                _ => ReadError::Io { file: file.clone(), source },
            }
        })
    }

    /// `rows` examples; `example` is the number of the example at a position among them.
    fn array(&self, rows: u64, bytes: &[u8], example: impl Fn(u64) -> u64) -> Result<Array> {
        let dims = self.shape().get(1..).unwrap_or_default();
        let shape: Vec<_> = std::iter::once(rows as usize).chain(dims.iter().copied()).collect();
        let each = dims.iter().product::<usize>().max(1) as u64;
        // The position of an element in the file, counted from 0.
        self.decoded(bytes, &shape, |position| example(position / each) * each + position % each)
    }

    fn decoded(
        &self,
        bytes: &[u8],
        shape: &[usize],
        element: impl Fn(u64) -> u64,
    ) -> Result<Array> {
        let Stored { file, name, element: of, big, .. } = &*self.stored;
        let array = of.array(bytes, *big, shape).map_err(|unheld| {
            let name = name.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
            let place = format!("element {}{name}", element(unheld.position as u64));
            let problem = format!("{} does not fit into {}", unheld.value, of.dtype());
            ReadError::content(file, place, problem)
        })?;
        Ok(match self.divisor {
            Some(divisor) => divided(array, divisor),
            None => array,
        })
    }
}

fn divided(array: Array, divisor: f32) -> Array {
    match array {
        Array::I32(array) => array.mapv(|x| x as f32 / divisor).into(),
        Array::F32(array) => (array / divisor).into(),
        Array::F64(array) => array.mapv(|x| (x / f64::from(divisor)) as f32).into(),
        Array::BF16(array) => array.mapv(|x| x.to_f32() / divisor).into(),
        Array::Bool(array) => array.mapv(|x| f32::from(u8::from(x)) / divisor).into(),
    }
}

impl fmt::Debug for ArrayFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} of {}", self.dtype(), self.shape(), self.stored.file)
    }
}

/// Arrays of as many examples.
struct Files(Vec<(String, ArrayFile)>);

impl Source for Files {
    fn examples(&self) -> u64 {
        self.0.first().map_or(0, |(_, file)| file.examples())
    }

    fn read(&self, rows: &[u64]) -> dataset::Result<Record> {
        let arrays = self.0.iter().map(|(name, file)| Ok((name.as_str(), file.read(rows)?)));
        Record::new(arrays.collect::<dataset::Result<Vec<_>>>()?)
    }
}

impl Dataset {
    /// One record for each example of some files, whose arrays have a common number of examples. A batch
    /// reads its examples.
    ///
    /// ```
    /// use mesh_optimize::dataset::{Dataset, Remainder, read::{self, Input}};
    ///
    /// let images = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 51, 255, 102].to_vec();
    /// let labels = [0, 0, 8, 1, 0, 0, 0, 2, 7, 9].to_vec();
    /// let data = Dataset::from_files([
    ///     ("image", read::idx(Input::of_bytes("images", images))?.divided_by(255.0)),
    ///     ("label", read::idx(Input::of_bytes("labels", labels))?),
    /// ])?;
    /// let batches = data.shuffle(2, 7)?.batch(2, Remainder::Drop)?;
    /// assert_eq!(batches.pass(0).next().ok_or("no batch")??.get("image")?.shape(), [2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no file, two have the same name, one has no dims, or the first dims differ.
    pub fn from_files<'n>(
        files: impl IntoIterator<Item = (&'n str, ArrayFile)>,
    ) -> dataset::Result<Self> {
        let files: Vec<_> = files.into_iter().map(|(name, file)| (name.to_owned(), file)).collect();
        let (first, of_first) = files.first().ok_or(DatasetError::NoArrays)?;
        for (number, (name, file)) in files.iter().enumerate() {
            let Some(&found) = file.shape().first() else {
                return Err(DatasetError::NoExamples(name.clone()));
            };
            let expected = of_first.shape().first().copied().unwrap_or(found);
            if files[..number].iter().any(|(earlier, _)| earlier == name) {
                return Err(DatasetError::RepeatedName(name.clone()));
            }
            if found != expected {
                let (name, first) = (name.clone(), first.clone());
                return Err(DatasetError::Examples { name, found, first, expected });
            }
        }
        Ok(Self::from_source(Files(files)))
    }
}
