//! What workers tell the engine about turns. Every word carries the epoch at which the turn was claimed: a worker that
//! lost its turn changes nothing.

use std::sync::Arc;

use serde_json::Value;

use super::dispatch::TurnOrder;
use super::owed::Owed;
use super::{Engine, clock};
use crate::domain::event::{Event, EventView};
use crate::domain::interrupt::{Ask, Interrupt, Opening};
use crate::domain::journal::{Ending, Entry, StepIdentity, StepResult};
use crate::domain::message::ChatMessage;
use crate::domain::session::{self, Failure, Session};
use crate::domain::{Error, InterruptId, TurnId};
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// A step finished: its index in the journal once it is committed.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_step(
        &self,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        result: StepResult,
    ) -> Result<u64, Error> {
        self.counters.step();
        self.store.transact(move |tx| tx.append(turn, epoch, &Entry::Step { step, result }, clock::now())).await
    }

    /// The turn asks: the index in the journal and the interrupt's id once it is committed.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`]; and [`Error::PayloadTooLarge`], [`Error::InvalidPayload`],
    /// [`Error::InvalidSchema`], which are raised in the agent.
    pub async fn turn_ask(
        &self,
        turn: TurnId,
        epoch: u64,
        step: StepIdentity,
        ask: Ask,
    ) -> Result<(u64, InterruptId), Error> {
        let session_id = self.live.session(turn, epoch).ok_or(Error::TurnNotOpen)?;
        let (default_ttl, max_payload) = (self.settings.interrupt_ttl, self.settings.max_payload);
        let (index, interrupt, owed) = self
            .store
            .transact(move |tx| {
                let now = clock::now();
                let id = clock::interrupt_id();
                let opening = Opening { id, session: session_id, turn, now, default_ttl, max_payload };
                let interrupt = Interrupt::open(ask, opening)?;
                let session = tx.session(session_id)?.ok_or(Error::TurnNotOpen)?;
                let mut owed = Owed::default();
                let index = tx.append(turn, epoch, &Entry::Ask { step, interrupt_id: id }, now)?;
                tx.insert_interrupt(&interrupt)?;
                owed.tell(tx, &Event::interrupt(&interrupt), now)?;
                owed.change(tx, &session, session::Event::InterruptOpened { turn, interrupt: id }, now)?;
                Ok((index, interrupt, owed))
            })
            .await?;
        self.counters.asked();
        if let Some(due) = interrupt.expires_at {
            self.deadlines.insert(due, interrupt.interrupt_id);
        }
        self.settle(owed);
        Ok((index, interrupt.interrupt_id))
    }

    /// The task that asked was cancelled: the interrupt leaves the list. Nothing happens where it is settled already.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_withdraw(&self, turn: TurnId, epoch: u64, interrupt: InterruptId) -> Result<(), Error> {
        let owed = self
            .store
            .transact(move |tx| {
                let now = clock::now();
                let mut owed = Owed::default();
                let cancelled =
                    tx.interrupt(interrupt)?.filter(|found| found.turn_id == turn).and_then(|found| found.cancel(now));
                let Some(cancelled) = cancelled else { return Ok(owed) };
                let session = tx.session(cancelled.session_id)?.ok_or(Error::TurnNotOpen)?;
                tx.append(turn, epoch, &Entry::Withdraw { interrupt_id: interrupt }, now)?;
                tx.update_interrupt(&cancelled)?;
                owed.tell(tx, &Event::interrupt(&cancelled), now)?;
                owed.change(tx, &session, session::Event::InterruptClosed { turn, interrupt }, now)?;
                owed.withdrawn.push(cancelled);
                Ok(owed)
            })
            .await?;
        self.settle(owed);
        Ok(())
    }

    /// The turn awaits nothing but interrupts, and has seen the journal up to `seen`: its place is free.
    pub fn turn_waiting(self: &Arc<Self>, turn: TurnId, epoch: u64, seen: Option<u64>) {
        let next = self.live.wait(turn, epoch, seen, self);
        self.begin_next(next);
    }

    /// A piece of a message as the model says it.
    pub fn turn_delta(&self, turn: TurnId, step_id: &str, attempt: u32, delta: Value) {
        if let Some(session) = self.live.session_of(turn) {
            self.feed.pass(EventView::delta(session, step_id, attempt, delta));
        }
    }

    /// The agent returned.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_ended(
        self: &Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: Vec<ChatMessage>,
    ) -> Result<(), Error> {
        let session_id = self.live.session(turn, epoch).ok_or(Error::TurnNotOpen)?;
        let owed = self
            .store
            .transact(move |tx| {
                let session = tx.session(session_id)?.ok_or(Error::TurnNotOpen)?;
                tx.append(turn, epoch, &Entry::End { ending: Ending::Done }, clock::now())?;
                tx.set_messages(session_id, &state)?;
                let event = session::Event::TurnEnded { turn, response, total_messages: state.len() };
                end(tx, &session, turn, event)
            })
            .await?;
        self.counters.turn_ended(true);
        self.leave(turn);
        self.settle(owed);
        Ok(())
    }

    /// The agent raised, its time was over, or its worker was lost. The session's messages are those from before.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_failed(self: &Arc<Self>, turn: TurnId, epoch: u64, failure: Failure) -> Result<(), Error> {
        let session_id = self.live.session(turn, epoch).ok_or(Error::TurnNotOpen)?;
        let owed = self
            .store
            .transact(move |tx| {
                let session = tx.session(session_id)?.ok_or(Error::TurnNotOpen)?;
                let entry = Entry::End { ending: Ending::Failed(failure.message.clone()) };
                tx.append(turn, epoch, &entry, clock::now())?;
                end(tx, &session, turn, session::Event::TurnFailed { turn, failure })
            })
            .await?;
        self.counters.turn_ended(false);
        self.leave(turn);
        self.settle(owed);
        Ok(())
    }

    /// The turn is over for this process.
    pub(super) fn leave(self: &Arc<Self>, turn: TurnId) {
        if self.live.remove(turn) {
            let next = self.slots().leave(turn);
            self.begin_next(next);
        }
    }

    fn begin_next(self: &Arc<Self>, next: Option<TurnOrder>) {
        if let Some(order) = next.filter(|_| !self.is_stopping()) {
            self.begin(order);
        }
    }
}

fn end(tx: &mut dyn Transaction, session: &Session, turn: TurnId, event: session::Event) -> Result<Owed, Error> {
    let now = clock::now();
    let mut owed = Owed::default();
    owed.change(tx, session, event, now)?;
    tx.end_turn(turn, now)?;
    Ok(owed)
}
