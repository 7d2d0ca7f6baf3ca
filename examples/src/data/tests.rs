//! Whole data sets: written to and read from directories, and generated.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::{Compression, write::GzEncoder};

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
    assert_eq!(digits.test.labels.to_vec(), [9, 0]);
    assert_eq!(digits.train.images[[0, 0, 5]], 5.0 / 255.0);
    assert_eq!(digits.test.images[[0, 0, 0]], ((9 * 784) % 251) as f32 / 255.0);
}

#[test]
fn two_pairs_are_both_read_and_compression_is_seen_by_content() {
    let directory = Directory::with_test_set(3);
    directory.put("train-images-idx3-ubyte", &gzip(&images(7)));
    directory.put("train-labels-idx1-ubyte.gz", &gzip(&labels(7)));
    let digits = Digits::load(&directory.0).unwrap();
    assert_eq!((digits.train.len(), digits.test.len()), (7, 3));
    assert_eq!(digits.train.images.shape(), [7, 28, 28]);

    directory.put("train-images-idx3-ubyte", &images(7));
    directory.put("train-labels-idx1-ubyte.gz", &labels(7));
    assert_eq!(Digits::load(&directory.0).unwrap().train, digits.train);
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
        (image_file(&good_labels), "magic number is 0x00000801, legal is 0x00000803"),
        (image_file(&idx(&[0xd03, 5, 28, 28], [])), "is no IDX file of images"),
        (label_file(&good_images), "is no IDX file of labels"),
        (label_file(b""), "truncated: 8 bytes are declared (header and data), it holds 0"),
        (image_file(&good_images[..14]), "truncated: 16 bytes"),
        (image_file(&good_images[..100]), "truncated: 3936 bytes are declared"),
        (image_file(&longer(&good_images)), "goes on after the 3936 bytes"),
        (label_file(&longer(&good_labels)), "goes on after the 13 bytes"),
        (label_file(&good_labels[..12]), "truncated: 13 bytes"),
        (image_file(&idx(&[0x803, 5, 32, 28], [])), "images of 32x28 pixels; legal is 28x28"),
        (image_file(&idx(&[0x803, u32::MAX, 28, 28], [])), "legal are 5 to 1000000"),
        (label_file(&labels(4)), "declares 4 examples; legal are 5 to"),
        (label_file(&labels(6)), "declares 5 images and"),
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

/// The same bytes again and again.
struct Endless {
    bytes: Vec<u8>,
    taken: usize,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let size = into.len().min(self.bytes.len() - self.taken);
        into[..size].copy_from_slice(&self.bytes[self.taken..][..size]);
        self.taken = (self.taken + size) % self.bytes.len();
        Ok(size)
    }
}

/// A gzip stream goes on in its next member: this one decompresses to zeros without end.
#[test]
fn no_more_is_decompressed_than_is_declared() {
    let bomb = || Endless { bytes: gzip(&[0; 1 << 20]), taken: 0 };
    let (good_images, good_labels) = (gzip(&images(5)), gzip(&labels(5)));
    let said = Split::read(good_images[..].chain(bomb()), &good_labels[..]).unwrap_err();
    assert!(said.to_string().contains("images goes on after the 3936 bytes"), "{said}");
    let said = Split::read(&good_images[..], good_labels[..].chain(bomb())).unwrap_err();
    assert!(said.to_string().contains("labels goes on after the 13 bytes"), "{said}");
    let said = Split::read(bomb(), &good_labels[..]).unwrap_err();
    assert!(said.to_string().contains("images is no IDX file"), "{said}");
}

#[test]
fn streams_are_read_as_files_are() {
    let split = Split::read(&gzip(&images(5))[..], &labels(5)[..]).unwrap();
    assert_eq!((split.len(), split.images[[0, 0, 5]]), (5, 5.0 / 255.0));
    let said = Split::read(&images(5)[..], &labels(4)[..]).unwrap_err().to_string();
    assert_eq!(
        said,
        "images declares 5 images and labels declares 4 labels; a pair needs as many of each"
    );
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
            // Half of the damage falls on the header.
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
    assert_eq!(digits.train.labels.to_vec()[..5], [7, 2, 1, 0, 4]);
    let all = digits.train.len() + digits.test.len();
    assert!(all == 10_000 || all == 70_000, "{all}");
    assert!(digits.train.images.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    let ink = digits.train.images.mean().unwrap();
    assert!((0.1..0.2).contains(&ink), "{ink}");
}

#[test]
fn an_example_depends_on_seed_split_and_index_only() {
    let (few, more) = (Digits::generate(3, 20, 10), Digits::generate(3, 40, 20));
    assert_eq!(few.train.images, more.train.images.slice(ndarray::s![..20, .., ..]));
    assert_eq!(few.test.labels, more.test.labels.slice(ndarray::s![..10]));
    assert_ne!(few.train.images.slice(ndarray::s![..10, .., ..]), few.test.images);
    assert_ne!(few.train, Digits::generate(4, 20, 10).train);
}

#[test]
fn generated_bits_are_the_same_everywhere() {
    let split = Digits::generate(1, 200, 0).train;
    let bits = split.images.iter().map(|pixel| u64::from(pixel.to_bits()));
    let labels = split.labels.iter().map(|&label| label as u64);
    let digest = bits.chain(labels).fold(0xcbf2_9ce4_8422_2325_u64, |digest, part| {
        (digest ^ part).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(digest, 0xe11c_63af_5913_8e56, "{digest:#x}");
}

#[test]
fn generated_digits_are_balanced_inked_and_inside_the_range() {
    let split = Digits::generate(5, 4_000, 0).train;
    let mut counts = [0; CLASSES];
    for &label in &split.labels {
        counts[label as usize] += 1;
    }
    assert!(counts.iter().all(|count| (320..480).contains(count)), "{counts:?}");
    assert!(split.images.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    for (image, label) in split.images.outer_iter().zip(&split.labels) {
        let inked = image.iter().filter(|&&pixel| pixel > 0.5).count();
        assert!((15..300).contains(&inked), "a {label} with {inked} inked pixels");
    }
    assert!(Digits::generate(1, 0, 0).train.is_empty());
}

/// A nearest-mean classifier tells apart what it can, but the digits are not that easy.
#[test]
fn generated_digits_can_be_told_apart_but_not_by_their_means() {
    let digits = Digits::generate(9, 3_000, 500);
    let mut means = vec![ndarray::Array2::<f32>::zeros((SIDE, SIDE)); CLASSES];
    let mut counts = [0.0_f32; CLASSES];
    for (image, &label) in digits.train.images.outer_iter().zip(&digits.train.labels) {
        means[label as usize] += &image;
        counts[label as usize] += 1.0;
    }
    means.iter_mut().zip(counts).for_each(|(mean, count)| *mean /= count);
    let nearest = |image: ndarray::ArrayView2<'_, f32>| {
        let away = |mean: &ndarray::Array2<f32>| (mean - &image).mapv(|d| d * d).sum();
        (0..CLASSES).min_by(|&a, &b| away(&means[a]).total_cmp(&away(&means[b]))).unwrap()
    };
    let pairs = digits.test.images.outer_iter().zip(&digits.test.labels);
    let right = pairs.filter(|(image, label)| nearest(*image) == **label as usize).count();
    assert!((250..425).contains(&right), "{right} of 500");
}
