//! A server that runs no turns: none is ever given to it.

use crate::domain::TurnId;
use crate::engine::ports::dispatch::{Delivery, Dispatch, Runtime, TurnOrder};

/// See the module.
pub struct NoWorkers;

impl Dispatch for NoWorkers {
    fn start(&self, order: TurnOrder) {
        tracing::error!(turn = %order.turn, "a server without workers was given a turn; another one takes it");
    }

    fn deliver(&self, _: TurnId, _: Delivery) {}

    fn stop(&self, _: TurnId, _: &str) {}

    fn park(&self, _: TurnId) {}

    /// No code of an agent is here: nothing is said of it.
    fn runtime(&self) -> Runtime {
        Runtime { agent: None, code: String::new(), python: String::new(), replay: true, pin: false }
    }
}
