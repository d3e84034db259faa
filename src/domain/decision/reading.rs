//! From JSON to a [`Decision`]. Strict: what is not understood is never guessed at.

use serde_json::Value;

use super::{Decider, Decision, DecisionKind, Terms};
use crate::domain::error::{FieldError, LocSegment, NOWHERE};
use crate::domain::schema::{self, Validators};
use crate::domain::{FieldErrors, JsonObject};

/// The members of one form, and what is wrong with them so far.
struct Form<'a> {
    members: &'a JsonObject,
    errors: FieldErrors,
}

pub(super) fn read(value: &Value, terms: Terms<'_>, validators: &dyn Validators) -> Result<Decision, Vec<FieldError>> {
    let Value::Object(members) = value else {
        return Err(vec![FieldError::wrong_type(NOWHERE, "an object such as {\"approved\": true}", value)]);
    };
    let mut form = Form { members, errors: FieldErrors::default() };
    let decision = if members.contains_key("type") { form.typed(terms) } else { form.approved() };
    let Some(decision) = decision.filter(|_| form.errors.is_empty()) else {
        return Err(form.errors.into_vec(NOWHERE));
    };
    allow(&decision, members, terms)?;
    if let (Decision::Edit { args }, Some(schema)) = (&decision, terms.args_schema) {
        let wrong = check_args(args, schema, validators);
        if !wrong.is_empty() {
            return Err(wrong);
        }
    }
    Ok(decision)
}

pub(super) fn recorded(
    value: &Value,
    terms: Terms<'_>,
    validators: &dyn Validators,
) -> Result<Decision, Vec<FieldError>> {
    let by = value.get("by").and_then(Value::as_str).and_then(Decider::parse);
    let (Value::Object(members), Some(by)) = (value, by) else { return read(value, terms, validators) };
    let members: JsonObject =
        members.iter().filter(|(name, _)| *name != "by").map(|(name, value)| (name.clone(), value.clone())).collect();
    // A rule may deny what nobody may reject, and let run what nobody has to approve.
    match read(&Value::Object(members), Terms { allowed: &DecisionKind::UNSAID, ..terms }, validators)? {
        Decision::Approve { always, .. } => Ok(Decision::Approve { always, by }),
        Decision::Reject { reason, message, always, .. } => Ok(Decision::Reject { reason, message, always, by }),
        _ => Err(vec![FieldError::new(["by"], "unknown_member", "unknown member; known here: none")]),
    }
}

fn allow(decision: &Decision, members: &JsonObject, terms: Terms<'_>) -> Result<(), Vec<FieldError>> {
    let kind = decision.kind();
    if terms.allowed.contains(&kind) {
        return Ok(());
    }
    let names: Vec<&str> = terms.allowed.iter().map(|kind| kind.as_str()).collect();
    let place = match kind {
        _ if members.contains_key("type") => "type",
        DecisionKind::Edit => "args",
        _ => "approved",
    };
    let text = format!("{} is not allowed here; allowed: {}", kind.as_str(), names.join(", "));
    Err(vec![FieldError::new([place], "not_allowed", text)])
}

/// What is wrong with an edit's arguments.
fn check_args(args: &JsonObject, schema: &Value, validators: &dyn Validators) -> Vec<FieldError> {
    let place = [LocSegment::from("args")];
    schema::validate(schema, &Value::Object(args.clone()), validators)
        .into_iter()
        .map(|error| error.under(&place))
        .collect()
}

