//! One turn at a worker: a task that hands what the worker says to the engine, one piece after the other, and
//! acknowledges it when it is committed. What the worker has said until then is one piece, and one commit.
//!
//! What the turn is told keeps the order of its journal: an answer that is committed while words of the turn are on
//! their way to the store waits until their indexes are known, and goes before or after their acknowledgements
//! accordingly.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Supervisor;
use super::batch::Batch;
use super::frames::{EndOutcome, ToWorker, Violation, Word};
use super::seat::{Seat, SeatEvent};
use super::seats::ReceivedWord;
use super::take::{TakeError, take};
use super::worker::Worker;
use crate::domain::session::Failure;
use crate::domain::{Error, SessionId, TurnId};
use crate::engine::ports::dispatch::{Delivery, Lost, TurnInbox, TurnOrder};
use crate::faults::{self, Point};

/// How long a shared worker may say nothing at all after it was told to drop a turn. It gives the turn five seconds to
/// clean up and its leftover tasks one more, and then says so; a worker that does not has a blocked event loop.
const SILENCE: Duration = Duration::from_secs(8);

/// How long a lost turn waits for the process that it was lost with: two should not run it at once.
const EXIT_NEWS: Duration = Duration::from_secs(2);

/// What the engine wants of a turn.
pub enum TurnCommand {
    /// Hand it over.
    Deliver(Delivery),
    /// It is to leave its worker.
    Leave(Leave),
}

/// Why a turn is to leave its worker.
#[derive(Debug, Clone)]
pub enum Leave {
    /// It is over: the agent is cancelled.
    Over(String),
    /// It goes on later, or elsewhere already: it is dropped from memory.
    Parked,
}

/// See the module.
pub struct TurnTask {
    supervisor: Arc<Supervisor>,
    inbox: Arc<dyn TurnInbox>,
    turn: TurnId,
    epoch: u64,
    session: SessionId,
    /// Entries that came with the order; deliveries of those are not repeated.
    known: u64,
    orders: mpsc::UnboundedReceiver<TurnCommand>,
    /// Deliveries that wait for the indexes of words on their way.
    kept_back: Vec<Delivery>,
    /// The last entry that was delivered: a turn that says it waits and has not seen it goes on.
    delivered: Option<u64>,
    leave: Option<Leave>,
    /// The worker was silent for too long, but lives (in tests): what it says comes too late.
    given_up: bool,
    /// Whoever has the turn next may begin.
    freed: CancellationToken,
}

enum After {
    GoOn,
    /// The engine has the turn's end.
    Ended,
    /// The turn leaves its worker.
    Leave(Leave),
    /// Nobody knows what the journal holds: the turn leaves its worker and has to begin anew.
    Unstored(String),
    /// The worker has let go of the turn, and this many of its tasks go on: nobody had asked for that.
    Dropped(u64),
}

impl TurnTask {
    /// A turn that has not begun. `freed` is told when it is in no worker any more.
    pub fn new(
        supervisor: Arc<Supervisor>,
        inbox: Arc<dyn TurnInbox>,
        order: &TurnOrder,
        orders: mpsc::UnboundedReceiver<TurnCommand>,
        freed: CancellationToken,
    ) -> Self {
        Self {
            supervisor,
            inbox,
            turn: order.turn,
            epoch: order.epoch,
            session: order.session,
            known: u64::try_from(order.journal.len()).unwrap_or(u64::MAX),
            orders,
            kept_back: Vec::new(),
            delivered: None,
            leave: None,
            given_up: false,
            freed,
        }
    }

    /// Runs it until its worker has no more of it. `before` is done when nobody else has the turn any more.
    pub async fn run(mut self, order: TurnOrder, before: Option<CancellationToken>) {
        let supervisor = Arc::clone(&self.supervisor);
        let alone = before.unwrap_or_else(|| {
            let nobody = CancellationToken::new();
            nobody.cancel();
            nobody
        });
        let taken = tokio::select! {
            biased;
            () = self.told_to_leave() => None,
            taken = async {
                alone.cancelled().await;
                take(&supervisor, order).await
            } => Some(taken),
        };
        match taken {
            Some(Ok((mut seat, lease))) => {
                let lost = self.serve(&mut seat).await;
                drop(seat);
                drop(lease);
                self.freed.cancel();
                if let Some(lost) = lost {
                    self.lose(lost).await;
                }
            }
            Some(Err(TakeError::Failed(failure))) => self.fail(failure).await,
            Some(Err(TakeError::Lost(lost))) => self.lose(lost).await,
            None => alone.cancelled().await,
        }
        self.freed.cancel();
    }

