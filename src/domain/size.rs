//! About how long values are as JSON, without writing them.

use serde_json::Value;

use super::JsonObject;

/// About how long an object is.
pub fn size_of_members(members: &JsonObject) -> usize {
    members.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
}

/// About how long a value is.
pub fn size_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + size_of_value(item)).sum(),
        Value::Object(members) => size_of_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}
