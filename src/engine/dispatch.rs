//! How the engine reaches workers. The supervisor implements it; the engine only knows this trait.

use std::sync::Arc;

use serde_json::Value;

use crate::domain::message::ChatMessage;
use crate::domain::{InterruptId, SessionId, TurnId};

/// Everything a worker needs to begin a turn.
#[derive(Debug, Clone)]
pub struct TurnOrder {
    /// The turn.
    pub turn: TurnId,
    /// The epoch at which the engine claimed it; every later word about the turn carries it.
    pub epoch: u64,
    /// Whose.
    pub session: SessionId,
    /// The message.
    pub message: Arc<ChatMessage>,
    /// What the session remembers.
    pub state: Vec<ChatMessage>,
}

/// Something a turn waits for has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// An answer.
    Answer {
        /// Its place in the journal.
        index: u64,
        /// Of which interrupt.
        interrupt: InterruptId,
        /// The answer.
        value: Value,
    },
    /// Nobody answered in time.
    Expired {
        /// Its place in the journal.
        index: u64,
        /// Which interrupt.
        interrupt: InterruptId,
    },
}

/// A way to workers. None of these block or fail: what goes wrong with a turn is told to the engine
/// ([`super::Engine::turn_lost`]).
pub trait Dispatch: Send + Sync + 'static {
    /// Gives a turn to a worker. The engine has counted it against `--workers` already.
    fn start(&self, order: TurnOrder);

    /// Hands something to the worker of a turn; nothing happens when the turn is gone.
    fn deliver(&self, turn: TurnId, delivery: Delivery);

    /// The turn is settled: its worker cancels it, and is killed where it does not obey soon.
    fn stop(&self, turn: TurnId, message: &str);
}
