//! Single words: one of a few, an id, an instant.

use serde::Serialize;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::audit::Action;
use crate::domain::decision::DecisionKind;
use crate::domain::event::EventName;
use crate::domain::grant::GrantedDecision;
use crate::domain::message::{Role, ToolCallKind};
use crate::domain::policy::Effect;
use crate::domain::scope::Scope;
use crate::domain::status::{InterruptStatus, NoticeStatus, Status};
use crate::domain::timeline::EntryKind;
use crate::domain::{GrantId, InterruptId, KeyId, SessionId, Timestamp, TurnId};

/// One of these words, as serde writes them.
fn one_of<W: Serialize>(about: &str, words: impl IntoIterator<Item = W>) -> RefOr<Schema> {
    // Each is text by its type, so that nothing else can come of it.
    let words = words.into_iter().map(|word| serde_json::to_value(word).unwrap_or_default());
    let about = Some(about).filter(|about| !about.is_empty());
    ObjectBuilder::new().schema_type(Type::String).description(about).enum_values(Some(words)).into()
}

/// Text of a form that has a name.
fn text(about: &str, format: &str) -> RefOr<Schema> {
    let format = Some(SchemaFormat::Custom(format.to_owned()));
    ObjectBuilder::new().schema_type(Type::String).format(format).description(Some(about)).into()
}

/// Schemas of enums. A word that is missing does not compile.
macro_rules! words {
    ($($about:literal $of:ident { $($word:ident),+ $(,)? })+) => {$(
        impl PartialSchema for $of {
            fn schema() -> RefOr<Schema> {
                fn listed(word: $of) -> $of {
                    match word {
                        $($of::$word)|+ => word,
                    }
                }
                one_of($about, [$($of::$word),+].map(listed))
            }
        }

        impl ToSchema for $of {}
    )+};
}

words! {
    "Who said it." Role { System, User, Assistant, Tool }
    "The kinds of tool calls there are: one." ToolCallKind { Function }
    "What a rule does with the calls that it matches." Effect { Allow, Ask, Deny }
    "What can be decided." DecisionKind { Approve, Edit, Reject, Respond }
    "What can be decided for the rest of a session." GrantedDecision { Approve, Reject }
    "One thing that a key may do." Scope { Read, Send, Answer, Admin }
    "What clients see of a session." Status { Idle, Running, Interrupted, Error }
    "Where an interrupt stands. Only `pending` can change." InterruptStatus { Pending, Resolved, Expired, Cancelled }
    "Where a notice stands." NoticeStatus { Scheduled, Pending, Delivered, Failed }
    "What was done." Action {
        Asked, Seen, Claimed, Released, Snoozed, Decided, Expired, Cancelled, Granted, GrantRevoked, SessionDeleted,
        Retried, RunExported, RunImported, PolicyPushed, PolicyRemoved, PolicyLoaded, PolicyRefused, KeyCreated, KeyRevoked, SignedIn,
    }
    "What kind of entry." EntryKind {
        Start, Taken, Intent, Step, Ask, Answer, Expire, Withdraw, Timer, Wakes, Pause, Cancel, End,
    }
}

impl PartialSchema for EventName {
    fn schema() -> RefOr<Schema> {
        // Every spelling that is read, bare statuses included.
        let words: Vec<String> = Self::known().split(", ").map(str::to_owned).collect();
        one_of("", words)
    }
}

impl ToSchema for EventName {}

macro_rules! texts {
    ($($about:literal $of:ident $format:literal,)+) => {$(
        impl PartialSchema for $of {
            fn schema() -> RefOr<Schema> {
                text($about, $format)
            }
        }

        impl ToSchema for $of {}
    )+};
}

texts! {
    "One key." KeyId "uuid",
    "One conversation." SessionId "uuid",
    "One message in, one response out." TurnId "uuid",
    "One question to a person." InterruptId "uuid",
    "One standing decision." GrantId "uuid",
    "Milliseconds since the Unix epoch." Timestamp "date-time",
}
