//! Parts of texts.

/// As much of `text` as there is in `longest` bytes.
pub fn beginning_of(text: &str, longest: usize) -> &str {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}
