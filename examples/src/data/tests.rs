//! Whole data sets: written to and read from directories, and generated.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use flate2::{Compression, write::GzEncoder};
use mesh_optimize::dataset::read::ReadAt;
use ndarray::Array2;
use proptest::prelude::*;

use super::*;
use crate::Rng;

/// A directory of its own, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("mesh-digits-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The directory of a test set of `count` images.
    fn with_test_set(count: u32) -> Self {
        let directory = Self::new();
        directory.put("t10k-images-idx3-ubyte", &images(count));
        directory.put("t10k-labels-idx1-ubyte", &labels(count));
        directory
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// What is wrong, as a person reads it.
    fn complaint(&self) -> String {
        Digits::load(&self.0).unwrap_err().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn idx(header: &[u32], data: impl IntoIterator<Item = u8>) -> Vec<u8> {
    header.iter().flat_map(|word| word.to_be_bytes()).chain(data).collect()
}

fn images(count: u32) -> Vec<u8> {
    idx(&[0x803, count, 28, 28], (0..count * 784).map(|place| (place % 251) as u8))
}

fn labels(count: u32) -> Vec<u8> {
    idx(&[0x801, count], (0..count).map(|place| (place % 10) as u8))
}

/// All pixels and labels.
fn whole(split: &Split) -> (Vec<f32>, Vec<i32>) {
    split.read(&(0..split.len() as u64).collect::<Vec<_>>()).unwrap()
}

fn of_idx(images: Vec<u8>, labels: Vec<u8>) -> Result<Split, DataError> {
    Split::of_idx(Input::of_bytes("images", images), Input::of_bytes("labels", labels), 1)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_single_pair_gives_its_last_fifth_to_testing() {
    let directory = Directory::with_test_set(11);
    let digits = Digits::load(&directory.0).unwrap();
    assert_eq!((digits.train.len(), digits.test.len()), (9, 2));
    let (train, test) = (whole(&digits.train), whole(&digits.test));
    assert_eq!(test.1, [9, 0]);
    assert_eq!(train.0[5], 5.0 / 255.0);
    assert_eq!(test.0[0], ((9 * 784) % 251) as f32 / 255.0);
}

#[test]
fn two_pairs_are_both_read_and_compression_is_seen_by_content() {
    let directory = Directory::with_test_set(3);
    directory.put("train-images-idx3-ubyte", &gzip(&images(7)));
    directory.put("train-labels-idx1-ubyte.gz", &gzip(&labels(7)));
    let digits = Digits::load(&directory.0).unwrap();
    assert_eq!((digits.train.len(), digits.test.len()), (7, 3));
    assert_eq!(whole(&digits.train).0.len(), 7 * 784);

    directory.put("train-images-idx3-ubyte", &images(7));
    directory.put("train-labels-idx1-ubyte.gz", &labels(7));
    assert_eq!(whole(&Digits::load(&directory.0).unwrap().train), whole(&digits.train));
}

#[test]
fn missing_files_are_listed_with_those_found() {
    let directory = Directory::new();
    let said = directory.complaint();
    assert!(said.contains("none of its files"), "{said}");
    for name in ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"] {
        assert!(said.contains(name), "{said}");
    }
    directory.put("t10k-labels-idx1-ubyte.gz", &gzip(&labels(5)));
    let said = directory.complaint();
    assert!(said.contains("only t10k-labels-idx1-ubyte.gz was found"), "{said}");

    let absent = Digits::load(&directory.0.join("absent")).unwrap_err().to_string();
    assert!(absent.contains("does not exist"), "{absent}");

    let half = Directory::with_test_set(5);
    half.put("train-images-idx3-ubyte", &images(5));
    assert!(half.complaint().contains("no complete data set"), "a half pair is no mistake to hide");
}

#[test]
fn every_fault_of_a_file_is_named() {
    let (good_images, good_labels) = (images(5), labels(5));
    let image_file = |bytes: &[u8]| (bytes.to_vec(), good_labels.clone());
    let label_file = |bytes: &[u8]| (good_images.clone(), bytes.to_vec());
    let longer = |bytes: &[u8]| [bytes, &[0]].concat();
    let cases = [
        (image_file(&good_labels), "has no images: legal are bytes of [examples, 28, 28]"),
        (image_file(&idx(&[0x603, 5, 28, 28], [])), "magic number is 0x00000603, legal are"),
        (image_file(&idx(&[0xd03, 5, 28, 28], [0; 4 * 5 * 784])), "f32[5, 28, 28] of"),
        (label_file(&good_images), "has no labels: legal are whole numbers, one dim"),
        (label_file(b""), "byte 0: it is truncated: 4 bytes are declared (header and data)"),
        (image_file(&good_images[..14]), "byte 14: it is truncated: 16 bytes"),
        (image_file(&good_images[..100]), "byte 100: it is truncated: 3936 bytes are declared"),
        (image_file(&longer(&good_images)), "byte 3936: it goes on after the 3936 bytes"),
        (label_file(&longer(&good_labels)), "it goes on after the 13 bytes"),
        (label_file(&good_labels[..12]), "byte 12: it is truncated: 13 bytes"),
        (image_file(&idx(&[0x803, 1, 32, 28], [0; 32 * 28])), "i32[1, 32, 28] of"),
        (image_file(&idx(&[0x803, u32::MAX, 28, 28], [])), "3367254359296 bytes are declared"),
        (image_file(&idx(&[0x8ff; 256], [])), "has more bytes than a file can have"),
        (
            image_file(&gzip(&idx(&[0x803, 2_000_000, 28, 28], []))),
            "legal are up to 1073741824 in a compressed file; decompress it",
        ),
        (label_file(&labels(4)), "has 4 examples; legal are 5 or more"),
        (label_file(&labels(6)), "a pair needs as many images as labels"),
        (label_file(&idx(&[0x801, 5], [0, 1, 10, 2, 3])), "is 10; legal are 0 to 9"),
        (image_file(&gzip(&good_images)[..60]), "as gzip it is damaged or cut short"),
        (image_file(&gzip(&longer(&good_images))), "goes on after"),
        (image_file(&gzip(&[&good_images[..], &[0; 1 << 22]].concat())), "goes on after"),
    ];
    for ((images, labels), expected) in cases {
        let directory = Directory::new();
        directory.put("t10k-images-idx3-ubyte", &images);
        directory.put("t10k-labels-idx1-ubyte", &labels);
        let said = directory.complaint();
        assert!(said.contains(expected), "expected `{expected}` in `{said}`");
        assert!(said.contains("-ubyte"), "no file in `{said}`");
    }
}

#[test]
#[cfg(unix)]
fn what_has_no_end_is_not_read() {
    let directory = Directory::with_test_set(5);
    let images = directory.0.join("t10k-images-idx3-ubyte");
    fs::remove_file(&images).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &images).unwrap();
    assert!(directory.complaint().contains("it is no regular file"));
    fs::remove_file(&images).unwrap();
    fs::create_dir(&images).unwrap();
    assert!(directory.complaint().contains("it is a directory"));
}

/// Some bytes, repeated without end.
struct Endless {
    first: Vec<u8>,
    again: Vec<u8>,
}

impl ReadAt for Endless {
    fn size(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        for (place, byte) in (offset as usize..).zip(bytes) {
            *byte = match self.first.get(place) {
                Some(first) => *first,
                None => self.again[(place - self.first.len()) % self.again.len()],
            };
        }
        Ok(())
    }
}

/// A gzip stream continues in its next member. This one decompresses to endless zeros.
#[test]
fn no_more_is_decompressed_than_is_declared() {
    let bomb = |name: &str, first: &[u8]| {
        Input::of_bytes(name, Endless { first: first.to_vec(), again: gzip(&[0; 1 << 20]) })
    };
    let (good_images, good_labels) = (gzip(&images(5)), gzip(&labels(5)));
    let said = |images, labels| Split::of_idx(images, labels, 1).unwrap_err().to_string();
    let good = |name: &str, bytes: &[u8]| Input::of_bytes(name, bytes.to_vec());
    let found = said(bomb("images", &good_images), good("labels", &good_labels));
    assert!(found.contains("images, byte 3936: it goes on after the 3936 bytes"), "{found}");
    let found = said(good("images", &good_images), bomb("labels", &good_labels));
    assert!(found.contains("labels, byte 13: it goes on after the 13 bytes"), "{found}");
    let found = said(bomb("images", &[]), good("labels", &good_labels));
    assert!(found.contains("images, byte 0: it is no IDX file"), "{found}");
}

#[test]
fn bytes_are_read_as_files_are() {
    let split = of_idx(gzip(&images(5)), labels(5)).unwrap();
    assert_eq!((split.len(), whole(&split).0[5]), (5, 5.0 / 255.0));
    let said = of_idx(images(5), labels(4)).unwrap_err().to_string();
    assert_eq!(
        said,
        "i32[5, 28, 28] of images and i32[4] of labels: a pair needs as many images as labels"
    );
    let said = split.read(&[4, 5]).unwrap_err().to_string();
    assert_eq!(said, "there is no example 5: there are 5, counted from 0");
}

proptest! {
    #[test]
    fn rows_are_those_of_the_whole_wherever_they_are(
        rows in prop::collection::vec((0..40_u64, 1..5_u64), 0..12), all in 40..60_u32,
    ) {
        let (pixels, digits) = (images(all)[16..].to_vec(), labels(all)[8..].to_vec());
        // Single examples, runs of them, repeated ones, in any order.
        let last = u64::from(all);
        let rows: Vec<_> =
            rows.into_iter().flat_map(|(row, run)| row..(row + run).min(last)).collect();
        let expected: (Vec<f32>, Vec<i32>) = (
            rows.iter()
                .flat_map(|&row| &pixels[784 * row as usize..][..784])
                .map(|&pixel| f32::from(pixel) / 255.0)
                .collect(),
            rows.iter().map(|&row| i32::from(digits[row as usize])).collect(),
        );
        let of = [of_idx(images(all), labels(all)), of_idx(gzip(&images(all)), gzip(&labels(all)))];
        for split in of {
            let split = split.unwrap();
            prop_assert_eq!(split.read(&rows).unwrap(), expected.clone());
            // The two parts, one after the other.
            let Digits { train, test } = split.divided();
            let kept = train.len() as u64;
            prop_assert_eq!(kept, last - last / 5);
            for (i, &row) in rows.iter().enumerate() {
                let (of, row) = if row < kept { (&train, row) } else { (&test, row - kept) };
                let (image, label) = of.read(&[row]).unwrap();
                prop_assert_eq!(&image, &expected.0[784 * i..784 * (i + 1)]);
                prop_assert_eq!(label, &expected.1[i..=i]);
            }
        }
    }
}

/// A file that counts how much of it was read.
struct Counted {
    bytes: Box<dyn ReadAt>,
    read: Arc<AtomicU64>,
}

impl ReadAt for Counted {
    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(offset, bytes)
    }
}

