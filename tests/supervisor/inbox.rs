//! An engine without sessions, which keeps journals in memory and tells what it heard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hitl::domain::journal::{Entry, PendingTimer, RecordedEntry, StepResult, Wake};
use hitl::domain::message::{ChatMessage, NextState};
use hitl::domain::session::Failure;
use hitl::domain::{Error, InterruptId, Timestamp, TurnId};
use hitl::engine::ports::dispatch::{AppendResults, Appended, Lost, Record, TurnInbox};
use hitl::engine::ports::held::Held;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use uuid::Uuid;

/// What the engine was told about a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Step(String, StepResult),
    Intent(String),
    Ask(InterruptId, String, u64),
    Timer(String, Timestamp),
    Wakes(Vec<Wake>),
    Withdraw(InterruptId),
    Waiting(Option<u64>, Vec<PendingTimer>),
    Replayed(Vec<String>),
    Ended(Option<String>, usize),
    Failed(Failure),
    Lost(Lost),
}

/// An engine without sessions.
pub struct Inbox {
    turns: Mutex<HashMap<TurnId, Journal>>,
    /// Commits that may happen; a test can take all permits.
    pub commits: Semaphore,
}

struct Journal {
    epoch: u64,
    entries: Vec<RecordedEntry>,
    over: bool,
    /// The store does not say whether it has stored anything.
    unsure: bool,
    /// How many records came in each batch.
    batches: Vec<usize>,
    said: mpsc::UnboundedSender<Said>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { turns: Mutex::default(), commits: Semaphore::new(Semaphore::MAX_PERMITS) }
    }
}

impl Inbox {
    /// Opens a turn with its journal; what is said about it comes from the receiver.
    pub fn open(&self, turn: TurnId, entries: Vec<RecordedEntry>) -> mpsc::UnboundedReceiver<Said> {
        let (said, heard) = mpsc::unbounded_channel();
        let journal = Journal { epoch: 1, entries, over: false, unsure: false, batches: Vec::new(), said };
        self.turns.lock().unwrap().insert(turn, journal);
        heard
    }

    fn with<T>(&self, turn: TurnId, act: impl FnOnce(&mut Journal) -> T) -> T {
        act(self.turns.lock().unwrap().get_mut(&turn).unwrap())
    }

    /// Appends what the worker did not say. Its index.
    pub fn append(&self, turn: TurnId, entry: Entry) -> u64 {
        self.with(turn, |journal| journal.append(entry))
    }

    /// The journal so far.
    pub fn journal(&self, turn: TurnId) -> Vec<RecordedEntry> {
        self.with(turn, |journal| journal.entries.clone())
    }

    /// As a cancel does: the turn is settled.
    pub fn settle(&self, turn: TurnId) {
        self.with(turn, |journal| journal.over = true);
    }

    /// As a claim does: the turn's next epoch.
    pub fn claim(&self, turn: TurnId) -> u64 {
        self.with(turn, |journal| {
            journal.epoch += 1;
            journal.epoch
        })
    }

    /// From now on the store does not say what became of a write.
    pub fn lose_track(&self, turn: TurnId) {
        self.with(turn, |journal| journal.unsure = true);
    }

    /// How many records came in each batch so far.
    pub fn batches(&self, turn: TurnId) -> Vec<usize> {
        self.with(turn, |journal| journal.batches.clone())
    }

    fn say(&self, turn: TurnId, epoch: u64, said: Said) -> Result<(), Error> {
        self.with(turn, |journal| {
            journal.check(epoch)?;
            journal.over = matches!(said, Said::Ended(..) | Said::Failed(_));
            journal.said.send(said).ok();
            Ok(())
        })
    }
}

impl Journal {
    fn check(&self, epoch: u64) -> Result<(), Error> {
        match self {
            _ if self.over => Err(Error::TurnNotOpen(None)),
            _ if self.epoch != epoch => Err(Error::StaleEpoch),
            _ if self.unsure => Err(Error::StoreUnavailable("it did not say".to_owned())),
            _ => Ok(()),
        }
    }

