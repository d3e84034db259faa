//! How the engine and the workers reach each other: [`Dispatch`], which the supervisor implements, and
//! [`TurnInbox`], which the engine does. Neither side knows more of the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::domain::interrupt::Ask;
use crate::domain::journal::{CodeVersion, PendingTimer, RecordedEntry, StepIdentity, StepResult, Wake};
use crate::domain::message::{ChatMessage, NextState};
use crate::domain::session::Failure;
use crate::domain::told::StartedTool;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::ports::held::Held;

/// Everything a worker needs to begin a turn, or to go on with one.
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
    /// The journal so far: `Start` alone for a new turn, more for one that is replayed. What is delivered later and
    /// stands in it already is not given to the worker twice.
    pub journal: Vec<RecordedEntry>,
    /// Who gave those of its answers that nobody has gone on from yet, where they have a name.
    pub answered_by: BTreeMap<InterruptId, String>,
    /// The name of the key that sent the message, where there is one. Not in the journal: a run state holds the whole of
    /// that, and would carry names along or claim them.
    pub sent_by: Option<String>,
    /// Whether it has lost a worker before: then it gets one beside no other turn, if there can be, so that another death
    /// is its own doing and no neighbour's.
    pub alone: bool,
}

/// Something a turn waits for has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// An answer.
    Answer {
        /// Its place in the journal.
        index: u64,
        /// When it was appended.
        at: Timestamp,
        /// Of which interrupt.
        interrupt: InterruptId,
        /// The answer.
        value: Value,
        /// Who gave it, where they have a name.
        by: Option<String>,
    },
    /// Nobody answered in time.
    Expired {
        /// Its place in the journal.
        index: u64,
        /// When it was appended.
        at: Timestamp,
        /// Which interrupt.
        interrupt: InterruptId,
    },
}

impl Delivery {
    /// Its place in the journal.
    pub fn index(&self) -> u64 {
        match self {
            Self::Answer { index, .. } | Self::Expired { index, .. } => *index,
        }
    }
}

/// What runs in workers that are started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// What the agent calls itself; `None` where nobody has said so.
    pub agent: Option<String>,
    /// The agent's code.
    pub code: CodeVersion,
    /// The minor version of Python, such as `3.11`.
    pub python: String,
    /// Whether the agent can be continued from its journal (`@hitl.agent(replay=False)`: it cannot).
    pub replay: bool,
    /// Whether other code than what recorded it must not go on with a turn (`@hitl.agent(pin=True)`).
    pub pin: bool,
}

impl Runtime {
    /// The only code whose turns it goes on with; `None` where it tries any.
    pub fn pinned_to(&self) -> Option<&str> {
        self.pin.then_some(self.code.as_str())
    }

    /// Whether it tries what other code recorded, where nobody with that code has a slot.
    pub fn tries_others_code(&self) -> bool {
        self.replay && !self.pin
    }
}

/// A way to workers. None of these block or fail: what goes wrong with a turn is told to the engine
/// ([`TurnInbox::turn_lost`], [`TurnInbox::turn_failed`]).
pub trait Dispatch: Send + Sync + 'static {
    /// Gives a turn to a worker. The engine has counted it against `--workers` already. A turn that is still being
    /// dropped under an older epoch begins when that is done.
    fn start(&self, order: TurnOrder);

    /// Hands something to the worker of a turn; nothing happens when the turn is gone.
    fn deliver(&self, turn: TurnId, delivery: Delivery);

    /// The turn is over: its worker cancels it, and is killed where it does not obey soon.
    fn stop(&self, turn: TurnId, message: &str);

    /// The turn was parked: its worker drops it from memory now, and nothing it says counts any more. A worker that
    /// runs only this turn is killed.
    fn park(&self, turn: TurnId);

    /// What a turn that is started now will run in.
    fn runtime(&self) -> Runtime;

    /// Whether workers can be started, as far as was tried last: else a turn that is started now is lost.
    fn has_workers(&self) -> bool {
        true
    }
}

