//! JSON into requests, strictly, with every wrong place named.
//!
//! Written out instead of derived: derived readers stop at the first error, and take an array where an object is meant.
//! Why no schema does it is in docs/decisions/requests-by-hand.md.

mod webhook;

use serde_json::Value;

use super::error::ServerError;
use crate::domain::error::LocSegment;
use crate::domain::message::{Attachment, ChatMessage, FunctionCall, Role, ToolCall, ToolCallKind};
use crate::domain::policy::{Effect, NOBODY, Rule};
use crate::domain::{FieldError, FieldErrors, JsonObject};

pub use webhook::{LONGEST_TOKEN, MOST_EVENTS};

/// The longest name that somebody gives himself, in characters.
pub const LONGEST_NAME: usize = 64;

/// Collects what is wrong while a body is read.
#[derive(Debug, Default)]
pub struct Reading {
    errors: FieldErrors,
}

/// Where a value stands in the body; each step points at the one outside.
#[derive(Clone, Copy)]
pub enum At<'a> {
    /// The whole body.
    Body,
    /// A member of an object.
    Member(&'a At<'a>, &'a str),
    /// An element of an array.
    Element(&'a At<'a>, usize),
}

impl At<'_> {
    /// Its path, as errors have it.
    pub fn loc(&self) -> Vec<LocSegment> {
        match self {
            Self::Body => vec!["body".into()],
            Self::Member(outer, name) => [outer.loc(), vec![(*name).into()]].concat(),
            Self::Element(outer, index) => [outer.loc(), vec![(*index).into()]].concat(),
        }
    }
}

impl Reading {
    /// The result, unless something was wrong.
    ///
    /// # Errors
    /// `invalid_request` with everything that was.
    pub fn finish<T>(self, value: T) -> Result<T, ServerError> {
        if self.errors.is_empty() { Ok(value) } else { Err(ServerError::invalid(self.errors.into_vec(At::Body.loc()))) }
    }

    /// Notes an error.
    pub fn wrong(&mut self, at: At<'_>, kind: &str, msg: impl Into<String>) {
        self.errors.push(|| FieldError::new(at.loc(), kind, msg));
    }

    fn wrong_type(&mut self, at: At<'_>, wanted: &str, got: &Value) {
        self.errors.push(|| FieldError::wrong_type(at.loc(), wanted, got));
    }

    /// An object; an empty one where it is none.
    pub fn object(&mut self, at: At<'_>, value: Value) -> JsonObject {
        match value {
            Value::Object(members) => members,
            other => {
                self.wrong_type(at, "an object", &other);
                JsonObject::new()
            }
        }
    }

