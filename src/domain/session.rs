//! The session state machine.
//!
//! A session is pure data; [`Session::transition`] takes an event and a time and gives the next session with the
//! effects that are written with it, or a named error and no change. Invariants, held by property tests:
//! an interrupted session has at least one pending interrupt; an idle one has none; an error session has none but those
//! of a turn that can be taken up again; a session has at most one turn that is open or can be, and only events of that
//! turn move it.
//!
//! Whether a turn is parked is not part of it: nobody outside can tell.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::grant::Grant;
use super::id::{GrantId, InterruptId, SessionId, TurnId};
use super::journal::Abandoned;
use super::message::ChatMessage;
use super::policy::Rule;
use super::status::Status;
use super::text::beginning_of;
use super::time::Timestamp;
use super::webhook::Webhook;

/// The codes of failures that other code, another Python or another start may mend.
pub const MENDED_BY_CODE: [&str; 6] =
    ["replay_mismatch", "replay_timeout", "python_unsupported", "code_pinned", "journal_unreadable", "worker_exited"];

/// The codes of failures where nothing is wrong with the turn: its model or what its tools need was away, it came to a limit,
/// or what its model said was no answer.
pub const PASSING: [&str; 6] = [
    "model_unavailable",
    "resource_unavailable",
    "max_steps_exceeded",
    "token_limit_exceeded",
    "invalid_output",
    "reply_cut_short",
];

/// How much of what an agent raised is kept, in bytes.
const LONGEST_ERROR: usize = 16 * 1024;
/// And of its code.
const LONGEST_CODE: usize = 128;

/// Why the last turn failed: `TypeName: message`, never a traceback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What the session's `error` says.
    pub message: String,
    /// A stable code where hitl itself is the cause, such as `turn_cancelled`; `agent_error` otherwise.
    pub code: String,
}

impl Failure {
    /// A failure with a code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { message: message.into(), code: code.to_owned() }
    }

    /// What an agent raised, of which a worker may say as much as it likes: everybody who looks at the session is shown the
    /// beginning.
    pub fn raised(code: &str, message: &str) -> Self {
        let beginning = beginning_of(message, LONGEST_ERROR);
        let rest = if beginning.len() < message.len() { "..." } else { "" };
        Self::new(beginning_of(code, LONGEST_CODE), format!("{beginning}{rest}"))
    }

    /// A cancelled turn.
    pub fn cancelled() -> Self {
        Self::new("turn_cancelled", "Turn cancelled")
    }

    /// The agent's time is over (`--timeout`).
    pub fn timed_out() -> Self {
        Self::new("agent_timeout", "Agent timed out")
    }

    /// The turn's time is over while it is run again from its journal. What it recorded is kept, and it can be retried.
    pub fn replay_timed_out() -> Self {
        Self::new("replay_timeout", "Agent timed out while it was run again from its journal")
    }

    /// The worker died under the turn.
    pub fn worker_exited() -> Self {
        Self::new("worker_exited", "Worker process exited unexpectedly")
    }

    /// Server after server was killed while it had the turn at work.
    pub fn servers_killed() -> Self {
        Self::new("worker_exited", "The server that had this turn at work ended without a word, time and again")
    }

    /// The turn was suspended because of `why`, and nobody retried it for as long as `--suspended-ttl` says.
    pub fn not_retried(why: &Self, seconds: f64) -> Self {
        Self::new("turn_cancelled", format!("Turn cancelled: nobody retried it for {seconds} s after: {}", why.message))
    }

    /// What is stored of the turn is not what it should be.
    pub fn journal_unreadable(why: &Error) -> Self {
        Self::new("journal_unreadable", format!("What is stored of this turn cannot be read: {why}"))
    }

    /// The server stopped before the turn was given to a worker.
    pub fn server_restarted() -> Self {
        Self::new("server_restarted", "The server stopped while this turn was at work; send the message again")
    }

    /// The worker of a turn is gone whose agent must not be run a second time.
    pub fn not_replayable() -> Self {
        Self::new(
            "not_replayable",
            "The worker of this turn is gone, and its agent says replay=False: it cannot go on; send the message again",
        )
    }

    /// A run without a server asks somebody, and its agent must not be run a second time.
    pub fn cannot_wait() -> Self {
        Self::new(
            "not_replayable",
            "The run waits for people, and its agent says replay=False: it could not go on from its state; serve it, or \
             let it be replayed",
        )
    }

    /// Whether it is not the turn that failed but its replay, by this code or on this Python.
    pub fn is_of_replay(&self) -> bool {
        matches!(self.code.as_str(), "replay_mismatch" | "python_unsupported" | "code_pinned")
    }

    /// Whether the turn can be taken up again with the journal it has: with other code, on another Python, or on
    /// request.
    pub fn can_be_retried(&self) -> bool {
        self.is_mended_by_code() || self.is_passing()
    }

    /// Whether a start with other code takes the turn up again.
    pub fn is_mended_by_code(&self) -> bool {
        MENDED_BY_CODE.contains(&self.code.as_str())
    }

    /// Whether nothing is wrong with the turn. Only a request takes it up again, and is told to it.
    pub fn is_passing(&self) -> bool {
        PASSING.contains(&self.code.as_str())
    }
}