/// The pair has five million images, 3.9 GB; the file system stores only the header and one image.
#[test]
fn a_large_pair_is_opened_without_being_read() {
    const MANY: u32 = 5_000_000;
    let directory = Directory::new();
    let (ink, at) = ([255; 784], 16 + 784 * u64::from(MANY - 2));
    let put = |name, header: &[u32], size: u64, mark: &[u8], at: u64| {
        let path = directory.0.join(name);
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(&idx(header, [])).unwrap();
        let sparse = file.set_len(size).and_then(|()| file.seek(SeekFrom::Start(at)));
        sparse.and_then(|_| file.write_all(mark)).map(|()| path)
    };
    let size = 16 + 784 * u64::from(MANY);
    let images = match put("images", &[0x803, MANY, 28, 28], size, &ink, at) {
        Ok(images) => images,
        Err(error) => return eprintln!("skipped: no sparse file of {size} bytes here: {error}"),
    };
    let [size, at] = [0, 2].map(|before| 8 + u64::from(MANY - before));
    let labels = put("labels", &[0x801, MANY], size, &[7], at).unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let counted = |path: &Path| {
        let bytes = Box::new(fs::File::open(path).unwrap());
        Input::of_bytes("counted", Counted { bytes, read: read.clone() })
    };
    let split = Split::of_idx(counted(&images), counted(&labels), 1).unwrap();
    assert_eq!(split.len(), 5_000_000);
    // Read are every label, the headers, and what fills the readers' buffers.
    let opening = read.swap(0, Ordering::Relaxed);
    assert!(opening <= u64::from(MANY) + (1 << 16), "{opening}");
    let (pixels, labels) = split.read(&[u64::from(MANY) - 3, u64::from(MANY) - 2]).unwrap();
    assert_eq!(labels, [0, 7]);
    assert_eq!(pixels, [[0.0; 784], [1.0; 784]].concat());
    assert_eq!(read.load(Ordering::Relaxed), 2 * 785);
}

