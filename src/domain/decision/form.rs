//! The JSON Schema of what [`super::Decision::read`] takes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DecisionKind, Terms};
use crate::domain::JsonObject;
use crate::domain::schema::{self, Anew};

/// Where the schema of the tool's arguments stands in that of a decision.
const ARGS: &str = "#/$defs/args";

/// Gives the schemas of decisions. To make one takes longer than all else that is done to ask, so that whoever asks
/// about the same tools again and again keeps them.
pub trait Forms {
    /// See [`response_schema`].
    fn form(&self, terms: Terms<'_>) -> Arc<Value>;
}

impl Forms for Anew {
    fn form(&self, terms: Terms<'_>) -> Arc<Value> {
        Arc::new(response_schema(terms))
    }
}

/// The JSON Schema of a decision in these terms.
pub fn response_schema(Terms { allowed, tool_name, args_schema }: Terms<'_>) -> Value {
    let text = json!({"type": ["string", "null"]});
    let (flag, never) = (json!({"type": "boolean"}), json!({"const": false}));
    let args = args_schema.map_or_else(|| json!({"type": "object"}), |_| json!({"type": "object", "$ref": ARGS}));
    let name = tool_name.map_or_else(|| json!({"type": "string"}), |name| json!({"const": name}));
    let mut forms = Vec::new();
    let mut form = |required: &[&str], properties: Value| {
        forms.push(json!({
            "type": "object", "required": required, "additionalProperties": false, "properties": properties,
        }));
    };
    if allowed.contains(&DecisionKind::Approve) {
        form(&["approved"], json!({"approved": {"const": true}, "reason": {"type": "null"}, "always": flag}));
        form(&["type"], json!({"type": {"const": "approve"}, "always": flag}));
    }
    if allowed.contains(&DecisionKind::Edit) {
        let reason = json!({"type": "null"});
        form(
            &["approved", "args"],
            json!({"approved": {"const": true}, "reason": reason, "args": args, "always": never}),
        );
        form(&["type", "args"], json!({"type": {"const": "edit"}, "args": args, "name": name, "always": never}));
    }
    if allowed.contains(&DecisionKind::Reject) {
        form(&[], json!({"approved": {"const": false}, "reason": text, "always": never}));
        form(&["approved", "always"], json!({"approved": {"const": false}, "reason": text, "always": {"const": true}}));
        form(&["type"], json!({"type": {"const": "reject"}, "reason": text, "message": text, "always": flag}));
    }
    if allowed.contains(&DecisionKind::Respond) {
        form(&["type", "message"], json!({"type": {"const": "respond"}, "message": {}, "always": never}));
    }
    // An `anyOf` of nothing is no schema; where nothing may be decided, nothing is valid.
    if forms.is_empty() {
        return json!(false);
    }
    let mut whole = JsonObject::new();
    whole.insert("anyOf".to_owned(), Value::Array(forms));
    if let Some(args_schema) = args_schema.filter(|_| allowed.contains(&DecisionKind::Edit)) {
        whole.insert("$defs".to_owned(), json!({"args": schema::moved(args_schema, ARGS)}));
    }
    Value::Object(whole)
}
