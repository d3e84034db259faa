//! What an operator sets.

use crate::domain::notice::Tries;
use crate::domain::payload::{MAX_PAYLOAD, MAX_VALUE};
use crate::domain::webhook::Webhook;

/// Settings of the engine; times in seconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `MODULE:ATTR` of the agent served.
    pub agent: String,
    /// How many turns may be at work; 0 where other servers run them all.
    pub workers: usize,
    /// How many more may wait for a worker.
    pub queue: usize,
    /// How many sessions there may be; `None` for no limit.
    pub max_sessions: Option<usize>,
    /// Whether PUT may choose the id of a session.
    pub allow_custom_ids: bool,
    /// How long a turn may be at work, people's time not counted; 0 for no limit.
    pub timeout: f64,
    /// How long an interrupt can be answered where it does not say itself; 0 for no limit.
    pub interrupt_ttl: f64,
    /// After which time idle and error sessions are removed; 0 for never.
    pub ttl: f64,
    /// After which time a suspended turn can be taken up again no more; 0 for never.
    pub suspended_ttl: f64,
    /// After how long a paused turn is parked; 0 for at once.
    pub park_after: f64,
    /// How many paused turns stay in memory.
    pub max_warm: usize,
    /// How often a turn is taken up again whose worker died under it, alone or with its server.
    pub max_recoveries: u32,
    /// How long the journal of an ended turn is kept; 0 for as long as its session.
    pub keep_journal: f64,
    /// The largest interrupt payload.
    pub max_payload: usize,
    /// The largest answer.
    pub max_value: usize,
    /// Whether webhooks may go to private and loopback addresses.
    pub webhook_allow_private: bool,
    /// The Standard Webhooks secret, `whsec_<base64>`.
    pub webhook_secret: Option<String>,
    /// The server's own webhooks.
    pub webhooks: Vec<Webhook>,
    /// How often a webhook is tried again.
    pub tries: Tries,
    /// How long one try of a webhook may take; shorter than a lease.
    pub webhook_timeout: f64,
    /// After how long webhooks are told again of what still waits; 0 for never.
    pub remind_after: f64,
    /// Whether run states are taken in.
    pub allow_import: bool,
    /// What run states are signed with, going out and coming in.
    pub state_key: Option<String>,
    /// Whether whoever sent a message may not let its tools run.
    pub prevent_self_approval: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            agent: "agent".to_owned(),
            workers: 2,
            queue: 1000,
            max_sessions: None,
            allow_custom_ids: false,
            timeout: 0.0,
            interrupt_ttl: 0.0,
            ttl: 0.0,
            suspended_ttl: 0.0,
            park_after: 60.0,
            max_warm: 64,
            max_recoveries: 3,
            keep_journal: 7.0 * 24.0 * 3600.0,
            max_payload: MAX_PAYLOAD,
            max_value: MAX_VALUE,
            webhook_allow_private: false,
            webhook_secret: None,
            webhooks: Vec::new(),
            tries: Tries::default(),
            webhook_timeout: 15.0,
            remind_after: 0.0,
            allow_import: false,
            state_key: None,
            prevent_self_approval: false,
        }
    }
}
