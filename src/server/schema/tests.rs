//! Each schema says what serde writes: all of it, and no more.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::access::{self, Key};
use crate::domain::attached::ShownAttachment;
use crate::domain::audit::{Action, AuditRow, Head};
use crate::domain::decision::DecisionKind;
use crate::domain::event::EventName;
use crate::domain::grant::{Grant, GrantedDecision};
use crate::domain::interrupt::Interrupt;
use crate::domain::message::{Attachment, ChatMessage, FunctionCall, Role, ToolCall, ToolCallKind};
use crate::domain::policy::{Effect, Rule};
use crate::domain::scope::{Scope, Scopes};
use crate::domain::status::{InterruptStatus, NoticeStatus, Status};
use crate::domain::timeline::{EntryKind, StartMessage, TimelineEntry};
use crate::domain::webhook::Webhook;
use crate::domain::{FieldError, GrantId, InterruptId, JsonObject, KeyId, SessionId, Timestamp, TurnId};
use crate::engine::ports::held::{HeldTurn, Holder};
use crate::store::query::Order;

/// The schema of `T`, with those that it refers to, where only named members may be.
fn schema_of<T: ToSchema>() -> Value {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let mut parts: Vec<(String, Value)> = parts.into_iter().map(|(name, schema)| (name, json!(schema))).collect();
    let mut whole = json!(T::schema());
    for schema in parts.iter_mut().map(|(_, schema)| schema).chain([&mut whole]) {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
    whole["components"] = json!({"schemas": parts.into_iter().collect::<JsonObject>()});
    whole
}

/// # Panics
/// `value` as it is written does not fit its schema.
fn fits<T: ToSchema + Serialize>(value: &T) -> Value {
    let (schema, written) = (schema_of::<T>(), json!(value));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0], "{}: {written}", T::name());
    written
}

/// # Panics
/// `full`, where every member says something, does not have the members of its schema; `bare`, where none does that need
/// not, does not have those that are required.
fn has_members<T: ToSchema + Serialize>(full: &T, bare: &T) {
    let schema = schema_of::<T>();
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let members = |value: &Value| sorted(value.as_object().unwrap().keys().cloned().collect());
    assert_eq!(members(&fits(full)), members(&schema["properties"]), "{}", T::name());
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let bare = fits(bare);
    for name in required {
        assert!(bare.get(name.as_str().unwrap()).is_some(), "{}: {name} is left out of {bare}", T::name());
    }
}

