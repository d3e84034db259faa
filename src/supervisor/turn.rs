//! One turn at a worker: a task that hands words to the engine one after the other and acknowledges each when it is
//! committed.
//!
//! What the turn is told keeps the order of its journal: an answer that is committed while another word of the turn is
//! on its way to the store waits until that word's index is known, and goes before or after its acknowledgement
//! accordingly.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Supervisor;
use super::frames::{self, Outcome, ToWorker, Word};
use super::pool::{Lease, Refused};
use super::worker::Seat;
use crate::domain::session::Failure;
use crate::domain::{Error, InterruptId, TurnId};
use crate::engine::dispatch::{Delivery, TurnInbox, TurnOrder};

/// How long a shared worker may say nothing at all after it was told to cancel a turn. It gives the turn five seconds to
/// clean up and its leftover tasks one more, and then says so; a worker that does not has a blocked event loop.
const SILENCE: Duration = Duration::from_secs(8);

/// How long the log waits to learn how a worker ended.
const EXIT_NEWS: Duration = Duration::from_secs(2);

/// What the engine wants of a turn.
pub enum Order {
    /// Hand it over.
    Deliver(Delivery),
    /// It is settled.
    Stop(String),
}

/// See the module.
pub struct Turn {
    supervisor: Arc<Supervisor>,
    inbox: Arc<dyn TurnInbox>,
    order: TurnOrder,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Deliveries that wait for the index of a word on its way.
    held: Vec<Delivery>,
    stop: Option<String>,
}

enum Next {
    GoOn,
    /// The engine has the turn's end.
    Ended,
    /// The turn is settled without it.
    Stop(String),
}

impl Turn {
    /// A turn that has not begun.
    pub fn new(
        supervisor: Arc<Supervisor>,
        inbox: Arc<dyn TurnInbox>,
        order: TurnOrder,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        Self { supervisor, inbox, order, orders, held: Vec::new(), stop: None }
    }

    /// Runs it to its end.
    pub async fn run(mut self) {
        let supervisor = Arc::clone(&self.supervisor);
        let taken = tokio::select! {
            biased;
            () = stop_ordered(&mut self.orders) => return,
            taken = take(&supervisor, &self.order) => taken,
        };
        match taken {
            Ok((mut seat, lease)) => {
                self.serve(&mut seat).await;
                drop(seat);
                drop(lease);
            }
            Err(failure) => self.fail(failure).await,
        }
    }

    async fn serve(&mut self, seat: &mut Seat) {
        loop {
            let next = tokio::select! {
                biased;
                Some(order) = self.orders.recv() => {
                    self.hold(order);
                    self.deliver_held(seat, None);
                    Next::GoOn
                }
                heard = seat.next() => match heard {
                    Some(heard) => self.handle(seat, *heard.word).await,
                    None => return self.lost(seat).await,
                },
            };
            match (next, self.stop.take()) {
                (Next::Ended, _) => return,
                (Next::Stop(message), _) | (Next::GoOn, Some(message)) => return self.cancel(seat, &message).await,
                (Next::GoOn, None) => {}
            }
        }
    }

    async fn handle(&mut self, seat: &Seat, word: Word) -> Next {
        let (turn, epoch) = (self.order.turn, self.order.epoch);
        let inbox = Arc::clone(&self.inbox);
        match word {
            Word::Step { call, step, result } => {
                let committed = inbox.turn_step(turn, epoch, step, result).await.map(|index| (index, None));
                self.reply(seat, call, committed)
            }
            Word::Ask { call, step, ask } => {
                let committed = inbox.turn_ask(turn, epoch, step, *ask).await;
                self.reply(seat, call, committed.map(|(index, interrupt)| (index, Some(interrupt))))
            }
            Word::Withdraw { interrupt } => match inbox.turn_withdraw(turn, epoch, interrupt).await {
                Ok(()) => Next::GoOn,
                Err(error) if is_settled(&error) => Next::Stop(error.to_string()),
                Err(error) => {
                    tracing::warn!(%turn, %interrupt, %error, "an interrupt could not be withdrawn");
                    Next::GoOn
                }
            },
            Word::Waiting { seen } => {
                self.supervisor.set_waiting(turn, true);
                inbox.turn_waiting(turn, epoch, seen);
                Next::GoOn
            }
            Word::Delta { step_id, attempt, delta } => {
                inbox.turn_delta(turn, &step_id, attempt, delta);
                Next::GoOn
            }
            Word::End { call, outcome } => self.end(seat, call, outcome).await,
            Word::TooDeep { call } => {
                let message = "the value is nested too deeply to be stored";
                seat.worker().send(&ToWorker::Refused { turn, call, code: "value_too_deep", message });
                Next::GoOn
            }
            Word::Cancelled { .. } => Next::GoOn,
        }
    }

