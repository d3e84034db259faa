//! How deep the text of an expression nests, told before it is parsed: the parser calls itself for each bracket, and needs
//! some 10 KiB of stack for it. It has a bound of its own, which is twice as far.

use super::bounds::MAX_DEPTH;

/// # Errors
/// Brackets stand in each other deeper than an expression may nest.
pub fn check(source: &str) -> Result<(), String> {
    let mut rest = source;
    let (mut depth, mut word) = (0_usize, "");
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\'' | '"' => length = text_length(rest, is_raw(word)),
            '/' if rest.starts_with("//") => length = rest.find('\n').unwrap_or(rest.len()),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("nests deeper than {MAX_DEPTH}"));
        }
        let is_of_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        word = if is_of_word(first) {
            length = rest.find(|character| !is_of_word(character)).unwrap_or(rest.len());
            &rest[..length]
        } else {
            ""
        };
        rest = &rest[length..];
    }
    Ok(())
}

/// Whether text after this word has no escapes: `r'\'`.
fn is_raw(word: &str) -> bool {
    matches!(word.strip_prefix(['b', 'B']).unwrap_or(word), "r" | "R")
}

/// The bytes of the quoted text that `source` begins with, quotes included; text in single quotes ends with its line.
fn text_length(source: &str, is_raw: bool) -> usize {
    let quote = if source.starts_with("'''") || source.starts_with("\"\"\"") { &source[..3] } else { &source[..1] };
    let mut is_escaped = false;
    for (place, character) in source.char_indices().skip(quote.len()) {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        if source[place..].starts_with(quote) {
            return place + quote.len();
        }
        if quote.len() == 1 && matches!(character, '\n' | '\r') {
            return place;
        }
        is_escaped = character == '\\' && !is_raw;
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_may_stand_in_each_other_so_deep_and_beside_each_other_for_ever() {
        for (opening, closing) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("f(", ")"), ("a[", "]")] {
            let most = opening.repeat(MAX_DEPTH) + "1" + &closing.repeat(MAX_DEPTH);
            assert_eq!(check(&format!("{most} == {most}")), Ok(()));
            assert_eq!(check(&format!("({most})")), Err("nests deeper than 48".to_owned()));
        }
    }

    #[test]
    fn brackets_in_texts_and_comments_count_for_nothing() {
        let (open, close) = ("(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH));
        for (before, after) in [
            ("'", "'"),
            ("\"it's ", "\""),
            ("'it\\'s ", "'"),
            ("'''it's\n", "'''"),
            ("\"\"\"\\\"\"\" ", "\"\"\""),
            ("r'\\' + '", "'"),
            ("bR\"\\\" + \"", "\""),
            ("// it's ", "\n"),
        ] {
            assert_eq!(check(&format!("({before}{open}{after}{close}")), Ok(()), "{before}");
            assert!(check(&format!("{open}{before}{close}{after}(")).is_err(), "{before}");
        }
    }
}
