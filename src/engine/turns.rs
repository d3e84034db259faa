//! What workers tell the engine about turns.

use std::sync::Arc;

use serde_json::Value;

use super::Engine;
use crate::domain::interrupt::Ask;
use crate::domain::journal::{StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::session::Failure;
use crate::domain::{Error, InterruptId, TurnId};

#[allow(unused_variables, clippy::unused_async, missing_docs)]
impl Engine {
    /// A step finished: its index in the journal once it is committed.
    pub async fn turn_step(self: &Arc<Self>, turn: TurnId, epoch: u64, step: StepIdentity, result: StepResult) -> Result<u64, Error> { Err(Error::ShuttingDown) }
    /// The turn asks: index and interrupt id once it is committed. Errors of the ask itself (too large, bad schema) are raised in the agent.
    pub async fn turn_ask(self: &Arc<Self>, turn: TurnId, epoch: u64, step: StepIdentity, ask: Ask) -> Result<(u64, InterruptId), Error> { Err(Error::ShuttingDown) }
    pub async fn turn_withdraw(self: &Arc<Self>, turn: TurnId, epoch: u64, interrupt: InterruptId) -> Result<(), Error> { Err(Error::ShuttingDown) }
    /// The turn awaits nothing but interrupts.
    pub fn turn_waiting(self: &Arc<Self>, turn: TurnId, epoch: u64) {}
    pub fn turn_delta(&self, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {}
    pub async fn turn_ended(self: &Arc<Self>, turn: TurnId, epoch: u64, response: ChatMessage, state: Vec<ChatMessage>) -> Result<(), Error> { Err(Error::ShuttingDown) }
    /// The agent raised, or its worker was lost.
    pub async fn turn_failed(self: &Arc<Self>, turn: TurnId, epoch: u64, failure: Failure) -> Result<(), Error> { Err(Error::ShuttingDown) }
}