    fn take_in(&mut self, record: Record) -> Result<Option<Appended>, Error> {
        let index = self.entries.len() as u64;
        let mut interrupt = None;
        let (said, entry) = match record {
            Record::Step { step, result } => {
                (Said::Step(step.name.clone(), result.clone()), Entry::Step { step, result })
            }
            Record::Intent { step, arguments } => (Said::Intent(step.name.clone()), Entry::Intent { step, arguments }),
            // Listeners are told, and nothing is stored.
            Record::Started(_) => return Ok(None),
            Record::Ask { ask, .. } if ask.kind == "refused" => {
                return Err(Error::InvalidPayload("this is refused".to_owned()));
            }
            Record::Ask { step, ask } => {
                let interrupt_id = *interrupt.insert(InterruptId(Uuid::now_v7()));
                (Said::Ask(interrupt_id, ask.kind, index), Entry::Ask { step, interrupt_id })
            }
            Record::Timer { path, due } => (Said::Timer(path.clone(), due), Entry::Timer { path, due }),
            Record::Wakes(wakes) => (Said::Wakes(wakes.clone()), Entry::Wakes { wakes }),
            Record::Withdraw { interrupt } => (Said::Withdraw(interrupt), Entry::Withdraw { interrupt_id: interrupt }),
            Record::Waiting { seen, timers, context } => {
                (Said::Waiting(seen, timers.clone()), Entry::Pause { timers, context })
            }
        };
        let silent = matches!(said, Said::Wakes(_) | Said::Withdraw(_) | Said::Waiting(..));
        self.append(entry);
        self.said.send(said).ok();
        Ok((!silent).then_some(Appended {
            index,
            at: Timestamp::from_millis(1),
            interrupt,
            answer: None,
            answered_by: None,
        }))
    }

    fn append(&mut self, entry: Entry) -> u64 {
        self.entries.push(recorded(entry));
        self.entries.len() as u64 - 1
    }
}

impl TurnInbox for Inbox {
    fn turn_append(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> BoxFuture<'static, Result<AppendResults, Error>> {
        Box::pin(async move {
            drop(self.commits.acquire().await.unwrap());
            let batch = self.with(turn, |journal| {
                journal.check(epoch)?;
                journal.batches.push(records.len());
                Ok::<_, Error>(records.into_iter().map(|record| journal.take_in(record)).collect())
            })?;
            // An answer may well be there before the supervisor learns that the question was stored.
            tokio::task::yield_now().await;
            Ok(batch)
        })
    }

    fn turn_replayed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        warnings: Vec<String>,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.say(turn, epoch, Said::Replayed(warnings)) })
    }

    fn turn_held(self: Arc<Self>, _turn: TurnId, _epoch: u64, _held: Held) {}

    fn turn_delta(self: Arc<Self>, _turn: TurnId, _step_id: &str, _attempt: u32, _delta: Value) {}

    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: NextState,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.say(turn, epoch, Said::Ended(response.content, state.total())) })
    }

    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.say(turn, epoch, Said::Failed(failure)) })
    }

    fn turn_lost(self: Arc<Self>, turn: TurnId, epoch: u64, lost: Lost) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            self.with(turn, |journal| journal.unsure = false);
            self.say(turn, epoch, Said::Lost(lost))
        })
    }
}

/// The first entry of a journal.
pub fn started(code: &str, python: &str) -> RecordedEntry {
    recorded(Entry::Start {
        code: code.to_owned(),
        python: python.to_owned(),
        policy: false,
        abandoned: None,
        traceparent: None,
    })
}

/// An entry of a journal.
pub fn recorded(entry: Entry) -> RecordedEntry {
    RecordedEntry { at: Timestamp::from_millis(1), entry }
}
