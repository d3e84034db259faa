//! The JSON Schema of what [`super::Decision::read`] takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::DecisionKind;
use crate::domain::JsonObject;
use crate::domain::schema;

/// Where the schema of the tool's arguments stands in that of a decision.
const ARGS: &str = "#/$defs/args";

/// How many schemas are kept. A program has a few tools, and asks about them again and again.
const KEPT: usize = 64;

/// A schema that was made, and what of.
struct Made {
    allowed: Vec<DecisionKind>,
    tool_name: Option<String>,
    args_schema: Option<Value>,
    schema: Arc<Value>,
}

static MADE: Mutex<VecDeque<Made>> = Mutex::new(VecDeque::new());

/// The JSON Schema of a decision that `allowed` lists, about a tool of this name (where it is known) whose arguments fit
/// `args_schema`. The same one for the same tool: to make it takes longer than all else that is done to ask.
pub fn response_schema(allowed: &[DecisionKind], tool_name: Option<&str>, args_schema: Option<&Value>) -> Arc<Value> {
    // A panic elsewhere cannot leave half a schema.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |made: &&Made| {
        made.tool_name.as_deref() == tool_name && made.allowed == allowed && made.args_schema.as_ref() == args_schema
    };
    if let Some(known) = made.iter().rev().find(is_it) {
        return Arc::clone(&known.schema);
    }
    let schema = Arc::new(make(allowed, tool_name, args_schema));
    if made.len() == KEPT {
        made.pop_front();
    }
    made.push_back(Made {
        allowed: allowed.to_vec(),
        tool_name: tool_name.map(str::to_owned),
        args_schema: args_schema.cloned(),
        schema: Arc::clone(&schema),
    });
    schema
}

fn make(allowed: &[DecisionKind], tool_name: Option<&str>, args_schema: Option<&Value>) -> Value {
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