/// Something a turn has to say that is stored, or decides what is.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A step finished.
    Step {
        /// Which.
        step: StepIdentity,
        /// With what.
        result: StepResult,
    },
    /// The body of a `once` step is to begin.
    Intent {
        /// Which.
        step: StepIdentity,
        /// Of a tool's call, with which arguments, as far as they are to be seen elsewhere.
        arguments: Option<Value>,
    },
    /// A tool begins of which nothing is stored before it is done. Nobody waits for this to be heard.
    Started(StartedTool),
    /// The turn asks somebody.
    Ask {
        /// Which step asks.
        step: StepIdentity,
        /// What.
        ask: Box<Ask>,
    },
    /// A timer of the turn fired.
    Timer {
        /// Which.
        path: String,
        /// When it was to fire.
        due: Timestamp,
    },
    /// Order marks.
    Wakes(Vec<Wake>),
    /// Nobody waits for this interrupt any more. Nothing happens where it is settled already.
    Withdraw {
        /// Which.
        interrupt: InterruptId,
    },
    /// The turn awaits nothing but people and timers, and has received the journal up to `seen`. It is paused from here
    /// on, unless something that it did not say itself stands after that.
    Waiting {
        /// The highest index it has received.
        seen: Option<u64>,
        /// The timers it waits for.
        timers: Vec<PendingTimer>,
        /// The context object of its run, encoded, if it has one.
        context: Option<Value>,
    },
}

/// Where a record stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// Its place in the journal.
    pub index: u64,
    /// When it was appended.
    pub at: Timestamp,
    /// The interrupt that was opened, for an ask.
    pub interrupt: Option<InterruptId>,
    /// The answer that an ask found there already, with its place in the journal: the turn gets it right after.
    pub answer: Option<(u64, Value)>,
    /// Whose decision that is, where they have a name.
    pub answered_by: Option<String>,
}

/// Why a turn is in no worker any more although it is neither over nor parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Its worker died, or none could be started.
    Exited {
        /// What the session's `error` says, should it come to that.
        message: String,
    },
    /// Its worker said nothing for `--worker-timeout`.
    Silent,
    /// Its worker broke the protocol: another one would do the same.
    Violation {
        /// What the session's `error` says.
        message: String,
    },
    /// The store did not say whether a word of the turn is in the journal, and only the journal knows how the turn goes
    /// on. No worker is to blame.
    Unstored {
        /// What the store said.
        message: String,
    },
    /// What workers run has changed since the turn was claimed: claimed anew, its journal names the code that goes on.
    Outdated,
    /// The server stops.
    Stopping,
}

/// What became of a batch: of each record, in order. An error is of that record alone; `None` where there is nothing to
/// acknowledge.
pub type AppendResults = Vec<Result<Option<Appended>, Error>>;

/// Where words about turns go. The engine is one; it is a trait so that a supervisor can be tested alone.
///
/// Every word carries the epoch of its turn's order: [`Error::StaleEpoch`] when the turn was claimed since,
/// [`Error::TurnNotOpen`] when it is over. For one turn they come one at a time, in the order in which they were said.
pub trait TurnInbox: Send + Sync + 'static {
    /// Stores all that the turn has said so far, in one transaction. A record that is refused (an invalid ask) does not
    /// keep the rest from being stored.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`], or what the store says; nothing of it is stored then, unless it is
    /// [`Error::StoreUnavailable`], which leaves that open.
    fn turn_append(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        records: Vec<Record>,
    ) -> BoxFuture<'static, Result<AppendResults, Error>>;

    /// The worker stands where the turn stood: everything in its order's journal has been delivered.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`], or what the store says.
    fn turn_replayed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        warnings: Vec<String>,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// Something besides people, timers and its journal keeps the turn. Not stored.
    fn turn_held(self: Arc<Self>, turn: TurnId, epoch: u64, held: Held);

    /// A piece of a message as the model says it. Not stored.
    fn turn_delta(self: Arc<Self>, turn: TurnId, step_id: &str, attempt: u32, delta: Value);

    /// The agent returned.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`], or what the store says.
    fn turn_ended(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        response: ChatMessage,
        state: NextState,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// The agent raised, or the turn cannot be run here. With a code of which
    /// [`Failure::can_be_retried`] holds, its journal is kept.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`], or what the store says.
    fn turn_failed(
        self: Arc<Self>,
        turn: TurnId,
        epoch: u64,
        failure: Failure,
    ) -> BoxFuture<'static, Result<(), Error>>;

    /// The turn is in no worker any more.
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`], or what the store says.
    fn turn_lost(self: Arc<Self>, turn: TurnId, epoch: u64, lost: Lost) -> BoxFuture<'static, Result<(), Error>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_replayed_by_any_code_is_tried_by_other_code() {
        let runs = |replay, pin| Runtime { agent: None, code: "v1".to_owned(), python: "3.11".to_owned(), replay, pin };
        assert!(runs(true, false).tries_others_code());
        assert!(!runs(true, true).tries_others_code());
        assert!(!runs(false, false).tries_others_code());
        assert_eq!((runs(true, true).pinned_to(), runs(true, false).pinned_to()), (Some("v1"), None));
    }
}