    async fn end(&mut self, seat: &Seat, call: u64, outcome: Outcome) -> Next {
        let (turn, epoch) = (self.order.turn, self.order.epoch);
        let inbox = Arc::clone(&self.inbox);
        let ended = match outcome {
            Outcome::Done { response, state } => match inbox.turn_ended(turn, epoch, *response, state).await {
                Err(error) if !is_settled(&error) => {
                    // The worker ends the turn once more, with this error.
                    return self.reply(seat, call, Err(error));
                }
                ended => ended,
            },
            Outcome::Failed(failure) => inbox.turn_failed(turn, epoch, failure).await,
        };
        report(turn, ended);
        seat.worker().send(&ToWorker::Ack { turn, call, index: None, interrupt_id: None });
        Next::Ended
    }

    /// Tells the worker what a word came to, and in the journal's order what was delivered meanwhile.
    fn reply(&mut self, seat: &Seat, call: u64, committed: Result<(u64, Option<InterruptId>), Error>) -> Next {
        let turn = self.order.turn;
        while let Ok(order) = self.orders.try_recv() {
            self.hold(order);
        }
        match committed {
            Ok((index, interrupt_id)) => {
                self.deliver_held(seat, Some(index));
                seat.worker().send(&ToWorker::Ack { turn, call, index: Some(index), interrupt_id });
                self.deliver_held(seat, None);
                Next::GoOn
            }
            Err(error) => {
                self.deliver_held(seat, None);
                let message = error.to_string();
                seat.worker().send(&ToWorker::Refused { turn, call, code: error.code(), message: &message });
                if is_settled(&error) { Next::Stop(message) } else { Next::GoOn }
            }
        }
    }

    fn hold(&mut self, order: Order) {
        match order {
            Order::Deliver(delivery) => self.held.push(delivery),
            Order::Stop(message) => self.stop = Some(message),
        }
    }

    /// Sends what is held and comes before `index` in the journal, or all of it.
    fn deliver_held(&mut self, seat: &Seat, index: Option<u64>) {
        if self.held.is_empty() {
            return;
        }
        self.held.sort_by_key(place);
        let until = match index {
            Some(index) => self.held.partition_point(|delivery| place(delivery) < index),
            None => self.held.len(),
        };
        let turn = self.order.turn;
        for delivery in self.held.drain(..until) {
            self.supervisor.set_waiting(turn, false);
            seat.worker().send(&match &delivery {
                Delivery::Answer { index, interrupt, value } => {
                    ToWorker::Answer { turn, index: *index, interrupt_id: *interrupt, value }
                }
                Delivery::Expired { index, interrupt } => {
                    ToWorker::Expired { turn, index: *index, interrupt_id: *interrupt }
                }
            });
        }
    }

