//! What is attached inside of a value that a tool returned, as the worker's codec wrote it (`python/hitl/journal/codec.py`).

use serde_json::Value;

use super::message::Attachment;

/// The member that tells what the codec wrote from a plain object: one with such a member of its own is a list of pairs.
const TAG: &str = "$hitl";
/// The class of an attachment, as the codec names it.
const CLASS: &str = "hitl.attachments:Attachment";

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
        if !holds_any(value) {
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
    says(TAG, "dataclass") && says("type", CLASS)
}

fn holds_any(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_any),
        Value::Object(members) => is_attachment(value) || members.values().any(holds_any),
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