/// Bytes that change while they are read.
#[derive(Clone)]
struct Changing(Arc<Mutex<Vec<u8>>>);

impl Changing {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }
}

impl ReadAt for Changing {
    fn size(&self) -> io::Result<u64> {
        self.0.lock().unwrap().size()
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.lock().unwrap().read_exact_at(offset, bytes)
    }
}

#[test]
fn what_changes_after_it_was_opened_is_an_error() {
    let (pixels, digits) = (Changing::new(images(30)), Changing::new(labels(30)));
    let inputs = [("images", pixels.clone()), ("labels", digits.clone())];
    let [images_file, labels_file] = inputs.map(|(name, bytes)| Input::of_bytes(name, bytes));
    let split = Arc::new(Split::of_idx(images_file, labels_file, 1).unwrap());
    let said = |rows: &[u64]| split.read(rows).unwrap_err().to_string();
    digits.0.lock().unwrap()[8 + 20] = 11;
    assert!(split.read(&[19, 21]).is_ok());
    assert_eq!(said(&[21, 20]), "label 20 of i32[30] of labels is 11; legal are 0 to 9");
    pixels.0.lock().unwrap().truncate(16 + 784 * 10);
    assert!(split.read(&[9]).is_ok());
    let cut = "images, byte 7856: it is truncated: 23536 bytes are declared (header and data)";
    assert_eq!(said(&[10]), cut);
    // The same through a data set.
    let batches = split.batches(&[784], 30, 0).unwrap();
    assert_eq!(batches.iter().next().unwrap().unwrap_err().to_string(), cut);
    digits.0.lock().unwrap().clear();
    assert!(said(&[0]).contains("labels, byte 0: it is truncated: 38 bytes"));
}

