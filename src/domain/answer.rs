//! Whether an answer fits its interrupt. Checked before anything is stored.

use serde_json::Value;

use super::decision::{self, Decision, DecisionKind, TOOL_APPROVAL};
use super::error::{Error, FieldError};
use super::interrupt::{Ask, Interrupt};
use super::question::{self, Question, USER_INPUT};
use super::{JsonObject, schema};

/// What decides over an answer.
enum Rule<'a> {
    Decision(&'a [DecisionKind]),
    Questions(Vec<Question>),
    Schema(&'a Value),
    Anything,
}

impl<'a> Rule<'a> {
    /// The built-in types have rules of their own, except where an author of a custom interrupt borrowed the name
    /// `user_input` without questions; then, and for any other type, it is the author's schema.
    fn of(kind: &str, payload: &JsonObject, allowed: Option<&'a [DecisionKind]>, author: Option<&'a Value>) -> Self {
        match kind {
            TOOL_APPROVAL => Self::Decision(allowed.unwrap_or(&DecisionKind::ALL)),
            USER_INPUT if author.is_none() || payload.contains_key("questions") => {
                match question::read(&Value::Object(payload.clone())) {
                    Ok(questions) => Self::Questions(questions),
                    Err(_) => author.map_or(Self::Anything, Self::Schema),
                }
            }
            _ => author.map_or(Self::Anything, Self::Schema),
        }
    }

    fn check(&self, value: &Value) -> Vec<FieldError> {
        match self {
            Self::Decision(allowed) => Decision::read(value, allowed).err().unwrap_or_default(),
            Self::Questions(questions) => question::check_answer(questions, value),
            Self::Schema(author) => schema::validate(author, value),
            Self::Anything => Vec::new(),
        }
    }
}

/// The JSON Schema that the record shows: the built-in one of its type, else the author's.
pub fn response_schema(ask: &Ask) -> Option<Value> {
    let allowed = ask.allowed_decisions.as_deref();
    match Rule::of(&ask.kind, &ask.payload, allowed, ask.response_schema.as_ref()) {
        Rule::Decision(allowed) => Some(decision::response_schema(allowed)),
        Rule::Questions(questions) => Some(question::response_schema(&questions)),
        Rule::Schema(author) => Some(author.clone()),
        Rule::Anything => None,
    }
}

/// The JSON Schema that an interrupt's type brings along; `None` for a type without one.
pub fn built_in_schema(kind: &str, payload: &JsonObject, allowed: Option<&[DecisionKind]>) -> Option<Value> {
    match Rule::of(kind, payload, allowed, None) {
        Rule::Decision(allowed) => Some(decision::response_schema(allowed)),
        Rule::Questions(questions) => Some(question::response_schema(&questions)),
        Rule::Schema(_) | Rule::Anything => None,
    }
}

/// Checks `value` as the answer of `interrupt`.
///
/// # Errors
/// [`Error::InvalidAnswer`] with every place that is wrong.
pub fn check(interrupt: &Interrupt, value: &Value) -> Result<(), Error> {
    let errors = rule_of(interrupt).check(value);
    if errors.is_empty() { Ok(()) } else { Err(Error::InvalidAnswer(errors)) }
}

/// Whether two answers mean the same: two forms of one decision do.
pub fn same(interrupt: &Interrupt, stored: &Value, again: &Value) -> bool {
    if let Rule::Decision(allowed) = rule_of(interrupt) {
        return match (Decision::read(stored, allowed), Decision::read(again, allowed)) {
            (Ok(stored), Ok(again)) => stored == again,
            _ => false,
        };
    }
    stored == again
}

fn rule_of(interrupt: &Interrupt) -> Rule<'_> {
    Rule::of(
        &interrupt.kind,
        &interrupt.payload,
        interrupt.allowed_decisions.as_deref(),
        interrupt.response_schema.as_ref(),
    )
}
