//! Runs without a server: an engine for each, whose worker is in the same process.
//!
//! A run is one future. Whoever has the turn says [`FromTurn`] to it and is told [`ToTurn`], both as values: there is
//! nothing between the two but a queue each. Where the store is in memory, the future never waits but for the turn.

pub mod driver;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::domain::event::EventView;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::journal::runs::{Begin, RunOutcome};
use crate::engine::ports::dispatch::{AppendResults, Delivery, Dispatch, Lost, Record, Runtime, TurnOrder};
use crate::engine::run::OneRun;
use crate::engine::telling::view::{FeedItem, Subscription};
use crate::store::Store;
use crate::supervisor::batch::MOST;
use crate::supervisor::frames::{EndOutcome, ToWorker, Violation, Word};
use crate::supervisor::runtime::refusal;

/// What a run is given.
pub struct Run {
    /// The agent's name.
    pub agent: String,
    /// What it runs in.
    pub runtime: Runtime,
    /// Where its records go.
    pub store: Arc<dyn Store>,
    /// What it begins with.
    pub begin: Begin,
    /// To let go of it: what the turn has said until then is stored, its journal stays as it is after that, and
    /// [`Run::run`] returns.
    pub stop: CancellationToken,
    /// Who hears of it while it runs.
    pub listener: Option<Box<dyn Fn(EventView) + Send>>,
    /// Whoever has the turn.
    pub worker: Box<dyn Fn(ToTurn) + Send + Sync>,
}

/// What whoever has the turn is told.
#[derive(Debug)]
pub enum ToTurn {
    /// The turn begins, or goes on from its journal.
    Turn(Box<TurnOrder>),
    /// It is committed.
    Ack {
        /// What.
        call: u64,
        /// Its place in the journal.
        index: u64,
        /// When it was appended.
        at: Timestamp,
        /// The interrupt that was opened, for an ask.
        interrupt: Option<InterruptId>,
    },
    /// Something it waits for has come.
    Delivery(Delivery),
    /// Its end is committed.
    Ended {
        /// What said so.
        call: u64,
    },
    /// It is not stored.
    Refused {
        /// What.
        call: u64,
        /// Why.
        code: &'static str,
        /// Why, for people.
        message: String,
    },
    /// It is over: the agent is cancelled.
    Cancel(String),
    /// It goes on later, or elsewhere already.
    Park,
}

impl ToTurn {
    /// It as a frame of the worker protocol.
    pub fn frame(&self, turn: TurnId, max_payload: usize) -> ToWorker<'_> {
        match self {
            Self::Turn(order) => ToWorker::turn(order, max_payload, None),
            Self::Ack { call, index, at, interrupt } => {
                ToWorker::Ack { turn, call: *call, index: *index, at: *at, interrupt_id: *interrupt }
            }
            Self::Delivery(delivery) => ToWorker::delivery(turn, delivery),
            Self::Ended { call } => ToWorker::Ended { turn, call: *call, index: None },
            Self::Refused { call, code, message } => ToWorker::Refused { turn, call: *call, code, message },
            Self::Cancel(message) => ToWorker::Cancel { turn, message },
            Self::Park => ToWorker::Park { turn },
        }
    }
}

/// What a run hears.
pub enum FromTurn {
    /// The engine's order, which comes first.
    Begin(TurnOrder),
    /// A word of the turn.
    Word(Word),
}

/// Where a run hears.
pub type RunReceiver = mpsc::UnboundedReceiver<FromTurn>;
/// How it is spoken to.
pub type RunSender = mpsc::UnboundedSender<FromTurn>;

impl Run {
    /// Runs a turn until it is over, or waits for people. What is said to it comes by `receiver`, of which `sender` is
    /// the other end.
    ///
    /// # Errors
    /// Those of [`OneRun::run`].
    pub async fn run(self, sender: RunSender, receiver: RunReceiver) -> Result<RunOutcome, Error> {
        let Self { agent, runtime, store, begin, stop, listener, worker } = self;
        let (session, turn) = begin.ids();
        let worker: Arc<dyn Fn(ToTurn) + Send + Sync> = Arc::from(worker);
        let dispatch = RunDispatch { runtime: runtime.clone(), sender, worker: Arc::clone(&worker) };
        let run = OneRun::new(agent, store, Arc::new(dispatch), listener.is_some()).await?;
        let engine = run.engine();
        let heard = match listener {
            Some(listener) => Some(tokio::spawn(listen(engine.subscribe(None, None).await?, session, listener))),
            None => None,
        };
        let inbox = RunInbox { engine: Arc::clone(engine), turn, epoch: 0, runtime, worker };
        // What is on its way to the store is seen through by either: dropped in the midst, what the turn said would be
        // stored by half, where that takes several transactions, and nobody would be told.
        let (idle, over) = (CancellationToken::new(), CancellationToken::new());
        let running = async {
            let outcome = run.run(begin, idle.clone()).await;
            over.cancel();
            outcome
        };
        let ((), outcome) = tokio::join!(inbox.attend(receiver, stop, &idle, &over), running);
        let told = match heard {
            Some(heard) => {
                let told = run.finish_events().await;
                if told.is_ok() {
                    // It ends with what it has told of the last event.
                    drop(heard.await);
                }
                told
            }
            None => Ok(()),
        };
        run.end();
        outcome.and_then(|outcome| told.map(|()| outcome))
    }
}