impl Form<'_> {
    /// `{"approved": bool, "reason"?, "args"?, "always"?}`.
    fn approved(&mut self) -> Option<Decision> {
        self.know(&["approved", "reason", "args", "always"]);
        let said = self.members.contains_key("approved");
        let approved = self.flag("approved");
        let reason = self.text("reason");
        let args = if self.members.contains_key("args") { self.object("args") } else { None };
        let always = self.flag("always");
        if !said && (args.is_some() || always) {
            self.wrong("approved", "missing", "must be said here: true or false");
        }
        if approved && reason.is_some() {
            self.wrong("reason", "contradiction", "a reason goes with a rejection");
        }
        if said && !approved && args.is_some() {
            self.wrong("args", "contradiction", "arguments go with an approval");
        }
        match args {
            Some(args) => {
                self.refuse_always(always, "an edit");
                Some(Decision::Edit { args })
            }
            None if approved => Some(Decision::Approve { always, by: Decider::Person }),
            None => Some(Decision::Reject { reason, message: None, always, by: Decider::Person }),
        }
    }

    /// `{"type": ..., ...}`.
    fn typed(&mut self, terms: Terms<'_>) -> Option<Decision> {
        let kind = match self.members.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            _ => {
                self.wrong("type", "wrong_type", "must be a string");
                return None;
            }
        };
        match kind {
            "approve" => {
                self.know(&["type", "always"]);
                Some(Decision::Approve { always: self.flag("always"), by: Decider::Person })
            }
            "edit" => {
                self.know(&["type", "args", "name", "always"]);
                let always = self.flag("always");
                self.refuse_always(always, "an edit");
                self.check_name(terms.tool_name);
                self.object("args").map(|args| Decision::Edit { args })
            }
            "reject" => {
                self.know(&["type", "reason", "message", "always"]);
                let (reason, message) = (self.text("reason"), self.text("message"));
                Some(Decision::Reject { reason, message, always: self.flag("always"), by: Decider::Person })
            }
            "respond" => {
                self.know(&["type", "message", "always"]);
                let always = self.flag("always");
                self.refuse_always(always, "a response");
                let message = self.members.get("message").cloned();
                if message.is_none() {
                    self.wrong("message", "missing", "must be there; null is a value too");
                }
                message.map(|message| Decision::Respond { message })
            }
            other => {
                let known = DecisionKind::ALL.map(DecisionKind::as_str).join(", ");
                self.wrong("type", "unknown_decision", &format!("unknown decision {other:?}; known: {known}"));
                None
            }
        }
    }

    fn know(&mut self, known: &[&str]) {
        let unknown = self.members.keys().filter(|name| !known.contains(&name.as_str()));
        let text = format!("unknown member; known here: {}", known.join(", "));
        for name in unknown {
            self.errors.push(|| FieldError::new([name.as_str()], "unknown_member", text.as_str()));
        }
    }

    fn wrong(&mut self, member: &str, kind: &str, text: &str) {
        self.errors.push(|| FieldError::new([member], kind, text));
    }

    fn wrong_type(&mut self, member: &str, wanted: &str, got: &Value) {
        self.errors.push(|| FieldError::wrong_type([member], wanted, got));
    }

    /// Absent means false.
    fn flag(&mut self, member: &str) -> bool {
        match self.members.get(member) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.wrong_type(member, "a boolean", other);
                false
            }
        }
    }

    /// Absent and null mean none.
    fn text(&mut self, member: &str) -> Option<String> {
        match self.members.get(member) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                self.wrong_type(member, "a string", other);
                None
            }
        }
    }

    fn object(&mut self, member: &str) -> Option<JsonObject> {
        match self.members.get(member) {
            Some(Value::Object(object)) => Some(object.clone()),
            Some(other) => {
                self.wrong_type(member, "an object", other);
                None
            }
            None => {
                self.wrong(member, "missing", "must be there");
                None
            }
        }
    }

    fn refuse_always(&mut self, always: bool, what: &str) {
        if always {
            let text = format!("{what} is for one call; always goes with an approval or a rejection");
            self.wrong("always", "contradiction", &text);
        }
    }

    /// Whoever edits a call may say its tool, and cannot make another one of it.
    fn check_name(&mut self, tool_name: Option<&str>) {
        match (self.members.get("name"), tool_name) {
            (None, _) => {}
            (Some(Value::String(name)), Some(tool)) if name != tool => {
                self.wrong("name", "not_allowed", &format!("an edit cannot change the tool; it is {tool:?}"));
            }
            (Some(Value::String(_)), _) => {}
            (Some(other), _) => self.wrong_type("name", "a string", other),
        }
    }
}
