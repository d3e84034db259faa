//! What the server says.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::{MAX_FRAME, PREFIX, Violation};
use crate::domain::journal::RecordedEntry;
use crate::domain::message::Lean;
use crate::domain::time::as_millis;
use crate::domain::{InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::ports::dispatch::{Delivery, TurnOrder};

/// A frame of the server.
#[derive(Debug, Serialize)]
#[serde(tag = "frame", rename_all = "lowercase")]
pub enum ToWorker<'a> {
    /// A turn begins, or goes on from its journal.
    Turn {
        turn: TurnId,
        epoch: u64,
        session_id: SessionId,
        message: Lean<'a>,
        state: Vec<Lean<'a>>,
        journal: &'a [RecordedEntry],
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        answered_by: &'a BTreeMap<InterruptId, String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_by: Option<&'a str>,
        max_payload: usize,
        /// `--hold`; a run in a program is told by the program.
        #[serde(skip_serializing_if = "Option::is_none")]
        hold: Option<f64>,
    },
    /// It is committed.
    Ack {
        turn: TurnId,
        call: u64,
        index: u64,
        #[serde(with = "as_millis")]
        at: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<InterruptId>,
    },
    /// The end of the turn is committed.
    #[serde(rename = "ack")]
    Ended { turn: TurnId, call: u64, index: Option<u64> },
    /// It is not stored.
    Refused { turn: TurnId, call: u64, code: &'a str, message: &'a str },
    /// Somebody answered.
    Answer {
        turn: TurnId,
        index: u64,
        #[serde(with = "as_millis")]
        at: Timestamp,
        interrupt_id: InterruptId,
        value: &'a Value,
        /// Who gave it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
    },
    /// Nobody answered in time.
    Expired {
        turn: TurnId,
        index: u64,
        #[serde(with = "as_millis")]
        at: Timestamp,
        interrupt_id: InterruptId,
    },
    /// The session is settled without the turn.
    Cancel { turn: TurnId, message: &'a str },
    /// The turn is not the worker's any more, and goes on elsewhere at some time.
    Park { turn: TurnId },
    /// Say something.
    Ping {},
    /// End when there is no turn any more.
    Shutdown {},
}

impl<'a> ToWorker<'a> {
    /// What a worker is given of a turn.
    pub fn turn(order: &'a TurnOrder, max_payload: usize, hold: Option<f64>) -> Self {
        Self::Turn {
            turn: order.turn,
            epoch: order.epoch,
            session_id: order.session,
            message: Lean(&order.message),
            state: order.state.iter().map(Lean).collect(),
            journal: &order.journal,
            answered_by: &order.answered_by,
            sent_by: order.sent_by.as_deref(),
            max_payload,
            hold,
        }
    }

    /// Something that a turn waits for has come.
    pub fn delivery(turn: TurnId, delivery: &'a Delivery) -> Self {
        match delivery {
            Delivery::Answer { index, at, interrupt, value, by } => {
                Self::Answer { turn, index: *index, at: *at, interrupt_id: *interrupt, value, by: by.as_deref() }
            }
            Delivery::Expired { index, at, interrupt } => {
                Self::Expired { turn, index: *index, at: *at, interrupt_id: *interrupt }
            }
        }
    }
}

/// The bytes of a frame, its length first.
///
/// # Errors
/// [`Violation`] when it is larger than [`MAX_FRAME`].
pub fn encode(frame: &ToWorker<'_>) -> Result<Bytes, Violation> {
    let mut bytes = vec![0; PREFIX];
    serde_json::to_writer(&mut bytes, frame)
        .map_err(|error| Violation(format!("a frame cannot be written: {error}")))?;
    let size = bytes.len() - PREFIX;
    match u32::try_from(size) {
        Ok(length) if size <= MAX_FRAME => {
            bytes[..PREFIX].copy_from_slice(&length.to_be_bytes());
            Ok(Bytes::from(bytes))
        }
        _ => Err(Violation(format!("a frame of {size} bytes is above the limit of {MAX_FRAME}"))),
    }
}
