//! `q`: sessions and interrupts that say something, whatever the case.

use serde_json::Value;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    plain: String,
    /// As it would stand inside a JSON string.
    quoted: String,
}

impl Needle {
    /// Looks for `text`.
    pub fn new(text: &str) -> Self {
        let plain = fold(text);
        let quoted = Value::from(plain.as_str()).to_string();
        let inner = quoted.len().saturating_sub(1);
        Self { quoted: quoted.get(1..inner).unwrap_or_default().to_owned(), plain }
    }

    /// What is looked for, in lower case.
    pub fn as_str(&self) -> &str {
        &self.plain
    }

    /// Whether a text says it.
    pub fn is_in(&self, text: &str) -> bool {
        fold(text).contains(&self.plain)
    }

    /// Whether a value in compact JSON says it. Names of members, and JSON's own signs, say nothing.
    pub fn is_in_json(&self, json: &str) -> bool {
        // Most do not: those are told without being read.
        fold(json).contains(&self.quoted)
            && serde_json::from_str(json).is_ok_and(|value: Value| self.is_in_value(&value))
    }

    /// The same for a value that has been read.
    pub fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::Object(members) => members.values().any(|member| self.is_in_value(member)),
            Value::Array(items) => items.iter().any(|item| self.is_in_value(item)),
            Value::String(text) => self.is_in(text),
            Value::Number(number) => self.is_in(&number.to_string()),
            Value::Bool(_) | Value::Null => false,
        }
    }
}

/// Each character in lower case by itself: `str::to_lowercase` looks at those around it, which quoting changes.
fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().flat_map(char::to_lowercase).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_found_in_values_at_any_depth_whatever_the_case() {
        let payload = json!({"tool_name": "delete_file", "tool_args": {"paths": ["/srv/Über\"uns\"\n.txt", 1234]}});
        for text in ["DELETE", "/srv/über", "\"UNS\"\n", "123", "e_f"] {
            assert!(Needle::new(text).is_in_json(&payload.to_string()), "{text}");
            assert!(Needle::new(text).is_in_value(&payload), "{text}");
        }
    }

    #[test]
    fn names_of_members_and_signs_of_json_say_nothing() {
        let payload = json!({"tool_name": "x", "tool_args": {"paths": [true, null]}});
        for text in ["tool_name", "paths", "\":", ",", "{", "true", "null", "\\u"] {
            assert!(!Needle::new(text).is_in_json(&payload.to_string()), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_part_of_a_text_finds_it(before in ".{0,4}", text in ".{1,6}", after in ".{0,4}") {
            let payload = json!({"k": [format!("{before}{text}{after}")]});
            let needle = Needle::new(&text);
            prop_assert_eq!(needle.is_in_json(&payload.to_string()), needle.is_in_value(&payload));
        }
    }
}
