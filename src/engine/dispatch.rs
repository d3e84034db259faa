//! How the engine and the workers reach each other: [`Dispatch`], which the supervisor implements, and
//! [`TurnInbox`], which the engine does. Neither side knows more of the other.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::Engine;
use crate::domain::interrupt::Ask;
use crate::domain::journal::{StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::session::Failure;
use crate::domain::{Error, InterruptId, SessionId, TurnId};

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
/// ([`TurnInbox::turn_failed`]).
pub trait Dispatch: Send + Sync + 'static {
    /// Gives a turn to a worker. The engine has counted it against `--workers` already.
    fn start(&self, order: TurnOrder);

    /// Hands something to the worker of a turn; nothing happens when the turn is gone.
    fn deliver(&self, turn: TurnId, delivery: Delivery);

    /// The turn is settled: its worker cancels it, and is killed where it does not obey soon.
    fn stop(&self, turn: TurnId, message: &str);
}

/// Where words about turns go: the turn methods of [`Engine`], as a trait so that a supervisor can be tested alone.
pub trait TurnInbox: Send + Sync + 'static {
    /// See [`Engine::turn_step`].
    fn turn_step(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        result: StepResult,
    ) -> BoxFuture<'static, Result<u64, Error>>;

    /// See [`Engine::turn_ask`].
    fn turn_ask(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        ask: Ask,
    ) -> BoxFuture<'static, Result<(u64, InterruptId), Error>>;

    /// See [`Engine::turn_withdraw`].
    fn turn_withdraw(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        interrupt: InterruptId,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// See [`Engine::turn_waiting`].
    fn turn_waiting(self: Arc<Self>, turn: TurnId, epoch: u64, seen: Option<u64>);

    /// See [`Engine::turn_delta`].
    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value);

    /// See [`Engine::turn_ended`].
    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: Vec<ChatMessage>,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// See [`Engine::turn_failed`].
    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>>;
}

impl TurnInbox for Engine {
    fn turn_step(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        result: StepResult,
    ) -> BoxFuture<'static, Result<u64, Error>> {
        Box::pin(async move { Engine::turn_step(&self, turn, epoch, step, result).await })
    }

    fn turn_ask(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        ask: Ask,
    ) -> BoxFuture<'static, Result<(u64, InterruptId), Error>> {
        Box::pin(async move { Engine::turn_ask(&self, turn, epoch, step, ask).await })
    }

    fn turn_withdraw(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        interrupt: InterruptId,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_withdraw(&self, turn, epoch, interrupt).await })
    }

    fn turn_waiting(self: Arc<Self>, turn: TurnId, epoch: u64, seen: Option<u64>) {
        Engine::turn_waiting(&self, turn, epoch, seen);
    }

    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        Engine::turn_delta(&self, turn, step_id, attempt, delta);
    }

    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: Vec<ChatMessage>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_ended(&self, turn, epoch, response, state).await })
    }

    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { Engine::turn_failed(&self, turn, epoch, failure).await })
    }
}