    /// Stays with the turn until its worker has no more of it. The engine still has to be told of a loss then.
    async fn serve(&mut self, seat: &mut Seat) -> Option<Lost> {
        self.deliver_kept_back(seat, None);
        loop {
            let after = tokio::select! {
                biased;
                Some(order) = self.orders.recv(), if !self.given_up => {
                    self.keep_back(order);
                    self.deliver_kept_back(seat, None);
                    After::GoOn
                }
                next = seat.next() => match next {
                    Some(SeatEvent::Word(heard)) => self.handle(seat, heard).await,
                    Some(SeatEvent::Silent) => self.give_up().await,
                    None => return self.worker_lost(seat.worker()).await,
                },
            };
            match (after, self.leave.take()) {
                (After::Ended, _) => return None,
                // Also where it was to leave: an order about a turn that was let go of is answered by that alone.
                (After::Dropped(left), leave) => return self.let_go(seat, left, leave.is_some()),
                (After::Unstored(message), None) => {
                    self.vacate(seat, &Leave::Parked).await;
                    return Some(Lost::Unstored { message });
                }
                (_, Some(leave)) | (After::Leave(leave), None) => {
                    self.vacate(seat, &leave).await;
                    return None;
                }
                (After::GoOn, None) => {}
            }
        }
    }

    async fn handle(&mut self, seat: &mut Seat, ReceivedWord { word, room }: ReceivedWord) -> After {
        let (turn, epoch) = (self.turn, self.epoch);
        let inbox = Arc::clone(&self.inbox);
        match word {
            Word::Record { call, record } => {
                let batch = Batch::collect(seat, call, record, room);
                self.store(seat, batch).await
            }
            Word::Replayed { warnings } => match inbox.turn_replayed(turn, epoch, warnings).await {
                Ok(()) => After::GoOn,
                Err(error) => self.refused(error).unwrap_or(After::GoOn),
            },
            Word::Held(held) => {
                inbox.turn_held(turn, epoch, held);
                After::GoOn
            }
            Word::Delta { step_id, attempt, delta } => {
                self.set_waiting(seat, false);
                inbox.turn_delta(turn, &step_id, attempt, delta);
                After::GoOn
            }
            Word::End { call, outcome } => self.end(seat, call, outcome).await,
            Word::Beyond { call, bound } => {
                let (code, message) = bound.refusal();
                seat.worker().send(&ToWorker::Refused { turn, call, code, message });
                After::GoOn
            }
            Word::Wrong { call: Some(call), why } => {
                tracing::error!(session = %self.session, why, "what a turn said cannot be read");
                seat.worker().send(&ToWorker::Refused { turn, call, code: Violation::CODE, message: &why });
                After::GoOn
            }
            Word::Wrong { call: None, why } => {
                tracing::error!(session = %self.session, why, "a turn fails, since what it said cannot be read");
                let failure = Violation(why).failure();
                self.fail(failure.clone()).await;
                After::Leave(Leave::Over(failure.message))
            }
            Word::Dropped { left } => After::Dropped(left),
        }
    }

    /// Stores what was said, and tells the worker what became of it; in the journal's order also what was delivered
    /// meanwhile.
    async fn store(&mut self, seat: &Seat, batch: Batch) -> After {
        let (turn, epoch) = (self.turn, self.epoch);
        let Batch { records, calls, waits, rooms } = batch;
        faults::at(Point::SupervisorHeard);
        let stored = Arc::clone(&self.inbox).turn_append(turn, epoch, records).await;
        drop(rooms);
        faults::at(Point::SupervisorStored);
        while let Ok(order) = self.orders.try_recv() {
            self.keep_back(order);
        }
        self.set_waiting(seat, waits.is_some_and(|seen| seen >= self.delivered));
        let after = match stored {
            Ok(outcomes) => {
                for (call, outcome) in calls.into_iter().zip(outcomes) {
                    match (call, outcome) {
                        (Some(call), Ok(Some(appended))) => {
                            self.deliver_kept_back(seat, Some(appended.index));
                            let (index, at, interrupt_id) = (appended.index, appended.at, appended.interrupt);
                            seat.worker().send(&ToWorker::Ack { turn, call, index, at, interrupt_id });
                            faults::at(Point::SupervisorAcknowledged);
                            if let (Some(interrupt_id), Some((index, value))) = (interrupt_id, &appended.answer) {
                                self.set_waiting(seat, false);
                                let index = *index;
                                self.delivered = self.delivered.max(Some(index));
                                let by = appended.answered_by.as_deref();
                                seat.worker().send(&ToWorker::Answer { turn, index, at, interrupt_id, value, by });
                            }
                        }
                        (Some(call), Err(error)) => self.refuse(seat, call, &error),
                        (None, Err(error)) => tracing::warn!(%turn, %error, "a word of a turn was refused"),
                        (None, Ok(_)) => {}
                        (Some(_), Ok(None)) => {
                            tracing::error!(%turn, "what has to be acknowledged was not");
                            return After::Unstored("a record has no place in the journal".to_owned());
                        }
                    }
                }
                After::GoOn
            }
            Err(error) => {
                let after = self.refused(error.clone());
                if matches!(after, None | Some(After::Leave(Leave::Over(_)))) {
                    for call in calls.into_iter().flatten() {
                        self.refuse(seat, call, &error);
                    }
                }
                after.unwrap_or(After::GoOn)
            }
        };
        self.deliver_kept_back(seat, None);
        after
    }

