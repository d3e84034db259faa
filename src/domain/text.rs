//! Parts of texts.

/// As much of `text` as there is in `longest` bytes.
pub fn beginning_of(text: &str, longest: usize) -> &str {
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    if text.len() <= longest { text } else { text.get(..end).unwrap_or_default() }
}