/// A turn that failed with its journal kept: it can be taken up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The turn.
    pub turn: TurnId,
    /// What it asks, in order of arrival; not answerable before it is taken up again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<InterruptId>,
}

/// Where a session stands.
#[allow(clippy::large_enum_variant, reason = "a session is one of few, and a box would be in everybody's way")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub enum Phase {
    /// No turn; `response` is what the last one said.
    Idle {
        /// The last response, none before the first turn.
        response: Option<ChatMessage>,
    },
    /// The open turn does not wait for anybody.
    Running {
        /// The open turn.
        turn: TurnId,
    },
    /// The open turn waits for people.
    Interrupted {
        /// The open turn.
        turn: TurnId,
        /// The pending interrupts in order of arrival; never empty.
        pending: Vec<InterruptId>,
    },
    /// The last turn failed.
    Error {
        /// Why.
        failure: Failure,
        /// Its turn, where that can be taken up again. Until then nothing it asks is answered, and nothing expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
}

/// One conversation, without its messages (they are large, and rarely needed).
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// `MODULE:ATTR` of the agent it belongs to.
    pub agent: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// How many messages it remembers.
    pub total_messages: usize,
    /// Where it stands.
    pub phase: Phase,
    /// Its own rules, which come before those of the server.
    pub rules: Vec<Rule>,
    /// What was decided for the rest of it.
    pub grants: Vec<Grant>,
    /// Whom to tell of what happens to it.
    pub webhook: Option<Webhook>,
    /// What turns did that came to no answer, until one that was told of it ends: then the conversation has it.
    pub abandoned: Option<Box<Abandoned>>,
}

/// What can happen to a session.
#[allow(clippy::large_enum_variant, reason = "an event lives for one transition")]
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A client sent a message; `turn` is the id of the turn it starts.
    MessageReceived {
        /// The new turn.
        turn: TurnId,
    },
    /// The turn asks somebody.
    InterruptOpened {
        /// Whose turn.
        turn: TurnId,
        /// The new interrupt.
        interrupt: InterruptId,
    },
    /// An interrupt was resolved, expired or withdrawn.
    InterruptClosed {
        /// Whose turn.
        turn: TurnId,
        /// Which one.
        interrupt: InterruptId,
    },
    /// The agent returned.
    TurnEnded {
        /// Whose turn.
        turn: TurnId,
        /// What it said.
        response: ChatMessage,
        /// How many messages the session remembers now.
        total_messages: usize,
    },
    /// The turn failed, was cancelled or timed out.
    TurnFailed {
        /// Whose turn.
        turn: TurnId,
        /// Why.
        failure: Failure,
    },
    /// The turn cannot go on as things are, but can be taken up again: what it asks stays asked.
    TurnSuspended {
        /// Whose turn.
        turn: TurnId,
        /// Why.
        failure: Failure,
    },
    /// The suspended turn is taken up again.
    TurnReopened {
        /// Which turn.
        turn: TurnId,
    },
    /// Nobody has taken the suspended turn up again for too long, and nobody can from now on.
    TurnGivenUp {
        /// Which turn.
        turn: TurnId,
        /// What the session's error says of it.
        failure: Failure,
    },
}

