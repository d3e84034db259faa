//! The JSON Schema of what [`super::Decision::read`] takes.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde_json::{Value, json};

use super::DecisionKind;
use crate::domain::JsonObject;
use crate::domain::schema;

/// Where the schema of the tool's arguments stands in that of a decision.
const ARGS: &str = "#/$defs/args";

/// How many schemas are kept. A program has some tools, and asks about them again and again.
const KEPT: usize = 256;

/// A schema that was made, and what of.
struct Made {
    allowed: Vec<DecisionKind>,
    tool_name: Option<String>,
    args_schema: Option<Value>,
    schema: Arc<Value>,
}

impl Made {
    fn is_of(&self, allowed: &[DecisionKind], tool_name: Option<&str>, args_schema: Option<&Value>) -> bool {
        self.allowed == allowed && self.tool_name.as_deref() == tool_name && self.args_schema.as_ref() == args_schema
    }
}

/// What was made, by the hash of what it was made of.
#[derive(Default)]
struct Shelf {
    made: HashMap<u64, Made>,
    /// Those made first are in front.
    order: VecDeque<u64>,
}

/// Read for every approval that is read, by all threads at once; written once for each tool.
static SHELF: LazyLock<RwLock<Shelf>> = LazyLock::new(RwLock::default);

/// The JSON Schema of a decision that `allowed` lists, about a tool of this name (where it is known) whose arguments fit
/// `args_schema`. The same one for the same tool: to make it takes longer than all else that is done to ask.
pub fn response_schema(allowed: &[DecisionKind], tool_name: Option<&str>, args_schema: Option<&Value>) -> Arc<Value> {
    let hash = hash(allowed, tool_name, args_schema);
    // A panic elsewhere cannot leave half a schema.
    let shelf = SHELF.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = shelf.made.get(&hash).filter(|made| made.is_of(allowed, tool_name, args_schema)) {
        return Arc::clone(&made.schema);
    }
    drop(shelf);
    let schema = Arc::new(make(allowed, tool_name, args_schema));
    let made = Made {
        allowed: allowed.to_vec(),
        tool_name: tool_name.map(str::to_owned),
        args_schema: args_schema.cloned(),
        schema: Arc::clone(&schema),
    };
    let mut shelf = SHELF.write().unwrap_or_else(PoisonError::into_inner);
    if shelf.made.insert(hash, made).is_none() {
        shelf.order.push_back(hash);
    }
    if shelf.order.len() > KEPT
        && let Some(oldest) = shelf.order.pop_front()
    {
        shelf.made.remove(&oldest);
    }
    schema
}

fn hash(allowed: &[DecisionKind], tool_name: Option<&str>, args_schema: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (allowed, tool_name, args_schema).hash(&mut hasher);
    hasher.finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_tool_is_made_once_however_many_tools_there_are() {
        let tools: Vec<(String, Value)> =
            (0..100).map(|tool| (format!("tool_{tool}"), json!({"type": "object", "maxProperties": tool}))).collect();
        let schemas = || -> Vec<Arc<Value>> {
            let of = |(name, args): &(String, Value)| response_schema(&DecisionKind::ALL, Some(name), Some(args));
            tools.iter().map(of).collect()
        };
        let (made, again) = (schemas(), schemas());
        assert!(made.iter().zip(&again).all(|(made, again)| Arc::ptr_eq(made, again)));
    }

    #[test]
    fn whoever_reads_a_schema_waits_for_no_other_reader() {
        let made = response_schema(&DecisionKind::ALL, Some("pay"), None);
        let _reading = SHELF.read().unwrap();
        let again = std::thread::spawn(|| response_schema(&DecisionKind::ALL, Some("pay"), None));
        assert!(Arc::ptr_eq(&made, &again.join().unwrap()));
    }
}
