//! What is attached inside of a value that a tool returned, as the worker's codec wrote it (`python/hitl/journal/codec.py`).

use serde::Serialize;
use serde_json::Value;

use super::message::{Attachment, shortened_name};

/// The member that tells what the codec wrote from a plain object: one with such a member of its own is a list of pairs.
const TAG: &str = "$hitl";
/// The class of an attachment, as the codec names it; one of a class made of it has the member [`MARK`].
const CLASS: &str = "hitl.attachments:Attachment";
/// See [`CLASS`].
const MARK: &str = "attachment";

/// How many files of one message or result are shown beside a journal or an event. What a person can look at; the marks of
/// a result name the others too.
pub const MOST_SHOWN: usize = 32;

/// An attachment beside an entry of a journal or an event: its bytes or its address as long as there is room for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownAttachment {
    /// What it is: `image/png`, `application/pdf`.
    pub media_type: String,
    /// Its bytes, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Where it is; the server never asks there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether `data` or `url` is left out, being too long for what it is shown in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

impl ShownAttachment {
    /// The first of them, whole.
    pub fn all(attached: Vec<Attachment>) -> Vec<Self> {
        attached.into_iter().take(MOST_SHOWN).map(Self::whole).collect()
    }

    fn whole(attachment: Attachment) -> Self {
        let Attachment { media_type, data, url, name } = attachment;
        let name = name.map(|name| shortened_name(&name));
        Self { media_type, data, url, name, shortened: false }
    }

    /// Takes what it has out of `room`, in bytes, or leaves it out where that is too little.
    pub fn fit(&mut self, room: &mut usize) {
        let length = [&self.data, &self.url].into_iter().flatten().map(String::len).sum();
        match room.checked_sub(length) {
            Some(left) => *room = left,
            None => {
                (self.data, self.url) = (None, None);
                self.shortened = true;
            }
        }
    }
}

/// A value without its attachments.
#[derive(Debug, Clone, PartialEq)]
pub struct Marked {
    /// The value with a mark in the place of each: `[attachment 1: sales.png, image/png]`, as a model reads it.
    pub value: Value,
    /// What was attached, in the order of its numbers; never empty.
    pub attachments: Vec<Attachment>,
}

impl Marked {
    /// `None` where nothing is attached: the value is as it is.
    pub fn of(value: &Value) -> Option<Self> {
        if !has_any(value) {
            return None;
        }
        let mut attachments = Vec::new();
        let value = parted(value, &mut attachments);
        Some(Self { value, attachments })
    }

    /// The value as a model reads it in a conversation (`python/hitl/agents/tool_results.py`): the items of a list that has
    /// nothing but texts and attachments are lines.
    pub fn into_read(self) -> Value {
        let items = match &self.value {
            Value::Object(tagged) if tagged.get(TAG).is_some_and(|tag| tag == "tuple") => tagged.get("value"),
            other => Some(other),
        };
        let lines: Option<Vec<&str>> =
            items.and_then(Value::as_array).and_then(|items| items.iter().map(Value::as_str).collect());
        lines.map(|lines| Value::from(lines.join("\n"))).unwrap_or(self.value)
    }
}

fn is_attachment(value: &Value) -> bool {
    let says = |member: &str, word: &str| value.get(member).is_some_and(|said| said == word);
    says(TAG, "dataclass") && (says("type", CLASS) || value.get(MARK) == Some(&Value::Bool(true)))
}

fn has_any(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_any),
        Value::Object(members) => is_attachment(value) || members.values().any(has_any),
        _ => false,
    }
}

fn parted(value: &Value, attached: &mut Vec<Attachment>) -> Value {
    match value {
        Value::Object(_) if is_attachment(value) => {
            let attachment = decoded(value.get("value").unwrap_or(&Value::Null));
            let mark = format!("[attachment {}: {}]", attached.len() + 1, attachment.described());
            attached.push(attachment);
            Value::from(mark)
        }
        Value::Array(items) => items.iter().map(|item| parted(item, attached)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (name.clone(), parted(member, attached))).collect())
        }
        other => other.clone(),
    }
}

/// The attachment with these fields. One that some other release wrote is named all the same: whatever it has, its bytes
/// are nothing to read.
fn decoded(fields: &Value) -> Attachment {
    let text = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
    Attachment {
        media_type: text("media_type").unwrap_or_else(|| "application/octet-stream".to_owned()),
        data: text("data"),
        url: text("url"),
        name: text("name"),
    }
}

#[cfg(test)]
mod tests;
