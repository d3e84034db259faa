//! What people read in place of ids: what a session is called, and what an agent is.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::message::ChatMessage;

/// The longest title, in characters; what is left out is an ellipsis.
pub const LONGEST_TITLE: usize = 80;
/// Among how many of the messages that a session begins with the first of a person is looked for.
pub const TITLE_AMONG: usize = 8;

/// What tells no agent from another: the variable that it is in, and what it calls itself where nobody gave it a name.
const COMMON: [&str; 11] =
    ["agent", "app", "graph", "main", "root_agent", "run", "workflow", "Agent", "Graph", "LangGraph", "ReActAgent"];

/// The title of a session that begins with a message: its text on one line, cut at a word. `None` where it has no text.
pub fn title_of(message: &ChatMessage) -> Option<String> {
    title_in(message.content.as_deref()?)
}

/// The same of a message as stores have it, or of its beginning: an image may come after the text. What cannot be read has no title: a
/// list is for those who look for something else.
pub fn title_of_stored(message: &str) -> Option<String> {
    title_in(&content_of(message)?)
}

fn title_in(text: &str) -> Option<String> {
    let mut title = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let room = LONGEST_TITLE.saturating_sub(length + usize::from(length > 0));
        // No further than needed: a word may be a whole document.
        let longer = word.chars().nth(room).is_some();
        if longer && length > 0 {
            while length >= LONGEST_TITLE {
                title.pop();
                length -= 1;
            }
            title.push('…');
            return Some(title);
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        if longer {
            title.extend(word.chars().take(LONGEST_TITLE - 1));
            title.push('…');
            return Some(title);
        }
        title.push_str(word);
        length += word.chars().count();
    }
    (!title.is_empty()).then_some(title)
}

/// The member `content` of a message in JSON, of which the end may be missing.
fn content_of(message: &str) -> Option<String> {
    let mut content = None;
    let whole = serde_json::Deserializer::from_str(message).deserialize_map(ContentIn(&mut content));
    if content.is_some() || whole.is_ok() {
        return content;
    }
    // The text itself is cut off, perhaps within a character that is escaped: twelve bytes at the most, for two halves.
    (0..=12).find_map(|less| {
        let end = message.len().checked_sub(less)?;
        let text = format!("{}\"}}", message.get(..end)?);
        serde_json::Deserializer::from_str(&text).deserialize_map(ContentIn(&mut content)).ok()?;
        content.take()
    })
}

/// Keeps the member `content`, also where what comes after it cannot be read.
struct ContentIn<'c>(&'c mut Option<String>);

impl<'de> Visitor<'de> for ContentIn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == "content" {
                *self.0 = members.next_value()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// What people call an agent: what it calls itself (`own`), where that is known and tells it from others, else what its path
/// says, `MODULE:ATTR`: the attribute, or, where that is what everybody calls it, the module's last part. What is no path is
/// a name already.
pub fn agent_name<'n>(own: Option<&'n str>, path: &'n str) -> &'n str {
    if let Some(own) = own.filter(|own| !own.is_empty() && !COMMON.contains(own)) {
        return own;
    }
    let Some((module, attribute)) = path.split_once(':') else { return path };
    let module = module.rsplit('.').next().unwrap_or(module);
    let name = if COMMON.contains(&attribute) || attribute.is_empty() { module } else { attribute };
    if name.is_empty() { path } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_title_is_the_text_on_one_line() {
        for (text, title) in [
            ("Refund order 1042", Some("Refund order 1042")),
            ("  Refund\n\n\torder  1042\r\n", Some("Refund order 1042")),
            ("", None),
            (" \n\t ", None),
        ] {
            assert_eq!(title_in(text).as_deref(), title, "{text:?}");
        }
        assert_eq!(title_of(&ChatMessage::default()), None);
    }

    #[test]
    fn a_long_one_is_cut_at_a_word_and_a_long_word_anywhere() {
        let fits = format!("{} {}", "a".repeat(40), "b".repeat(39));
        assert_eq!(title_in(&fits).as_deref(), Some(fits.as_str()));
        let words = format!("{} {} {}", "a".repeat(40), "b".repeat(20), "c".repeat(30));
        assert_eq!(title_in(&words), Some(format!("{} {}…", "a".repeat(40), "b".repeat(20))));
        assert_eq!(title_in(&"ä".repeat(2_000)), Some(format!("{}…", "ä".repeat(79))));
    }

    #[test]
    fn it_is_read_from_the_beginning_of_what_is_stored() {
        let whole =
            json!({"role": "user", "content": "Look at \"this\"\n\u{1f600}", "base64_image": "AAAA"}).to_string();
        let title = Some("Look at \"this\" \u{1f600}".to_owned());
        assert_eq!(title_of_stored(&whole), title);
        let cut = whole.find("AAAA").unwrap() + 2;
        assert_eq!(title_of_stored(&whole[..cut]), title);
        for text in ["", "{", "[]", "null", "{\"role\":\"us", "{\"role\":\"user\",\"content\":7}", "{\"content\":null}"]
        {
            assert_eq!(title_of_stored(text), None, "{text}");
        }
    }

    #[test]
    fn an_agent_is_called_by_what_tells_it_from_others() {
        for (own, path, name) in [
            (Some("support_desk"), "shop.support:desk", "support_desk"),
            (Some("ReActAgent"), "examples.file_agent:agent", "file_agent"),
            (None, "examples.file_agent:agent", "file_agent"),
            (None, "shop.support:desk", "desk"),
            (None, "app:app", "app"),
            (None, "support_desk", "support_desk"),
            (Some(""), ":", ":"),
            (None, "", ""),
        ] {
            assert_eq!(agent_name(own, path), name);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_title_is_longer_than_it_may_be_or_has_white_space_but_single_blanks(text in "(.|[a-z ]{0,90}){0,9}") {
            if let Some(title) = title_in(&text) {
                prop_assert!((1..=LONGEST_TITLE).contains(&title.chars().count()));
                prop_assert_eq!(title.split_whitespace().collect::<Vec<_>>().join(" "), title);
            }
        }

        #[test]
        fn wherever_a_stored_message_is_cut_after_its_title_it_is_the_same(text in "\\PC{1,200}", cut in 0..400_usize) {
            let filled = format!("{text} {}", "word ".repeat(40));
            let stored = json!({"role": "user", "content": filled}).to_string();
            let whole = title_of_stored(&stored);
            let end = (stored.len() - cut.min(stored.len() / 3)).min(stored.len());
            let end = (0..=end).rev().find(|end| stored.is_char_boundary(*end)).unwrap_or_default();
            if end > stored.len() / 2 + 400 {
                prop_assert_eq!(title_of_stored(&stored[..end]), whole);
            }
        }

        #[test]
        fn nothing_that_is_stored_is_a_panic(text in "\\{\"content\":\"(.|\\\\u[0-9a-f]{0,4}){0,40}") {
            drop(title_of_stored(&text));
        }
    }
}