/// What is written together with the new session, in the same transaction and in this order; `AfterCommit::change` of the
/// engine does it. That a turn has begun or is open again is no effect: whoever lets it happen claims it, or puts it in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// This turn came to no answer, and nobody takes it up again: what it did is told to the next one.
    TellNext(TurnId),
    /// Nobody takes this suspended turn up again: it ends.
    AbandonTurn(TurnId),
    /// These interrupts lost their turn: they become `cancelled`.
    CancelInterrupts(Vec<InterruptId>),
    /// The status that clients see is another one, or its error is: an event says so, and notices for the webhooks. Pollers
    /// and listeners are told of the event after the commit.
    Announce(Status),
}

impl Session {
    /// A new idle session.
    pub fn new(id: SessionId, agent: &str, total_messages: usize, now: Timestamp) -> Self {
        Self {
            id,
            agent: agent.to_owned(),
            created_at: now,
            updated_at: now,
            total_messages,
            phase: Phase::Idle { response: None },
            rules: Vec::new(),
            grants: Vec::new(),
            webhook: None,
            abandoned: None,
        }
    }

    /// The same with a decision for the rest of it, in the place of an earlier one for the same calls.
    pub fn granted(&self, grant: Grant, now: Timestamp) -> Self {
        let mut next = Self { updated_at: now, ..self.clone() };
        next.grants.retain(|earlier| !grant.replaces(earlier));
        next.grants.push(grant);
        next
    }

    /// The same without a decision for the rest of it.
    ///
    /// # Errors
    /// [`Error::UnknownGrant`].
    pub fn revoked(&self, id: GrantId, now: Timestamp) -> Result<Self, Error> {
        let mut next = Self { updated_at: now, ..self.clone() };
        next.grants.retain(|grant| grant.grant_id != id);
        if next.grants.len() == self.grants.len() { Err(Error::UnknownGrant(id.to_string())) } else { Ok(next) }
    }

