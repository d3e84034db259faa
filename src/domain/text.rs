//! Parts of texts, and texts as a terminal may have them.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_general_category::{GeneralCategory, get_general_category};

/// As much of `text` as there is in `longest` bytes.
pub fn beginning_of(text: &str, longest: usize) -> &str {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

/// How a character is written out that a terminal is not to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenOut {
    /// As Rust and Python have it: `\r`, `\u{202e}`.
    ForPeople,
    /// As JSON has it: `\u202e`. Where JSON is written, these stand inside of texts alone.
    ForJson,
}

/// `text` with everything written out that moves the cursor, turns the direction of what stands beside it or shows nothing,
/// so that it looks like what it is: what somebody sent may be in it. New lines and tabs stay.
pub fn for_terminal(text: &str, how: WrittenOut) -> Cow<'_, str> {
    // Of most texts nothing is written out.
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) || !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match how {
            _ if !is_unsafe(character) => shown.push(character),
            WrittenOut::ForPeople => shown.extend(character.escape_default()),
            WrittenOut::ForJson => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // A string takes whatever is written.
                    let _written = write!(shown, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(shown)
}

/// The rule of `python/hitl/cli/text.py`: the two joiners are invisible, but scripts and emoji need them.
fn is_unsafe(character: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    match character {
        '\n' | '\t' | '\u{200c}' | '\u{200d}' => false,
        ' '..='~' => false,
        other => {
            matches!(get_general_category(other), Control | Format | LineSeparator | ParagraphSeparator)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_turns_text_around_is_written_out() {
        let shown = |text: &str| for_terminal(text, WrittenOut::ForPeople).into_owned();
        assert_eq!(shown("50 %\rdone"), "50 %\\rdone");
        assert_eq!(shown("\u{202e}txt.exe"), "\\u{202e}txt.exe");
        assert_eq!(shown("\u{1b}[2J \u{9b}2J \u{7f}\0"), "\\u{1b}[2J \\u{9b}2J \\u{7f}\\u{0}");
        assert_eq!(shown("a\u{2028}b\u{feff}"), "a\\u{2028}b\\u{feff}");
    }

    #[test]
    fn what_can_be_seen_stays() {
        for text in ["", "two\nlines\tand a tab", "日本語 🦀 ÄÖÜ \"\\", "می\u{200c}خواهم 👩\u{200d}🚀"]
        {
            assert_eq!(for_terminal(text, WrittenOut::ForPeople), text);
            assert!(matches!(for_terminal(text, WrittenOut::ForJson), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn json_says_the_same_before_and_after() {
        let value = serde_json::json!({"said": "\u{202e}\r\u{7f}\u{e0001}é\n"});
        let text = value.to_string();
        let shown = for_terminal(&text, WrittenOut::ForJson);
        assert_eq!(shown, "{\"said\":\"\\u202e\\r\\u007f\\udb40\\udc01é\\n\"}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
