//! Images in a report.

use super::text::escape;
use std::fmt::Write;

/// A grey image, as of a model's samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// The image's title.
    pub title: String,
    /// Pixels of a row. At the end of `pixels` a row that is not full is left out.
    pub width: usize,
    /// Row after row from the top: 0 is black, 255 white.
    pub pixels: Vec<u8>,
}

/// The bytes before the palette: the headers of the file and of the image.
const HEADERS: u32 = 54;
/// The bytes of a palette of 256 colours.
const PALETTE: u32 = 1024;

impl Image {
    /// As a device-independent bitmap with a palette of greys (BITMAPINFOHEADER); nothing for an image without a
    /// full row, or of 4 GiB.
    fn bitmap(&self) -> Option<Vec<u8>> {
        let rows = self.pixels.chunks_exact(self.width.max(1));
        let (width, height) = (u32::try_from(self.width).ok()?, u32::try_from(rows.len()).ok()?);
        // Rows are filled up to whole words.
        let stride = width.checked_next_multiple_of(4)?;
        let size = stride.checked_mul(height)?.checked_add(HEADERS + PALETTE)?;
        if width == 0 || height == 0 {
            return None;
        }
        let mut file = Vec::with_capacity(size as usize);
        file.extend(b"BM");
        let words = [size, 0, HEADERS + PALETTE, 40, width, height];
        file.extend(words.into_iter().flat_map(u32::to_le_bytes));
        // One plane of 8 bits each, not compressed; the rest is as a reader chooses.
        file.extend([1, 0, 8, 0]);
        file.extend([0; 24]);
        (0..=255).for_each(|grey| file.extend([grey, grey, grey, 0]));
        for row in rows.rev() {
            file.extend(row);
            file.resize(file.len() + (stride - width) as usize, 0);
        }
        Some(file)
    }

    /// The image with its title, three screen pixels for each of its own.
    pub(super) fn write(&self, page: &mut String) {
        let Some(bitmap) = self.bitmap() else { return };
        let (title, width) = (escape(&self.title), 3 * self.width);
        let _ = writeln!(
            page,
            "<figure>\n<figcaption>{title}</figcaption>\n<img alt=\"{title}\" width=\"{width}\" \
             style=\"image-rendering:pixelated;max-width:100%\" \
             src=\"data:image/bmp;base64,{}\">\n</figure>",
            base64(&bitmap)
        );
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, i| word << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn text_of_bytes() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_bitmap_has_its_rows_from_below() {
        let image = Image { title: "<two>".to_owned(), width: 2, pixels: vec![1, 2, 3, 4, 5] };
        let file = image.bitmap().unwrap();
        assert_eq!(file.len(), 54 + 1024 + 8);
        assert_eq!(&file[2..6], (file.len() as u32).to_le_bytes());
        assert_eq!(&file[54 + 1024..], [3, 4, 0, 0, 1, 2, 0, 0]);
        let mut page = String::new();
        image.write(&mut page);
        assert!(page.contains("&lt;two&gt;") && page.contains("data:image/bmp;base64,Qk0"));
        assert_eq!(Image::default().bitmap(), None);
    }
}
