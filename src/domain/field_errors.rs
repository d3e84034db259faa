//! What is wrong with one request or answer, gathered up to a bound: whoever sends a million wrong places is told of the
//! first, and costs the server no more than those.

use super::error::{FieldError, LocSegment};

/// The most errors that one request is told of, each by itself.
pub const MOST: usize = 50;
/// The longest text of one of them, in characters.
const LONGEST: usize = 2000;

/// Gathers what is wrong.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    more: usize,
}

impl FieldErrors {
    /// Notes an error, which is only made where it is told of.
    pub fn push(&mut self, error: impl FnOnce() -> FieldError) {
        if self.is_full() {
            self.more = self.more.saturating_add(1);
        } else {
            self.errors.push(shortened(error()));
        }
    }

    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether what comes now is counted and no more.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MOST
    }

    /// All of them, and at the end, at `whole`, how many more there are.
    pub fn into_vec<P: Into<LocSegment>>(self, whole: impl IntoIterator<Item = P>) -> Vec<FieldError> {
        let Self { mut errors, more } = self;
        if more > 0 {
            errors.push(FieldError::new(whole, "too_many_errors", format!("and {more} more")));
        }
        errors
    }
}

fn shortened(mut error: FieldError) -> FieldError {
    if let Some((end, _)) = error.msg.char_indices().nth(LONGEST) {
        error.msg.truncate(end);
        error.msg.push('\u{2026}');
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::error::NOWHERE;

    fn gathered(count: usize, msg: &str) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        for index in 0..count {
            errors.push(|| FieldError::new([index], "wrong", msg));
        }
        errors.into_vec(NOWHERE)
    }

    #[test]
    fn up_to_the_bound_each_is_told() {
        assert_eq!(gathered(0, "no"), []);
        let all = gathered(MOST, "no");
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|error| error.kind == "wrong" && error.msg == "no"));
    }

    #[test]
    fn beyond_the_bound_they_are_counted_and_not_made() {
        let told = gathered(MOST + 7, "no");
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told.last(), Some(&FieldError::new(NOWHERE, "too_many_errors", "and 7 more")));
        let mut errors = FieldErrors::default();
        (0..MOST).for_each(|index| errors.push(|| FieldError::new([index], "wrong", "no")));
        errors.push(|| panic!("made"));
    }

    #[test]
    fn a_text_is_no_longer_than_its_bound() {
        let long = "\u{e4}".repeat(LONGEST);
        assert_eq!(gathered(1, &long)[0].msg, long);
        assert_eq!(gathered(1, &format!("{long}bc"))[0].msg, format!("{long}\u{2026}"));
    }
}
