//! What was seen from outside: what clients, workers, listeners and receivers of webhooks were told, and when.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::notice::NoticeId;
use crate::domain::{Error, InterruptId, SessionId, TurnId, seeds};

/// What a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToldClient {
    /// It is so.
    Yes,
    /// It is not, for this reason.
    No(&'static str),
    /// It is not: somebody of this name was first.
    Later(Option<String>),
    /// Nobody knows.
    Nothing,
}

impl ToldClient {
    pub fn of<T>(told: Result<T, Error>) -> Self {
        match told {
            Ok(_) => Self::Yes,
            Err(Error::StoreUnavailable(_)) => Self::Nothing,
            Err(Error::AlreadyResolved { resolved_by, .. }) => Self::Later(resolved_by),
            Err(error) => Self::No(error.code()),
        }
    }
}

/// A server, by the number of its life.
pub type Life = usize;

/// A turn at a server: which life, which turn, at which epoch.
pub type AtWorker = (Life, TurnId, u64);

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Created(SessionId, ToldClient),
    Sent(SessionId, String, ToldClient),
    /// By a client of this name, to a server.
    Answered(InterruptId, String, ToldClient),
    Cancelled(SessionId, ToldClient),
    Deleted(SessionId, ToldClient),
    /// A worker was given a turn with so many entries.
    Ordered(AtWorker, u64),
    /// The body of a step begins; whether it may only once.
    Begins(AtWorker, String, bool),
    /// It is over, or was cut off.
    Over(AtWorker, String),
    /// What a worker said is in the journal, as that entry; where it was a step that finished, which.
    Stored(AtWorker, u64, Option<String>),
    Asked(SessionId, InterruptId),
    /// A delivery was handed to a worker's turn.
    Delivered(AtWorker, u64),
    /// The turn has heard of it.
    Told(AtWorker, u64),
    Ended(AtWorker),
    /// A worker was told something that is nobody's fault but ours.
    Wrong(AtWorker, String),
    /// A listener of a server hears an event.
    Heard(Life, SessionId, u64),
    /// A server sends a notice of a session to its receiver.
    Posts(Life, NoticeId, SessionId),
    /// The receiver takes it.
    Took(NoticeId, SessionId),
    /// The server hears what came of it.
    Posted(Life, NoticeId, SessionId),
    /// What befell a server.
    Fault(Life, &'static str),
}

/// See the module.
#[derive(Default)]
pub struct Log(Mutex<Vec<(Duration, Line)>>);

impl Log {
    pub fn note(&self, line: Line) {
        let at = seeds::moment().unwrap_or_default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((at, line));
    }

    /// Takes all that was seen so far.
    pub fn take(&self) -> Vec<(Duration, Line)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was asked and not answered yet, as far as was heard.
    pub fn open(&self) -> Vec<InterruptId> {
        let mut asked = Vec::new();
        for (_, line) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match line {
                Line::Asked(_, id) => asked.push(*id),
                Line::Answered(of, _, told) if *told != ToldClient::Nothing => asked.retain(|id| id != of),
                _ => {}
            }
        }
        asked
    }
}
