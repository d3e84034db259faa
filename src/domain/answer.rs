//! Whether an answer fits its interrupt. Checked before anything is stored.

use std::sync::Arc;

use serde_json::Value;

use super::decision::{Decision, DecisionKind, Forms, TOOL_APPROVAL, Terms};
use super::error::{Error, FieldError, NOWHERE};
use super::payload::MAX_DEPTH;
use super::question::{self, Question, USER_INPUT};
use super::schema::{self, Validators};
use super::{JsonObject, apart, payload};

/// What is asked, as far as it says what a valid answer is.
#[derive(Debug, Clone, Copy)]
pub struct AnswerTerms<'a> {
    /// The interrupt's type.
    pub kind: &'a str,
    /// What is shown.
    pub payload: &'a JsonObject,
    /// For a tool approval: what may be decided.
    pub allowed: Option<&'a [DecisionKind]>,
    /// For a tool approval: the JSON Schema of the arguments of an edit.
    pub args_schema: Option<&'a Value>,
    /// The author's JSON Schema.
    pub author: Option<&'a Value>,
}

/// What decides over an answer.
enum AnswerRule<'a> {
    Decision(Terms<'a>),
    Questions(Vec<Question>),
    Schema(&'a Value),
    Anything,
}

impl<'a> AnswerRule<'a> {
    /// The built-in types have rules of their own, except where an author of a custom interrupt borrowed the name
    /// `user_input` without questions; then, and for any other type, it is the author's schema.
    fn of(asked: AnswerTerms<'a>) -> Self {
        let AnswerTerms { kind, payload, author, .. } = asked;
        match kind {
            TOOL_APPROVAL => Self::Decision(terms(asked)),
            USER_INPUT if author.is_none() || payload.contains_key("questions") => {
                match question::read(&Value::Object(payload.clone())) {
                    Ok(questions) => Self::Questions(questions),
                    Err(_) => author.map_or(Self::Anything, Self::Schema),
                }
            }
            _ => author.map_or(Self::Anything, Self::Schema),
        }
    }

    fn check(&self, value: &Value, validators: &dyn Validators) -> Vec<FieldError> {
        match self {
            Self::Decision(terms) => Decision::read(value, *terms, validators).err().unwrap_or_default(),
            Self::Questions(questions) => question::check_answer(questions, value),
            Self::Schema(author) => schema::validate(author, value, validators),
            Self::Anything => Vec::new(),
        }
    }

    /// The JSON Schema that it brings along.
    fn built_in(&self, forms: &dyn Forms) -> Option<Arc<Value>> {
        match self {
            Self::Decision(terms) => Some(forms.form(*terms)),
            Self::Questions(questions) => Some(Arc::new(question::response_schema(questions))),
            Self::Schema(_) | Self::Anything => None,
        }
    }
}

/// What decides over the decision about a tool approval.
pub fn terms(asked: AnswerTerms<'_>) -> Terms<'_> {
    Terms {
        allowed: asked.allowed.unwrap_or(&DecisionKind::UNSAID),
        tool_name: asked.payload.get("tool_name").and_then(Value::as_str),
        args_schema: asked.args_schema,
    }
}

/// The JSON Schema that the record shows: the built-in one of its type, else the author's.
pub fn response_schema(asked: AnswerTerms<'_>, forms: &dyn Forms) -> Option<Arc<Value>> {
    match AnswerRule::of(asked) {
        AnswerRule::Schema(author) => Some(Arc::new(author.clone())),
        rule => rule.built_in(forms),
    }
}

/// The JSON Schema that an interrupt's type brings along, whatever its record shows; `None` for a type without one.
pub fn built_in_schema(asked: AnswerTerms<'_>, forms: &dyn Forms) -> Option<Arc<Value>> {
    AnswerRule::of(AnswerTerms { author: None, ..asked }).built_in(forms)
}

/// A value that was found to be an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid(Value);

impl Valid {
    /// The value.
    pub fn into_value(self) -> Value {
        self.0
    }
}

/// Looks whether who answers means what is asked. A decision is a value like any other to a question without a schema: to a
/// program that asks whether to go on, a rejection would be something, and so a yes.
///
/// # Errors
/// [`Error::InvalidAnswer`] where it is not of the `expected` type.
pub fn check_type(asked: AnswerTerms<'_>, expected: Option<&str>) -> Result<(), Error> {
    match expected {
        Some(expected) if expected != asked.kind => {
            let why = format!("is for an interrupt of type {expected}, and this one is of type {}", asked.kind);
            Err(Error::InvalidAnswer(vec![FieldError::new(NOWHERE, "other_type", why)]))
        }
        _ => Ok(()),
    }
}

/// Checks `value` as an answer; may take its time.
///
/// # Errors
/// [`Error::InvalidAnswer`] with every place that is wrong.
pub fn check(asked: AnswerTerms<'_>, value: Value, validators: &dyn Validators) -> Result<Valid, Error> {
    apart::takes_its_time();
    check_in_passing(asked, value, validators)
}

/// The same, of what takes no longer than to read it: a small value, and no schema for it.
///
/// # Errors
/// Those of [`check`].
pub fn check_in_passing(asked: AnswerTerms<'_>, value: Value, validators: &dyn Validators) -> Result<Valid, Error> {
    if payload::depth(&value) > MAX_DEPTH {
        let why = format!("nests deeper than {MAX_DEPTH} levels");
        return Err(Error::InvalidAnswer(vec![FieldError::new(NOWHERE, "too_deep", why)]));
    }
    let errors = AnswerRule::of(asked).check(&value, validators);
    if errors.is_empty() { Ok(Valid(value)) } else { Err(Error::InvalidAnswer(errors)) }
}

/// What was decided about a tool approval; `None` for an interrupt of another type, and for what is no decision about
/// it. Whether the arguments of an edit fit the tool [`check`] has looked at, once.
pub fn decision(asked: AnswerTerms<'_>, value: &Value) -> Option<Decision> {
    let terms = Terms { args_schema: None, ..terms(asked) };
    (asked.kind == TOOL_APPROVAL).then(|| Decision::recorded(value, terms).ok()).flatten()
}

/// Whether two answers mean the same: two forms of one decision do.
pub fn same(asked: AnswerTerms<'_>, stored: &Value, again: &Value) -> bool {
    if asked.kind == TOOL_APPROVAL {
        let (stored, again) = (decision(asked, stored), decision(asked, again));
        return stored.is_some() && stored == again;
    }
    stored == again
}

#[cfg(test)]
mod fuzz;