/// Passes on what is told of `session`, up to the end of the subscription.
async fn listen(mut events: Subscription, session: SessionId, listener: Box<dyn Fn(EventView) + Send>) {
    while let Some(heard) = events.events.recv().await {
        let event = match heard {
            FeedItem::Stored(numbered) => numbered.event.clone(),
            FeedItem::Passing(event) => EventView::clone(&event),
        };
        if event.session_id == session {
            listener(event);
        }
    }
}

/// Hands what the turn says to the engine, one piece after the other, and tells it when it is committed. What it has said
/// until then is one piece, and one commit.
struct RunInbox {
    engine: Arc<Engine>,
    turn: TurnId,
    epoch: u64,
    runtime: Runtime,
    worker: Arc<dyn Fn(ToTurn) + Send + Sync>,
}

impl RunInbox {
    /// Until the run is `over`. Once it is to `stop`, and all that was said until then is through, it says so: `idle`.
    async fn attend(
        mut self,
        mut receiver: RunReceiver,
        stop: CancellationToken,
        idle: &CancellationToken,
        over: &CancellationToken,
    ) {
        let mut next = None;
        loop {
            let said = match next.take() {
                Some(said) => said,
                None => tokio::select! {
                    biased;
                    () = over.cancelled() => return,
                    Some(said) = receiver.recv() => said,
                    () = stop.cancelled(), if !idle.is_cancelled() => {
                        idle.cancel();
                        continue;
                    }
                },
            };
            match said {
                FromTurn::Begin(order) => self.begin(Box::new(order)).await,
                FromTurn::Word(Word::Record { call, record }) => {
                    let (mut calls, mut records) = (vec![call], vec![record]);
                    while records.len() < MOST && next.is_none() {
                        match receiver.try_recv() {
                            Ok(FromTurn::Word(Word::Record { call, record })) => {
                                calls.push(call);
                                records.push(record);
                            }
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    self.append(calls, records).await;
                }
                FromTurn::Word(word) => self.hear(word).await,
            }
        }
    }

    async fn begin(&mut self, order: Box<TurnOrder>) {
        self.epoch = order.epoch;
        match refusal(&order.journal, &self.runtime.python, self.runtime.pinned_to()) {
            None => (self.worker)(ToTurn::Turn(order)),
            Some(failure) => {
                if let Err(error) = self.engine.turn_failed(self.turn, self.epoch, failure).await {
                    self.cannot_go_on(&error).await;
                }
            }
        }
    }

    async fn hear(&self, word: Word) {
        let (turn, epoch) = (self.turn, self.epoch);
        let heard = match word {
            Word::Replayed { warnings } => self.engine.turn_replayed(turn, epoch, warnings).await,
            Word::Held(held) => {
                self.engine.turn_held(turn, epoch, held);
                Ok(())
            }
            Word::Delta { step_id, attempt, delta } => {
                self.engine.turn_delta(turn, &step_id, attempt, delta);
                Ok(())
            }
            Word::End { call, outcome } => return self.end(call, outcome).await,
            Word::Beyond { call, bound } => {
                let (code, message) = bound.refusal();
                (self.worker)(ToTurn::Refused { call, code, message: message.to_owned() });
                Ok(())
            }
            Word::Wrong { call: Some(call), why } => {
                (self.worker)(ToTurn::Refused { call, code: Violation::CODE, message: why });
                Ok(())
            }
            Word::Wrong { call: None, why } => {
                let failed = Violation(why).failure();
                (self.worker)(ToTurn::Cancel(failed.message.clone()));
                self.engine.turn_failed(turn, epoch, failed).await
            }
            // Nobody waits for these: whoever has the turn is in this process, and does what it is told.
            Word::Dropped { .. } | Word::Record { .. } => Ok(()),
        };
        if let Err(error) = heard {
            self.cannot_go_on(&error).await;
        }
    }

    async fn end(&self, call: u64, outcome: EndOutcome) {
        let (turn, epoch) = (self.turn, self.epoch);
        let ended = match outcome {
            EndOutcome::Done { response, state } => self.engine.turn_ended(turn, epoch, *response, state).await,
            EndOutcome::Failed(failure) => self.engine.turn_failed(turn, epoch, failure).await,
        };
        match &ended {
            Ok(()) | Err(Error::TurnNotOpen(_) | Error::StaleEpoch) => (self.worker)(ToTurn::Ended { call }),
            Err(Error::StoreUnavailable(_)) => {}
            // It ends the turn once more, with this error.
            Err(error) => self.refuse(call, error),
        }
        if let Err(error) = ended {
            self.cannot_go_on(&error).await;
        }
    }

    /// Stores what was said, and tells what became of it.
    async fn append(&self, calls: Vec<Option<u64>>, records: Vec<Record>) {
        match self.engine.turn_append(self.turn, self.epoch, records).await {
            Ok(batch) => self.acknowledge(&calls, batch).await,
            Err(error) => {
                if !matches!(error, Error::StaleEpoch | Error::StoreUnavailable(_)) {
                    calls.into_iter().flatten().for_each(|call| self.refuse(call, &error));
                }
                self.cannot_go_on(&error).await;
            }
        }
    }

    async fn acknowledge(&self, calls: &[Option<u64>], batch: AppendResults) {
        for (call, outcome) in calls.iter().zip(batch) {
            match (call, outcome) {
                (Some(call), Ok(Some(appended))) => {
                    let (index, at, interrupt) = (appended.index, appended.at, appended.interrupt);
                    (self.worker)(ToTurn::Ack { call: *call, index, at, interrupt });
                    if let (Some(interrupt), Some((index, value))) = (interrupt, appended.answer) {
                        let by = appended.answered_by;
                        (self.worker)(ToTurn::Delivery(Delivery::Answer { index, at, interrupt, value, by }));
                    }
                }
                (Some(call), Err(error)) => self.refuse(*call, &error),
                (Some(_), Ok(None)) => {
                    tracing::error!(turn = %self.turn, "what has to be acknowledged was not");
                    self.lose("a record has no place in the journal".to_owned()).await;
                }
                (None, Err(error)) => tracing::warn!(turn = %self.turn, %error, "a word of a turn was refused"),
                (None, Ok(_)) => {}
            }
        }
    }

    fn refuse(&self, call: u64, error: &Error) {
        (self.worker)(ToTurn::Refused { call, code: error.code(), message: error.to_string() });
    }

    /// What an error means for the turn as a whole, where it means more than that nothing was stored.
    async fn cannot_go_on(&self, error: &Error) {
        match error {
            Error::TurnNotOpen(_) => {
                (self.worker)(ToTurn::Cancel(error.to_string()));
                self.engine.lost_to_another(self.turn, self.epoch);
            }
            Error::StaleEpoch => {
                (self.worker)(ToTurn::Park);
                self.engine.lost_to_another(self.turn, self.epoch);
            }
            Error::StoreUnavailable(message) => self.lose(message.clone()).await,
            other => tracing::error!(turn = %self.turn, error = %other, "what a turn said could not be stored"),
        }
    }

    /// Nobody knows what the journal holds: the turn has to begin anew.
    async fn lose(&self, message: String) {
        (self.worker)(ToTurn::Park);
        if let Err(error) = self.engine.turn_lost(self.turn, self.epoch, Lost::Unstored { message }).await {
            tracing::error!(turn = %self.turn, %error, "what became of a turn could not be stored");
        }
    }
}

/// How the engine of a run reaches whoever has the turn.
struct RunDispatch {
    runtime: Runtime,
    sender: RunSender,
    worker: Arc<dyn Fn(ToTurn) + Send + Sync>,
}

impl Dispatch for RunDispatch {
    fn start(&self, order: TurnOrder) {
        // The run that would not hear it is over.
        drop(self.sender.send(FromTurn::Begin(order)));
    }

    /// Nothing is sorted against acknowledgements on their way, as a server does: who answers while the turn is at work here claims
    /// it with the answer, and what this run says after that is refused. An answer of a rule comes with its own acknowledgement.
    fn deliver(&self, _turn: TurnId, delivery: Delivery) {
        (self.worker)(ToTurn::Delivery(delivery));
    }

    fn stop(&self, _turn: TurnId, message: &str) {
        (self.worker)(ToTurn::Cancel(message.to_owned()));
    }

    fn park(&self, _turn: TurnId) {
        (self.worker)(ToTurn::Park);
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }
}