    /// The elements of an array.
    pub fn array<T>(
        &mut self,
        at: At<'_>,
        value: Value,
        mut element: impl FnMut(&mut Self, At<'_>, Value) -> T,
    ) -> Vec<T> {
        match value {
            Value::Array(items) => {
                let mut elements = Vec::new();
                for (index, item) in items.into_iter().enumerate() {
                    let element = element(self, At::Element(&at, index), item);
                    // Nothing will come of them: what is wrong is only counted on.
                    if !self.errors.is_full() {
                        elements.push(element);
                    }
                }
                elements
            }
            other => {
                self.wrong_type(at, "an array", &other);
                Vec::new()
            }
        }
    }

    /// Notes an array of more than `most` elements; whether it is none.
    pub fn at_most(&mut self, at: At<'_>, value: &Value, most: usize) -> bool {
        let count = value.as_array().map_or(0, Vec::len);
        if count > most {
            self.wrong(at, "too_long", format!("must hold at most {most}, got {count}"));
        }
        count <= most
    }

    /// A member that has to be there, null or not.
    pub fn required(&mut self, at: At<'_>, members: &mut JsonObject, name: &str) -> Option<Value> {
        let value = members.swap_remove(name);
        if value.is_none() {
            self.wrong(At::Member(&at, name), "missing", "is required");
        }
        value
    }

    /// A string.
    pub fn text(&mut self, at: At<'_>, value: Value) -> String {
        match value {
            Value::String(text) => text,
            other => {
                self.wrong_type(at, "a string", &other);
                String::new()
            }
        }
    }

    fn required_text(&mut self, at: At<'_>, members: &mut JsonObject, name: &str) -> String {
        match self.required(at, members, name) {
            Some(value) => self.text(At::Member(&at, name), value),
            None => String::new(),
        }
    }

    /// A text that may be left out.
    pub fn optional_text(&mut self, at: At<'_>, members: &mut JsonObject, name: &str) -> Option<String> {
        let value = present(members, name)?;
        Some(self.text(At::Member(&at, name), value))
    }

    /// One of some words.
    pub fn one_of<T>(
        &mut self,
        at: At<'_>,
        value: &Value,
        parse: impl Fn(&str) -> Option<T>,
        known: &str,
    ) -> Option<T> {
        let Some(text) = value.as_str() else {
            self.wrong_type(at, "a string", value);
            return None;
        };
        let parsed = parse(text);
        if parsed.is_none() {
            self.wrong(at, "unknown_value", format!("must be one of {known}"));
        }
        parsed
    }

    /// `seconds`: more than none, and not more than `most`.
    pub fn seconds(&mut self, at: At<'_>, members: &mut JsonObject, most: f64) -> Option<f64> {
        let value = present(members, "seconds")?;
        let at = At::Member(&at, "seconds");
        match value.as_f64() {
            Some(seconds) if seconds > 0.0 && seconds <= most => return Some(seconds),
            Some(_) => self.wrong(at, "out_of_range", format!("must be more than 0 and at most {most}")),
            None => self.wrong_type(at, "a number", &value),
        }
        None
    }

    /// `as`: what somebody calls himself where no key does.
    pub fn name(&mut self, at: At<'_>, members: &mut JsonObject) -> Option<String> {
        let value = present(members, "as")?;
        let is_text = value.is_string();
        let name = self.text(At::Member(&at, "as"), value);
        if is_text && !(1..=LONGEST_NAME).contains(&name.chars().count()) {
            self.wrong(At::Member(&at, "as"), "out_of_range", format!("must be 1 to {LONGEST_NAME} characters"));
        }
        Some(name)
    }

    /// Members that are left over, where nobody may say what is not `known`.
    pub fn unknown(&mut self, at: At<'_>, members: &JsonObject, known: &str) {
        for name in members.keys() {
            self.wrong(At::Member(&at, name), "unknown_member", format!("unknown member; known here: {known}"));
        }
    }

    /// A chat message.
    pub fn message(&mut self, at: At<'_>, value: Value) -> ChatMessage {
        let mut members = self.object(at, value);
        self.message_of(at, &mut members)
    }

    /// A chat message out of an object that may have more members.
    pub fn message_of(&mut self, at: At<'_>, members: &mut JsonObject) -> ChatMessage {
        let [role, content, reasoning, details, calls, call_id, name, image, attachments, params] =
            ChatMessage::MEMBERS;
        let said = members.swap_remove(role);
        let message = ChatMessage {
            role: said
                .and_then(|said| self.one_of(At::Member(&at, role), &said, role_of, "system, user, assistant, tool"))
                .unwrap_or_default(),
            content: self.optional_text(at, members, content),
            reasoning: self.optional_text(at, members, reasoning),
            reasoning_details: present(members, details)
                .map(|all| self.array(At::Member(&at, details), all, |_, _, detail| detail)),
            tool_calls: present(members, calls).map(|all| self.array(At::Member(&at, calls), all, Self::tool_call)),
            tool_call_id: self.optional_text(at, members, call_id),
            name: self.optional_text(at, members, name),
            base64_image: self.optional_text(at, members, image),
            attachments: present(members, attachments)
                .map(|all| self.array(At::Member(&at, attachments), all, Self::attachment)),
            user_params: present(members, params).map(|all| self.object(At::Member(&at, params), all)),
        };
        without_native(message)
    }

    /// An image or another file; an unknown member could be a misspelt one, and the file be lost.
    fn attachment(&mut self, at: At<'_>, value: Value) -> Attachment {
        let is_object = value.is_object();
        let mut members = self.object(at, value);
        let has_type = members.get("media_type").is_some_and(Value::is_string);
        let attachment = Attachment {
            media_type: self.required_text(at, &mut members, "media_type"),
            data: self.optional_text(at, &mut members, "data"),
            url: self.optional_text(at, &mut members, "url"),
            name: self.optional_text(at, &mut members, "name"),
        };
        self.unknown(at, &members, "media_type, data, url, name");
        for (member, must) in attachment.flaws() {
            match member {
                // Said already.
                "media_type" if !has_type => {}
                "" if !is_object => {}
                "" => self.wrong(at, "invalid", must),
                member => self.wrong(At::Member(&at, member), "invalid", must),
            }
        }
        attachment
    }

    fn tool_call(&mut self, at: At<'_>, value: Value) -> ToolCall {
        let mut members = self.object(at, value);
        if let Some(kind) = members.get("type") {
            self.one_of(At::Member(&at, "type"), kind, |kind| (kind == "function").then_some(()), "function");
        }
        let id = self.required_text(at, &mut members, "id");
        let at_function = At::Member(&at, "function");
        let mut function = match self.required(at, &mut members, "function") {
            Some(function) => self.object(at_function, function),
            None => return ToolCall { id, kind: ToolCallKind::Function, function: no_function() },
        };
        let name = self.required_text(at_function, &mut function, "name");
        let arguments = self.required_text(at_function, &mut function, "arguments");
        ToolCall { id, kind: ToolCallKind::Function, function: FunctionCall { name, arguments } }
    }

    /// A rule; an unknown member could be a misspelt condition.
    pub fn rule(&mut self, at: At<'_>, value: Value) -> Rule {
        let mut members = self.object(at, value);
        let effect = self
            .required(at, &mut members, "effect")
            .and_then(|effect| self.one_of(At::Member(&at, "effect"), &effect, Effect::parse, "allow, ask, deny"));
        let rule = Rule {
            name: self.required_text(at, &mut members, "name"),
            effect: effect.unwrap_or(Effect::Ask),
            tool: self.required_text(at, &mut members, "tool"),
            agent: self.optional_text(at, &mut members, "agent"),
            // A condition that is null is one that somebody has lost: without it the rule is for every call.
            when: members.swap_remove("when").map(|when| self.text(At::Member(&at, "when"), when)),
            reason: self.optional_text(at, &mut members, "reason"),
            approvers: self.approvers(at, &mut members),
            unsigned: false,
        };
        self.unknown(at, &members, "name, effect, tool, agent, when, reason, approvers");
        rule
    }

    fn approvers(&mut self, at: At<'_>, members: &mut JsonObject) -> Vec<String> {
        let Some(approvers) = members.swap_remove("approvers") else { return Vec::new() };
        let is_empty = approvers.as_array().is_some_and(Vec::is_empty);
        if is_empty {
            self.wrong(At::Member(&at, "approvers"), "too_short", NOBODY);
        }
        self.array(At::Member(&at, "approvers"), approvers, Self::text)
    }
}

/// A member that is there and not null.
pub fn present(members: &mut JsonObject, name: &str) -> Option<Value> {
    members.swap_remove(name).filter(|value| !value.is_null())
}

/// A reply without what a framework's adapter keeps beside it for the next turn (`python/hitl/ext/native.py`): that is what
/// the agent takes for the conversation, and nobody would be shown what a client has put there.
fn without_native(mut message: ChatMessage) -> ChatMessage {
    if let (Role::Assistant, Some(params)) = (message.role, message.user_params.as_mut())
        && params.get("native").is_some_and(Value::is_object)
    {
        params.shift_remove("native");
    }
    message
}

fn role_of(text: &str) -> Option<Role> {
    match text {
        "system" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "tool" => Some(Role::Tool),
        _ => None,
    }
}

fn no_function() -> FunctionCall {
    FunctionCall { name: String::new(), arguments: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Error;
    use serde_json::json;

    fn message(value: Value) -> Result<ChatMessage, Vec<(Value, String)>> {
        let mut reading = Reading::default();
        let message = reading.message(At::Body, value);
        reading.finish(message).map_err(places)
    }

    fn places(error: ServerError) -> Vec<(Value, String)> {
        match error {
            ServerError::Domain(Error::InvalidRequest(errors)) => {
                errors.into_iter().map(|error| (json!(error.loc), error.kind)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_object_is_a_message_of_the_user() {
        assert_eq!(message(json!({})), Ok(ChatMessage::default()));
    }

    #[test]
    fn what_an_agent_would_read_in_the_place_of_a_reply_does_not_come_through() {
        let native = json!({"form": "pydantic_ai/1", "stands_for": 1, "messages": [{"kind": "request"}]});
        let given = |role: &str, native: &Value| {
            let given = json!({"role": role, "content": "c", "user_params": {"native": native, "k": 1}});
            message(given).map(|message| message.user_params.map(Value::from))
        };
        assert_eq!(given("assistant", &native), Ok(Some(json!({"k": 1}))));
        // Of anybody else's message no adapter reads it, and what is no object is none.
        assert_eq!(given("user", &native), Ok(Some(json!({"native": native, "k": 1}))));
        assert_eq!(given("assistant", &json!("Swahili")), Ok(Some(json!({"native": "Swahili", "k": 1}))));
    }

    #[test]
    fn every_member_comes_through_and_unknown_ones_are_left_out() {
        let full = json!({
            "role": "assistant", "content": "c", "reasoning": "r", "reasoning_details": [1], "tool_call_id": "t",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            "name": "n", "base64_image": "b", "user_params": {"k": 1},
            "attachments": [
                {"media_type": "image/png", "data": "aGk="},
                {"media_type": "application/pdf", "url": "https://example.com/a.pdf", "name": "a.pdf"},
            ],
        });
        let mut posted = full.clone();
        posted["other"] = json!(1);
        assert_eq!(message(posted).map(|message| message.without_nulls()), Ok(full));
    }

    #[test]
    fn nulls_are_as_good_as_absent_except_for_the_role() {
        assert_eq!(
            message(json!({"content": null, "tool_calls": null, "user_params": null})),
            Ok(ChatMessage::default())
        );
        assert_eq!(message(json!({"role": null})), Err(vec![(json!(["body", "role"]), "wrong_type".to_owned())]));
    }

    #[test]
    fn every_wrong_place_is_named() {
        let wrong = json!({"role": "boss", "content": 1, "tool_calls": [{"type": "x", "function": {"name": 2}}, []], "user_params": []});
        assert_eq!(
            message(wrong),
            Err(vec![
                (json!(["body", "role"]), "unknown_value".to_owned()),
                (json!(["body", "content"]), "wrong_type".to_owned()),
                (json!(["body", "tool_calls", 0, "type"]), "unknown_value".to_owned()),
                (json!(["body", "tool_calls", 0, "id"]), "missing".to_owned()),
                (json!(["body", "tool_calls", 0, "function", "name"]), "wrong_type".to_owned()),
                (json!(["body", "tool_calls", 0, "function", "arguments"]), "missing".to_owned()),
                (json!(["body", "tool_calls", 1]), "wrong_type".to_owned()),
                (json!(["body", "tool_calls", 1, "id"]), "missing".to_owned()),
                (json!(["body", "tool_calls", 1, "function"]), "missing".to_owned()),
                (json!(["body", "user_params"]), "wrong_type".to_owned()),
            ])
        );
    }

    #[test]
    fn an_attachment_is_a_media_type_and_either_its_bytes_or_their_address() {
        let wrong = |attachment: Value| match message(json!({"attachments": [attachment]})) {
            Ok(message) => panic!("{message:?} was taken"),
            Err(told) => told.into_iter().map(|(loc, kind)| format!("{} {kind}", loc[3])).collect::<Vec<_>>(),
        };
        assert_eq!(wrong(json!([])), ["null wrong_type", r#""media_type" missing"#]);
        assert_eq!(wrong(json!({"media_type": "a/b"})), ["null invalid"]);
        assert_eq!(wrong(json!({"media_type": "a/b", "data": "", "url": "https://a.b"})), ["null invalid"]);
        for kind in ["png", ""] {
            assert_eq!(wrong(json!({"media_type": kind, "data": ""})), [r#""media_type" invalid"#]);
        }
        for data in ["aGk", "aG-_", "data:image/png;base64,aGk=", "a Gk="] {
            assert_eq!(wrong(json!({"media_type": "a/b", "data": data})), [r#""data" invalid"#], "{data}");
        }
        for url in ["file:///etc/passwd", "data:image/png,x", "example.com/a", "https://"] {
            assert_eq!(wrong(json!({"media_type": "a/b", "url": url})), [r#""url" invalid"#], "{url}");
        }
        assert_eq!(wrong(json!({"media_type": "a/b", "data": "", "nmae": "x"})), [r#""nmae" unknown_member"#]);
    }

    #[test]
    fn an_array_is_no_message() {
        for value in [json!([]), json!(["user"]), json!(null), json!("hi"), json!(1)] {
            assert_eq!(message(value), Err(vec![(json!(["body"]), "wrong_type".to_owned())]));
        }
    }

    #[test]
    fn what_is_wrong_is_told_up_to_a_bound() {
        let Err(told) = message(json!({"tool_calls": vec![1; 1000]})) else { panic!("it was taken") };
        assert_eq!(told.len(), 51);
        assert_eq!(told.last(), Some(&(json!(["body"]), "too_many_errors".to_owned())));
    }

    #[test]
    fn a_rule_is_read_strictly() {
        let mut reading = Reading::default();
        let rule = reading.rule(
            At::Member(&At::Body, "rule"),
            json!({"effect": "permit", "tool": ["*"], "when": 1, "agent": null, "wen": "true"}),
        );
        let wrong = reading.finish(rule).map_err(places);
        assert_eq!(
            wrong,
            Err(vec![
                (json!(["body", "rule", "effect"]), "unknown_value".to_owned()),
                (json!(["body", "rule", "name"]), "missing".to_owned()),
                (json!(["body", "rule", "tool"]), "wrong_type".to_owned()),
                (json!(["body", "rule", "when"]), "wrong_type".to_owned()),
                (json!(["body", "rule", "wen"]), "unknown_member".to_owned()),
            ])
        );
    }
}