    fn refuse(&self, seat: &Seat, call: u64, error: &Error) {
        let message = error.to_string();
        seat.worker().send(&ToWorker::Refused { turn: self.turn, call, code: error.code(), message: &message });
    }

    /// What an error means for the turn as a whole; `None` where it only means that nothing was stored.
    fn refused(&self, error: Error) -> Option<After> {
        match error {
            Error::TurnNotOpen(_) if !self.given_up => Some(After::Leave(Leave::Over(error.to_string()))),
            Error::TurnNotOpen(_) | Error::StaleEpoch => {
                tracing::info!(session = %self.session, "a worker was late with what it said: its turn is elsewhere");
                Some(After::Leave(Leave::Parked))
            }
            Error::StoreUnavailable(message) => Some(After::Unstored(message)),
            other => {
                tracing::error!(session = %self.session, error = %other, "what a turn said could not be stored");
                None
            }
        }
    }

    async fn end(&mut self, seat: &Seat, call: u64, outcome: EndOutcome) -> After {
        let (turn, epoch) = (self.turn, self.epoch);
        let inbox = Arc::clone(&self.inbox);
        faults::at(Point::SupervisorEnd);
        let ended = match outcome {
            EndOutcome::Done { response, state } => inbox.turn_ended(turn, epoch, *response, state).await,
            EndOutcome::Failed(failure) => inbox.turn_failed(turn, epoch, failure).await,
        };
        match ended {
            Err(Error::StoreUnavailable(message)) => return After::Unstored(message),
            Err(error) if !is_not_ours(&error) => {
                tracing::error!(session = %self.session, %error, "the end of a turn could not be stored");
                // The worker ends the turn once more, with this error.
                self.refuse(seat, call, &error);
                return After::GoOn;
            }
            Ok(()) | Err(_) => {}
        }
        faults::at(Point::SupervisorEndStored);
        seat.worker().send(&ToWorker::Ended { turn, call, index: None });
        faults::at(Point::SupervisorEndAcknowledged);
        After::Ended
    }

    fn keep_back(&mut self, order: TurnCommand) {
        match order {
            TurnCommand::Deliver(delivery) if delivery.index() < self.known => {}
            TurnCommand::Deliver(delivery) => self.kept_back.push(delivery),
            // The first one counts: after it the turn is not with this worker any more.
            TurnCommand::Leave(leave) => drop(self.leave.get_or_insert(leave)),
        }
    }

    /// Sends what is kept back and comes before `index` in the journal, or all of it.
    fn deliver_kept_back(&mut self, seat: &Seat, index: Option<u64>) {
        if self.kept_back.is_empty() {
            return;
        }
        self.kept_back.sort_by_key(Delivery::index);
        let until = match index {
            Some(index) => self.kept_back.partition_point(|delivery| delivery.index() < index),
            None => self.kept_back.len(),
        };
        if until > 0 {
            self.set_waiting(seat, false);
        }
        let turn = self.turn;
        for delivery in self.kept_back.drain(..until) {
            self.delivered = self.delivered.max(Some(delivery.index()));
            faults::at(Point::SupervisorDeliver);
            seat.worker().send(&ToWorker::delivery(turn, &delivery));
            faults::at(Point::SupervisorDelivered);
        }
    }

    fn set_waiting(&self, seat: &Seat, waiting: bool) {
        seat.set_at_work(!waiting);
        self.supervisor.set_waiting(self.turn, self.epoch, waiting);
    }