    /// The status that clients see.
    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Idle { .. } => Status::Idle,
            Phase::Running { .. } => Status::Running,
            Phase::Interrupted { .. } => Status::Interrupted,
            Phase::Error { .. } => Status::Error,
        }
    }

    /// The open turn.
    pub fn turn(&self) -> Option<TurnId> {
        match &self.phase {
            Phase::Running { turn } | Phase::Interrupted { turn, .. } => Some(*turn),
            Phase::Idle { .. } | Phase::Error { .. } => None,
        }
    }

    /// The turn that can be taken up again.
    pub fn retry(&self) -> Option<&Retry> {
        match &self.phase {
            Phase::Error { retry, .. } => retry.as_ref(),
            _ => None,
        }
    }

    /// Why the last turn failed.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.phase {
            Phase::Error { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// The interrupts that can be answered, in order of arrival.
    pub fn pending(&self) -> &[InterruptId] {
        match &self.phase {
            Phase::Interrupted { pending, .. } => pending,
            _ => &[],
        }
    }

    /// The session after `event`, and what is owed for it.
    ///
    /// # Errors
    /// [`Error::SessionBusy`] for a message while a turn is open; [`Error::TurnNotOpen`] for an event of a turn
    /// that is not the open one; [`Error::UnknownInterrupt`] for closing one that is not pending;
    /// [`Error::NothingToRetry`] for taking up, or giving up, a turn that is not suspended.
    pub fn transition(&self, event: Event, now: Timestamp) -> Result<(Self, Vec<Effect>), Error> {
        let before = self.status();
        let mut next = Self { updated_at: now, ..self.clone() };
        let mut effects = Vec::new();
        match event {
            Event::MessageReceived { turn } => {
                if self.turn().is_some() {
                    return Err(Error::SessionBusy(before));
                }
                if let Some(abandoned) = self.retry() {
                    abandon(abandoned, &mut effects);
                }
                next.phase = Phase::Running { turn };
                // What code granted ended with the turn before.
                next.grants.retain(|grant| grant.is_for_turn(turn));
            }
            Event::InterruptOpened { turn, interrupt } => {
                self.require_open(turn)?;
                let mut pending = self.pending().to_vec();
                if pending.contains(&interrupt) {
                    return Err(Error::Internal(format!("interrupt {interrupt} was opened twice")));
                }
                pending.push(interrupt);
                next.phase = Phase::Interrupted { turn, pending };
            }
            Event::InterruptClosed { turn, interrupt } => next.phase = self.without(turn, interrupt)?,
            Event::TurnEnded { turn, response, total_messages } => {
                self.require_open(turn)?;
                cancel(self.pending(), &mut effects);
                next.total_messages = total_messages;
                next.abandoned = None;
                next.phase = Phase::Idle { response: Some(response) };
            }
            Event::TurnFailed { turn, failure } => {
                self.require_open(turn)?;
                effects.push(Effect::TellNext(turn));
                cancel(self.pending(), &mut effects);
                next.phase = Phase::Error { failure, retry: None };
            }
            Event::TurnSuspended { turn, failure } => {
                self.require_open(turn)?;
                let retry = Some(Retry { turn, pending: self.pending().to_vec() });
                next.phase = Phase::Error { failure, retry };
            }
            Event::TurnReopened { turn } => {
                let retry = self.retry().filter(|retry| retry.turn == turn).ok_or(Error::NothingToRetry)?;
                next.phase = open(turn, retry.pending.clone());
            }
            Event::TurnGivenUp { turn, failure } => {
                let retry = self.retry().filter(|retry| retry.turn == turn).ok_or(Error::NothingToRetry)?;
                abandon(retry, &mut effects);
                next.phase = Phase::Error { failure, retry: None };
                effects.push(Effect::Announce(Status::Error));
            }
        }
        if next.status() != before {
            effects.push(Effect::Announce(next.status()));
        }
        Ok((next, effects))
    }

    fn require_open(&self, turn: TurnId) -> Result<(), Error> {
        if self.turn() == Some(turn) { Ok(()) } else { Err(Error::TurnNotOpen(None)) }
    }

    /// The phase without a pending interrupt.
    fn without(&self, turn: TurnId, interrupt: InterruptId) -> Result<Phase, Error> {
        self.require_open(turn)?;
        let mut pending = self.pending().to_vec();
        let position = pending.iter().position(|id| *id == interrupt);
        pending.remove(position.ok_or_else(|| Error::UnknownInterrupt(interrupt.to_string()))?);
        Ok(open(turn, pending))
    }
}

/// The phase of a session whose open turn asks `pending`.
fn open(turn: TurnId, pending: Vec<InterruptId>) -> Phase {
    if pending.is_empty() { Phase::Running { turn } } else { Phase::Interrupted { turn, pending } }
}

fn abandon(suspended: &Retry, effects: &mut Vec<Effect>) {
    effects.extend([Effect::TellNext(suspended.turn), Effect::AbandonTurn(suspended.turn)]);
    cancel(&suspended.pending, effects);
}

fn cancel(pending: &[InterruptId], effects: &mut Vec<Effect>) {
    if !pending.is_empty() {
        effects.push(Effect::CancelInterrupts(pending.to_vec()));
    }
}

#[cfg(test)]
mod tests;