    /// The turn is settled: its worker drops it, or dies.
    async fn cancel(&mut self, seat: &mut Seat, message: &str) {
        let turn = self.order.turn;
        let worker = Arc::clone(seat.worker());
        worker.send(&ToWorker::Cancel { turn, message });
        let patience = if worker.shared { SILENCE } else { self.supervisor.stop_grace };
        loop {
            let before = worker.heard();
            match timeout(patience, obeyed(seat, turn)).await {
                Ok(0) => return,
                Ok(left) => {
                    tracing::warn!(
                        session = %self.order.session, left,
                        "tasks of a stopped turn go on; their worker gets no more turns and ends after those it has"
                    );
                    self.supervisor.retire(&worker);
                    return;
                }
                Err(_) if worker.shared && worker.heard() > before => {}
                Err(_) => {
                    tracing::warn!(session = %self.order.session, "a stopped turn does not end; its worker is killed");
                    worker.kill();
                    return;
                }
            }
        }
    }

    async fn lost(&mut self, seat: &Seat) {
        if self.supervisor.is_stopping() {
            return self.fail(Failure::server_restarted()).await;
        }
        let worker = seat.worker();
        self.fail(worker.gone().failure()).await;
        let exit = timeout(EXIT_NEWS, worker.ended()).await.map_or("still running".to_owned(), |exit| exit.to_string());
        tracing::error!(session = %self.order.session, exit, "a worker was lost under its turn");
    }

    async fn fail(&self, failure: Failure) {
        let (turn, epoch) = (self.order.turn, self.order.epoch);
        report(turn, Arc::clone(&self.inbox).turn_failed(turn, epoch, failure).await);
    }
}

fn report(turn: TurnId, ended: Result<(), Error>) {
    match ended {
        Err(error) if !is_settled(&error) => tracing::error!(%turn, %error, "the end of a turn could not be stored"),
        _ => {}
    }
}

/// Resolves when the turn is to stop before it has begun; nothing can be delivered to it until then.
async fn stop_ordered(orders: &mut mpsc::UnboundedReceiver<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Stop(_)) => return,
            Some(Order::Deliver(_)) => {}
            None => std::future::pending().await,
        }
    }
}

/// Waits for a worker and gives it the turn. Dropped before its end, the worker has heard nothing of the turn.
async fn take(supervisor: &Arc<Supervisor>, order: &TurnOrder) -> Result<(Seat, Lease), Failure> {
    let frame = frames::encode(&ToWorker::Turn {
        turn: order.turn,
        session_id: order.session,
        message: &order.message,
        state: &order.state,
        journal: [],
        max_payload: supervisor.max_payload,
    })
    .map_err(|violation| {
        Failure::new("turn_too_large", format!("The session is too large for a worker: {violation}"))
    })?;
    loop {
        let mut lease = supervisor.lease().await.map_err(|refused| match refused {
            Refused::NoWorker => Failure::worker_exited(),
            Refused::Stopping => Failure::server_restarted(),
        })?;
        let Some(seat) = lease.worker().and_then(|worker| worker.seat(order.turn, order.session)) else {
            supervisor.discard(lease);
            continue;
        };
        seat.worker().begin(frame.clone(), order.session).await;
        lease.mark_used();
        supervisor.refill();
        return Ok((seat, lease));
    }
}

/// How many tasks go on, once the worker has dropped a turn or is gone.
async fn obeyed(seat: &mut Seat, turn: TurnId) -> u64 {
    while let Some(heard) = seat.next().await {
        match *heard.word {
            Word::Cancelled { left } => return left,
            Word::End { call, .. } => {
                seat.worker().send(&ToWorker::Ack { turn, call, index: None, interrupt_id: None });
                return 0;
            }
            Word::Step { call, .. } | Word::Ask { call, .. } | Word::TooDeep { call } => {
                let (code, message) = (Error::TurnNotOpen.code(), Error::TurnNotOpen.to_string());
                seat.worker().send(&ToWorker::Refused { turn, call, code, message: &message });
            }
            Word::Withdraw { .. } | Word::Waiting { .. } | Word::Delta { .. } => {}
        }
    }
    0
}

/// Somebody else has ended the turn, or has it now.
fn is_settled(error: &Error) -> bool {
    matches!(error, Error::TurnNotOpen | Error::StaleEpoch)
}

fn place(delivery: &Delivery) -> u64 {
    match delivery {
        Delivery::Answer { index, .. } | Delivery::Expired { index, .. } => *index,
    }
}
