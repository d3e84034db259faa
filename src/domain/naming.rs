//! What people read in place of ids: what a session is called, and what an agent is.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::message::ChatMessage;

/// The longest title, in characters; what is left out is an ellipsis.
pub const LONGEST_TITLE: usize = 80;
/// Among how many of the messages that a session begins with the first of a person is looked for.
pub const TITLE_AMONG: usize = 8;

/// What tells no agent from another: the variable that it is in, and what it calls itself where nobody gave it a name.
const COMMON: [&str; 11] =
    ["agent", "app", "graph", "main", "root_agent", "run", "workflow", "Agent", "Graph", "LangGraph", "ReActAgent"];

/// The title of a session that begins with a message: its text on one line, cut at a word; of one without text the name of its
/// first file, or what that is. `None` where it has neither.
pub fn title_of(message: &ChatMessage) -> Option<String> {
    message.content.as_deref().and_then(title_in).or_else(|| {
        let is_image = message.base64_image.as_deref().is_some_and(|image| !image.is_empty());
        let attached = message
            .attachments
            .iter()
            .flatten()
            .map(|file| FirstFile { is_image: file.media_type.starts_with(IMAGE), name: file.name.clone() });
        is_image.then(FirstFile::image).into_iter().chain(attached).next().map(FirstFile::title)
    })
}

/// The same of a message as stores have it, or of its beginning: the bytes of a file come after all else. What cannot be read has no
/// title: a list is for those who look for something else.
pub fn title_of_stored(message: &str) -> Option<String> {
    let Beginning { content, file } = beginning_of(message);
    content.as_deref().and_then(title_in).or_else(|| file.map(FirstFile::title))
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

/// What a title is made of, as far as it was read.
#[derive(Default)]
struct Beginning {
    content: Option<String>,
    file: Option<FirstFile>,
}

/// The first of the files that are attached to a message.
#[derive(Default)]
struct FirstFile {
    is_image: bool,
    name: Option<String>,
}

/// What media types of images begin with.
const IMAGE: &str = "image/";

impl FirstFile {
    fn image() -> Self {
        Self { is_image: true, name: None }
    }

    fn title(self) -> String {
        let word = if self.is_image { "An image" } else { "A file" };
        self.name.as_deref().and_then(title_in).unwrap_or_else(|| word.to_owned())
    }
}

/// What there is of it in a message in JSON, of which the end may be missing.
fn beginning_of(message: &str) -> Beginning {
    let mut found = Beginning::default();
    let whole = serde_json::Deserializer::from_str(message).deserialize_map(BeginningIn(&mut found));
    if found.content.is_some() || found.file.is_some() || whole.is_ok() {
        return found;
    }
    // The text itself is cut off, perhaps within a character that is escaped: twelve bytes at the most, for two halves.
    for less in 0..=12 {
        let Some(text) = message.len().checked_sub(less).and_then(|end| message.get(..end)) else { continue };
        let text = format!("{text}\"}}");
        if serde_json::Deserializer::from_str(&text).deserialize_map(BeginningIn(&mut found)).is_ok() {
            break;
        }
    }
    found
}

/// Keeps what a title is made of, also where what comes after it cannot be read.
struct BeginningIn<'b>(&'b mut Beginning);

impl<'de> Visitor<'de> for BeginningIn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "content" => self.0.content = members.next_value()?,
                "base64_image" => {
                    let image = members.next_value::<Option<&str>>();
                    // An error is one that is longer than what is read of the message.
                    if !matches!(image, Ok(None | Some(""))) {
                        self.0.file = Some(FirstFile::image());
                    }
                    image?;
                }
                "attachments" if self.0.file.is_none() => {
                    members.next_value_seed(FirstFileIn(&mut self.0.file))?;
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Keeps the first of attachments, also where what comes after its name cannot be read.
struct FirstFileIn<'f>(&'f mut Option<FirstFile>);

impl<'de> DeserializeSeed<'de> for FirstFileIn<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, attachments: D) -> Result<(), D::Error> {
        attachments.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FirstFileIn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attachments")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut files: A) -> Result<(), A::Error> {
        files.next_element_seed(FirstFileIn(self.0))?;
        while files.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let file = self.0.insert(FirstFile::default());
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "media_type" => file.is_image = members.next_value::<String>()?.starts_with(IMAGE),
                "name" => file.name = members.next_value()?,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
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
    use crate::domain::message::Attachment;

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

    fn of_files(base64_image: Option<&str>, files: &[(&str, Option<&str>)]) -> ChatMessage {
        let file = |(media_type, name): &(&str, Option<&str>)| Attachment {
            media_type: (*media_type).to_owned(),
            name: name.map(str::to_owned),
            data: Some("A".repeat(8_000)),
            url: None,
        };
        ChatMessage {
            base64_image: base64_image.map(str::to_owned),
            attachments: Some(files.iter().map(file).collect()),
            ..ChatMessage::default()
        }
    }

    #[test]
    fn a_message_of_files_alone_is_called_by_the_first_of_them() {
        let (pdf, png) = (("application/pdf", Some(" Q3\n report.pdf")), ("image/png", None));
        for (message, title) in [
            (of_files(None, &[pdf, png]), Some("Q3 report.pdf")),
            (of_files(None, &[png, pdf]), Some("An image")),
            (of_files(None, &[("application/pdf", Some(" "))]), Some("A file")),
            (of_files(Some(&"A".repeat(8_000)), &[pdf]), Some("An image")),
            (of_files(Some(""), &[pdf]), Some("Q3 report.pdf")),
            (of_files(None, &[]), None),
            (ChatMessage { content: Some(" ".to_owned()), ..of_files(None, &[pdf]) }, Some("Q3 report.pdf")),
            (ChatMessage { content: Some("Read it".to_owned()), ..of_files(None, &[pdf]) }, Some("Read it")),
        ] {
            let stored = serde_json::to_string(&message).unwrap();
            assert_eq!(title_of(&message).as_deref(), title, "{stored}");
            for beginning in [stored.as_str(), &stored[..stored.len().min(4096)]] {
                assert_eq!(title_of_stored(beginning).as_deref(), title, "{beginning}");
            }
        }
    }

    #[test]
    fn a_file_that_was_stored_with_its_name_after_its_bytes_is_called_by_what_it_is_where_only_the_beginning_is_read() {
        let data = "A".repeat(8_000);
        let stored = json!({"content": null, "attachments": [{"media_type": "a/b", "data": data}]})
            .to_string()
            .replace("}]", ",\"name\":\"a.b\"}]");
        assert_eq!(title_of_stored(&stored).as_deref(), Some("a.b"));
        assert_eq!(title_of_stored(&stored[..4096]).as_deref(), Some("A file"));
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