fn id() -> Uuid {
    Uuid::from_u128(7)
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn text() -> Option<String> {
    Some("text".to_owned())
}

fn object() -> JsonObject {
    json!({"a": 1}).as_object().cloned().unwrap()
}

fn asked() -> Interrupt {
    Interrupt {
        interrupt_id: InterruptId(id()),
        session_id: SessionId(id()),
        turn_id: TurnId(id()),
        kind: "tool_approval".to_owned(),
        payload: object(),
        status: InterruptStatus::Resolved,
        message: text(),
        response_schema: Some(json!({"type": "object"}).into()),
        allowed_decisions: Some(DecisionKind::ALL.to_vec()),
        tool_call_id: text(),
        agent: text(),
        rule: text(),
        args_digest: text(),
        created_at: now(),
        expires_at: Some(now()),
        value: Some(json!({"approved": true})),
        resolved_by: text(),
        resolved_at: Some(now()),
        metadata: Some(object()),
        tool_source: text(),
        sent_by: text(),
        approvers: vec!["ada".to_owned()],
        rule_failed: text(),
        lets_run: true,
        is_hidden: true,
        tool_approvers: vec!["ada".to_owned()],
        args_schema: Some(json!({})),
        claimed_by: text(),
        claimed_until: Some(now()),
        snoozed_by: text(),
        snoozed_until: Some(now()),
    }
}

#[test]
fn what_is_asked_is_as_its_schema_says() {
    let bare = Interrupt {
        message: None,
        response_schema: None,
        allowed_decisions: None,
        tool_call_id: None,
        agent: None,
        rule: None,
        args_digest: None,
        expires_at: None,
        value: None,
        resolved_by: None,
        resolved_at: None,
        metadata: None,
        tool_source: None,
        sent_by: None,
        approvers: vec![],
        rule_failed: None,
        lets_run: false,
        claimed_by: None,
        claimed_until: None,
        snoozed_by: None,
        snoozed_until: None,
        ..asked()
    };
    has_members(&asked(), &bare);
}

#[test]
fn messages_are_as_their_schemas_say() {
    let function = FunctionCall { name: "f".to_owned(), arguments: "{}".to_owned() };
    let call = ToolCall { id: "1".to_owned(), kind: ToolCallKind::Function, function: function.clone() };
    let attachment = Attachment { media_type: "image/png".to_owned(), data: text(), url: text(), name: text() };
    let full = ChatMessage {
        role: Role::Tool,
        content: text(),
        reasoning: text(),
        reasoning_details: Some(vec![json!({"a": 1})]),
        tool_calls: Some(vec![call.clone()]),
        tool_call_id: text(),
        name: text(),
        base64_image: text(),
        attachments: Some(vec![attachment.clone()]),
        user_params: Some(object()),
    };
    has_members(&full, &ChatMessage::default());
    has_members(&attachment, &Attachment { data: None, url: None, name: None, ..attachment.clone() });
    has_members(&call, &call);
    has_members(&function, &function);
    let start = StartMessage { role: Role::User, content: text() };
    has_members(&start, &StartMessage { content: None, ..start.clone() });
}

#[test]
fn rules_grants_and_webhooks_are_as_their_schemas_say() {
    let rule = Rule {
        name: "a".to_owned(),
        effect: Effect::Ask,
        tool: "*".to_owned(),
        agent: text(),
        when: text(),
        reason: text(),
        approvers: vec!["ada".to_owned()],
        unsigned: false,
    };
    has_members(&rule, &Rule { agent: None, when: None, reason: None, approvers: vec![], ..rule.clone() });
    let grant = Grant {
        grant_id: GrantId(id()),
        agent: text(),
        tool: "f".to_owned(),
        tool_source: text(),
        decision: GrantedDecision::Reject,
        reason: text(),
        message: text(),
        created_at: now(),
        created_by: text(),
        approvers: vec!["ada".to_owned()],
        turn_id: Some(TurnId(id())),
    };
    let bare = Grant {
        agent: None,
        tool_source: None,
        reason: None,
        message: None,
        created_by: None,
        approvers: vec![],
        turn_id: None,
        ..grant.clone()
    };
    has_members(&grant, &bare);
    let events = Some(EventName::FOR_WEBHOOKS.to_vec());
    let webhook = Webhook { url: "https://example.com/".to_owned(), token: text(), include_messages: true, events };
    has_members(&webhook, &Webhook { token: None, events: None, ..webhook.clone() });
}

#[test]
fn the_audit_keys_and_errors_are_as_their_schemas_say() {
    let row = AuditRow {
        seq: 1,
        at: now(),
        action: Action::Asked,
        session_id: Some(SessionId(id())),
        interrupt_id: Some(InterruptId(id())),
        actor: text(),
        address: Some("::1".parse().unwrap()),
        details: object(),
        prev: "0".repeat(64),
        hash: "f".repeat(64),
    };
    has_members(&row, &AuditRow { session_id: None, interrupt_id: None, actor: None, address: None, ..row.clone() });
    has_members(&Head::nothing(), &Head::nothing());
    let key = Key {
        key_id: KeyId(id()),
        name: "ada".to_owned(),
        scopes: Scopes::ALL,
        groups: vec!["finance".to_owned()],
        digest: access::digest(b"secret"),
        created_at: now(),
        created_by: text(),
        revoked_at: Some(now()),
    };
    has_members(&key, &Key { created_by: None, revoked_at: None, ..key.clone() });
    let error = FieldError::new::<crate::domain::error::LocSegment>(["a".into(), 1.into()], "missing", "must be there");
    has_members(&error, &error);
}

#[test]
fn journals_and_what_holds_a_turn_are_as_their_schemas_say() {
    let shown = ShownAttachment {
        media_type: "image/png".to_owned(),
        data: text(),
        url: text(),
        name: text(),
        shortened: true,
    };
    let named = ShownAttachment { data: None, url: None, name: None, shortened: false, ..shown.clone() };
    has_members(&shown, &named);
    let entry = TimelineEntry {
        index: 0,
        at: now(),
        entry: EntryKind::Start,
        kind: text(),
        name: text(),
        location: text(),
        path: text(),
        tool_call_id: text(),
        interrupt_id: Some(InterruptId(id())),
        message: Some(StartMessage { role: Role::User, content: text() }),
        result: Some(json!({"a": 1})),
        attachments: vec![shown],
        error: text(),
        shortened: true,
    };
    let bare = TimelineEntry {
        kind: None,
        name: None,
        location: None,
        path: None,
        tool_call_id: None,
        interrupt_id: None,
        message: None,
        result: None,
        attachments: vec![],
        error: None,
        shortened: false,
        ..entry.clone()
    };
    has_members(&entry, &bare);
    let holder = Holder { what: "a thread".to_owned(), location: text() };
    has_members(&holder, &Holder { location: None, ..holder.clone() });
    let held = HeldTurn { session_id: SessionId(id()), replay: true, at_work: true, by: vec![holder] };
    has_members(&held, &held);
}

#[test]
fn words_are_as_their_schemas_say() {
    let words = |schema: Value| -> Vec<String> { serde_json::from_value(schema["enum"].clone()).unwrap() };
    let texts = |of: &[&str]| of.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(words(schema_of::<Scope>()), texts(&Scope::ALL.map(Scope::as_str)));
    assert_eq!(words(schema_of::<Action>()), texts(&Action::ALL.map(Action::as_str)));
    assert_eq!(words(schema_of::<DecisionKind>()), texts(&DecisionKind::ALL.map(DecisionKind::as_str)));
    for word in words(schema_of::<Status>()) {
        assert_eq!(fits(&Status::parse(&word).unwrap()), json!(word));
    }
    for word in words(schema_of::<InterruptStatus>()) {
        assert_eq!(fits(&InterruptStatus::parse(&word).unwrap()), json!(word));
    }
    for word in words(schema_of::<NoticeStatus>()) {
        assert_eq!(fits(&NoticeStatus::parse(&word).unwrap()), json!(word));
    }
    for word in words(schema_of::<Effect>()) {
        assert_eq!(fits(&Effect::parse(&word).unwrap()), json!(word));
    }
    for word in words(schema_of::<EventName>()) {
        fits(&EventName::parse(&word).unwrap());
    }
    for word in words(schema_of::<Order>()) {
        assert!(Order::parse(&word).is_some(), "{word}");
    }
    fits(&now());
    fits(&SessionId(id()));
}