    /// The worker drops the turn, or dies: at once where the turn is parked and was its only one. It is let go instead
    /// where it has something to close: nobody waits for that, as nothing of the turn runs in it any more.
    async fn vacate(&mut self, seat: &mut Seat, leave: &Leave) {
        let turn = self.turn;
        let worker = Arc::clone(seat.worker());
        faults::at(Point::SupervisorVacate);
        match leave {
            Leave::Parked if !worker.shared && worker.may_close() => return worker.send(&ToWorker::Park { turn }),
            Leave::Parked if !worker.shared => return worker.kill(),
            Leave::Parked => worker.send(&ToWorker::Park { turn }),
            Leave::Over(message) => worker.send(&ToWorker::Cancel { turn, message }),
        }
        seat.set_at_work(false);
        let patience = if worker.shared { SILENCE } else { self.supervisor.limits.stop_grace };
        loop {
            let before = worker.heard();
            match timeout(patience, dropped(seat, turn)).await {
                Ok(0) => return,
                Ok(left) => return self.retire(&worker, left),
                Err(_) if worker.shared && worker.heard() > before => {}
                Err(_) => {
                    tracing::warn!(session = %self.session, "a stopped turn does not end; its worker is killed");
                    worker.kill();
                    return;
                }
            }
        }
    }

    fn retire(&self, worker: &Arc<Worker>, left: u64) {
        tracing::warn!(
            session = %self.session, left,
            "tasks of a stopped turn go on; their worker gets no more turns and ends after those it has"
        );
        self.supervisor.retire(worker);
    }

    /// The worker could not say how the turn ended, or is about to end itself: as if it were gone. That is no loss where
    /// the turn was to leave anyway.
    fn let_go(&self, seat: &Seat, left: u64, was_to_leave: bool) -> Option<Lost> {
        if left > 0 {
            self.retire(seat.worker(), left);
        }
        if self.given_up || was_to_leave {
            return None;
        }
        if self.supervisor.is_stopping() {
            return Some(Lost::Stopping);
        }
        tracing::error!(session = %self.session, "a worker let go of a turn without its end");
        Some(Lost::Exited { message: "The worker could not store how the turn ended".to_owned() })
    }

    async fn worker_lost(&self, worker: &Worker) -> Option<Lost> {
        if self.given_up {
            return None;
        }
        if self.supervisor.is_stopping() {
            return Some(Lost::Stopping);
        }
        let exit = timeout(EXIT_NEWS, worker.ended()).await.map_or("still running".to_owned(), |exit| exit.to_string());
        if self.supervisor.is_stopping() {
            return Some(Lost::Stopping);
        }
        tracing::error!(session = %self.session, exit, "a worker was lost under its turn");
        faults::at(Point::SupervisorWorkerLost);
        Some(worker.gone().lost(worker.shared))
    }

    /// The turn is taken over although its worker lives.
    async fn give_up(&mut self) -> After {
        self.given_up = true;
        self.freed.cancel();
        self.lose(Lost::Silent).await;
        After::GoOn
    }

    async fn fail(&self, failure: Failure) {
        match Arc::clone(&self.inbox).turn_failed(self.turn, self.epoch, failure).await {
            Err(Error::StoreUnavailable(message)) => self.lose(Lost::Unstored { message }).await,
            failed => self.report(failed),
        }
    }

    async fn lose(&self, lost: Lost) {
        self.report(Arc::clone(&self.inbox).turn_lost(self.turn, self.epoch, lost).await);
    }

    fn report(&self, told: Result<(), Error>) {
        match told {
            Err(error) if !is_not_ours(&error) => {
                tracing::error!(turn = %self.turn, %error, "what became of a turn could not be stored");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Resolves when the turn is to leave before it has begun.
    async fn told_to_leave(&mut self) {
        loop {
            match self.orders.recv().await {
                Some(TurnCommand::Leave(_)) => return,
                Some(order) => self.keep_back(order),
                None => std::future::pending().await,
            }
        }
    }
}

/// How many tasks go on, once the worker has dropped a turn or is gone.
async fn dropped(seat: &mut Seat, turn: TurnId) -> u64 {
    while let Some(next) = seat.next().await {
        let SeatEvent::Word(heard) = next else { continue };
        match heard.word {
            Word::Dropped { left } => return left,
            Word::Record { call: Some(call), .. }
            | Word::Beyond { call, .. }
            | Word::Wrong { call: Some(call), .. } => {
                let (code, message) = (Error::TurnNotOpen(None).code(), Error::TurnNotOpen(None).to_string());
                seat.worker().send(&ToWorker::Refused { turn, call, code, message: &message });
            }
            // An end that crossed our order does not free the turn: the worker has not taken that order in yet.
            Word::End { .. }
            | Word::Record { call: None, .. }
            | Word::Wrong { call: None, .. }
            | Word::Replayed { .. }
            | Word::Held(_)
            | Word::Delta { .. } => {}
        }
    }
    0
}

/// Somebody else has ended the turn, or has it now.
fn is_not_ours(error: &Error) -> bool {
    matches!(error, Error::TurnNotOpen(_) | Error::StaleEpoch)
}