/// A process reads only its rows of a batch whose rows are split.
#[test]
fn a_batch_reads_its_examples_and_a_process_its_rows() {
    let read = Arc::new(AtomicU64::new(0));
    let counted = |bytes: Vec<u8>| {
        Input::of_bytes("counted", Counted { bytes: Box::new(bytes), read: read.clone() })
    };
    let split = Arc::new(Split::of_idx(counted(images(100)), counted(labels(100)), 1).unwrap());
    let batches = split.batches(&[784], 20, 3).unwrap();
    let weighted = split.weighted_batches(&[784], 30).unwrap();
    for (batches, size, count) in [(batches, 20, 5), (weighted, 30, 4)] {
        let own = batches.rows(5..9, size).unwrap();
        read.store(0, Ordering::Relaxed);
        assert_eq!(batches.iter().filter(Result::is_ok).count(), count);
        assert_eq!(read.swap(0, Ordering::Relaxed), (785 * size * count) as u64);
        assert_eq!(own.iter().filter(Result::is_ok).count(), count);
        assert_eq!(read.swap(0, Ordering::Relaxed), (785 * 4 * count) as u64);
    }
}

#[test]
fn damaged_files_never_panic() {
    let directory = Directory::with_test_set(5);
    let files = [
        ("t10k-images-idx3-ubyte", images(5)),
        ("t10k-labels-idx1-ubyte", labels(5)),
        ("t10k-images-idx3-ubyte", gzip(&images(5))),
        ("t10k-labels-idx1-ubyte", gzip(&labels(5))),
    ];
    let mut refused = 0;
    for round in 0..2_000 {
        let mut rng = Rng::keyed(17, 0, round);
        let (name, good) = &files[rng.below(files.len())];
        let mut bytes = good.clone();
        for _ in 0..=rng.below(3) {
            // Half of the damage is done to the header.
            let reach = if rng.below(2) == 0 { bytes.len().min(20) } else { bytes.len() };
            let place = rng.below(reach);
            match rng.below(4) {
                0 => bytes.truncate(place),
                1 => bytes.insert(place, rng.below(256) as u8),
                _ => {
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = rng.below(256) as u8;
                    }
                }
            }
        }
        directory.put(name, &bytes);
        refused += usize::from(Digits::load(&directory.0).is_err());
        directory.put(name, good);
    }
    assert!((1_000..2_000).contains(&refused), "{refused} of 2000 refused");
}

