//! What hitl is, without any I/O: sessions, turns, interrupts, decisions and the journal.
//!
//! Nothing here reads a clock, draws an id, opens a file or knows of tokio. Time and ids are arguments, so every
//! rule can be tested as a function.

pub mod abandoned;
pub mod access;
pub mod answer;
pub mod apart;
pub mod approver;
pub mod attached;
pub mod audit;
pub mod cluster;
pub mod decision;
pub mod digest;
pub mod error;
pub mod event;
pub mod field_errors;
#[cfg(test)]
pub mod fuzzing;
pub mod grant;
pub mod id;
pub mod interrupt;
pub mod journal;
pub mod json;
pub mod message;
pub mod naming;
pub mod notice;
pub mod payload;
pub mod policy;
pub mod question;
pub mod replay;
pub mod run_state;
pub mod schema;
pub mod scope;
pub mod search;
#[cfg(test)]
pub mod seeds;
pub mod session;
pub mod size;
pub mod standing;
pub mod status;
pub mod text;
pub mod time;
pub mod timeline;
pub mod told;
pub mod turn;
pub mod webhook;

pub use error::{Error, FieldError};
pub use field_errors::FieldErrors;
pub use id::{GrantId, InterruptId, KeyId, SessionId, StoreId, TurnId};
pub use time::Timestamp;

/// A JSON object in the order its members arrived.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