#[test]
fn the_distributed_test_set_is_read() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/mnist");
    if !dir.is_dir() {
        eprintln!("skipped: no MNIST files in {}", dir.display());
        return;
    }
    let digits = Digits::load(&dir).unwrap();
    let (pixels, labels) = whole(&digits.train);
    assert_eq!(labels[..5], [7, 2, 1, 0, 4]);
    let all = digits.train.len() + digits.test.len();
    assert!(all == 10_000 || all == 70_000, "{all}");
    assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    let ink = pixels.iter().map(|&pixel| f64::from(pixel)).sum::<f64>() / pixels.len() as f64;
    assert!((0.1..0.2).contains(&ink), "{ink}");
}

#[test]
fn an_example_depends_on_seed_split_and_index_only() {
    let (few, more) = (Digits::generate(3, 20, 10), Digits::generate(3, 40, 20));
    assert_eq!(whole(&few.train).0, whole(&more.train).0[..20 * 784]);
    assert_eq!(whole(&few.test).1, whole(&more.test).1[..10]);
    assert_ne!(whole(&few.train).0[..10 * 784], whole(&few.test).0);
    assert_ne!(whole(&few.train), whole(&Digits::generate(4, 20, 10).train));
}

#[test]
fn generated_bits_are_the_same_everywhere() {
    let (pixels, labels) = whole(&Digits::generate(1, 200, 0).train);
    let bits = pixels.iter().map(|pixel| u64::from(pixel.to_bits()));
    let labels = labels.iter().map(|&label| label as u64);
    let digest = bits.chain(labels).fold(0xcbf2_9ce4_8422_2325_u64, |digest, part| {
        (digest ^ part).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(digest, 0xe11c_63af_5913_8e56, "{digest:#x}");
}

#[test]
fn generated_digits_are_balanced_inked_and_inside_the_range() {
    let (pixels, labels) = whole(&Digits::generate(5, 4_000, 0).train);
    let mut counts = [0; CLASSES];
    for &label in &labels {
        counts[label as usize] += 1;
    }
    assert!(counts.iter().all(|count| (320..480).contains(count)), "{counts:?}");
    assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    for (image, label) in pixels.chunks(PIXELS).zip(&labels) {
        let inked = image.iter().filter(|&&pixel| pixel > 0.5).count();
        assert!((15..300).contains(&inked), "a {label} with {inked} inked pixels");
    }
    assert!(Digits::generate(1, 0, 0).train.is_empty());
}

/// A nearest-mean classifier does better than chance, and far from perfectly.
#[test]
fn generated_digits_can_be_told_apart_but_not_by_their_means() {
    let digits = Digits::generate(9, 3_000, 500);
    let [train, test] = [&digits.train, &digits.test].map(|split| {
        let (pixels, labels) = whole(split);
        (Array2::from_shape_vec((split.len(), PIXELS), pixels).unwrap(), labels)
    });
    let mut means = vec![ndarray::Array1::<f32>::zeros(PIXELS); CLASSES];
    let mut counts = [0.0_f32; CLASSES];
    for (image, &label) in train.0.outer_iter().zip(&train.1) {
        means[label as usize] += &image;
        counts[label as usize] += 1.0;
    }
    means.iter_mut().zip(counts).for_each(|(mean, count)| *mean /= count);
    let nearest = |image: ndarray::ArrayView1<'_, f32>| {
        let away = |mean: &ndarray::Array1<f32>| (mean - &image).mapv(|d| d * d).sum();
        (0..CLASSES).min_by(|&a, &b| away(&means[a]).total_cmp(&away(&means[b]))).unwrap()
    };
    let pairs = test.0.outer_iter().zip(&test.1);
    let right = pairs.filter(|(image, label)| nearest(*image) == **label as usize).count();
    assert!((250..425).contains(&right), "{right} of 500");
}
