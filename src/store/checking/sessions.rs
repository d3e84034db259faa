//! Sessions, as they say that they stand, against their messages and turns.

use std::collections::BTreeSet;
use std::collections::HashMap;

use uuid::Uuid;

use super::problem::{ProblemKind, StoreProblems};
use super::row::CheckedRow;
use super::turns::CheckedTurns;
use crate::domain::status::{Status, TurnStatus};

#[derive(Default)]
pub(super) struct CheckedSessions(HashMap<Uuid, CheckedSession>);

pub(super) struct CheckedSession {
    status: Option<Status>,
    /// The open turn, or the suspended one.
    pub(super) turn: Option<Uuid>,
    /// What it says that waits.
    pub(super) pending: BTreeSet<Uuid>,
    /// What waits by the interrupts.
    pub(super) waiting: BTreeSet<Uuid>,
    counted: i64,
    messages: Numbers,
}

/// How many rows there are of a series that begins with 0, and its last one.
#[derive(Default)]
pub(super) struct Numbers {
    count: i64,
    end: i64,
}

impl Numbers {
    pub(super) fn add(&mut self, number: i64) {
        self.count += 1;
        self.end = self.end.max(number.saturating_add(1));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn count(&self) -> i64 {
        self.count
    }

    /// How many are not there. Each is there once: it is a key.
    pub(super) fn missing(&self) -> i64 {
        self.end - self.count
    }
}

impl CheckedSessions {
    pub(super) fn session(&mut self, row: &CheckedRow) {
        let Some(id) = row.id("id") else { return };
        let seen = CheckedSession {
            status: row.text("status").and_then(Status::parse),
            turn: row.id("turn"),
            pending: row.ids("pending").unwrap_or_default().into_iter().collect(),
            waiting: BTreeSet::new(),
            counted: row.number("total_messages").unwrap_or_default(),
            messages: Numbers::default(),
        };
        self.0.insert(id, seen);
    }

    pub(super) fn message(&mut self, row: &CheckedRow, problems: &mut StoreProblems) {
        match row.id("session").and_then(|id| self.0.get_mut(&id)) {
            Some(session) => session.messages.add(row.number("idx").unwrap_or_default()),
            None => orphan(row, NO_SESSION, problems),
        }
    }

    pub(super) fn get(&self, id: Option<Uuid>) -> Option<&CheckedSession> {
        self.0.get(&id?)
    }

    /// An interrupt of it waits.
    pub(super) fn waits(&mut self, id: Uuid, interrupt: Uuid) {
        if let Some(session) = self.0.get_mut(&id) {
            session.waiting.insert(interrupt);
        }
    }

    pub(super) fn finish(&self, turns: &CheckedTurns, problems: &mut StoreProblems) {
        for (id, session) in &self.0 {
            session.check_messages(*id, problems);
            session.check_turn(*id, turns, problems);
            session.check_pending(*id, problems);
        }
    }
}

impl CheckedSession {
    /// Whether nobody is asked anything, whoever says so.
    pub(super) fn is_unasked(&self) -> bool {
        self.pending.is_empty() && self.waiting.is_empty()
    }

    fn check_messages(&self, id: Uuid, problems: &mut StoreProblems) {
        let (there, missing) = (self.messages.count(), self.messages.missing());
        if there != self.counted || missing != 0 {
            let what = format!("it counts {} messages, and {there} are there, {missing} missing between", self.counted);
            problems.say(ProblemKind::Messages, Some(id), what);
        }
    }

    fn check_turn(&self, id: Uuid, turns: &CheckedTurns, problems: &mut StoreProblems) {
        let Some(status) = self.status else { return };
        let mut say = |what: String| problems.say(ProblemKind::Turn, Some(id), what);
        let is_open = match (status, self.turn) {
            (Status::Idle, None) | (Status::Error, None) => return,
            (Status::Idle, Some(turn)) => return say(format!("it is idle, and turn {turn} is its open one")),
            (_, None) => return say(format!("it is {status}, and has no open turn")),
            (Status::Error, Some(_)) => false,
            (Status::Running | Status::Interrupted, Some(_)) => true,
        };
        let Some((turn, found)) = self.turn.map(|turn| (turn, turns.status_of(turn, id))) else { return };
        match found {
            None => say(format!("it is {status}, and its turn {turn} is not there")),
            Some(TurnStatus::UnderWay | TurnStatus::Parked) if is_open => {}
            Some(TurnStatus::Suspended) if !is_open => {}
            Some(found) => say(format!("it is {status}, and its turn {turn} {found}")),
        }
    }

    fn check_pending(&self, id: Uuid, problems: &mut StoreProblems) {
        let mut say = |what: String| problems.say(ProblemKind::Pending, Some(id), what);
        for interrupt in self.pending.difference(&self.waiting) {
            say(format!("it waits for interrupt {interrupt}, which does not wait"));
        }
        for interrupt in self.waiting.difference(&self.pending) {
            say(format!("interrupt {interrupt} waits, and its session does not say so"));
        }
        let is_asked = !self.pending.is_empty();
        match self.status {
            Some(Status::Interrupted) if !is_asked => say("it is interrupted, and waits for nothing".to_owned()),
            Some(status @ (Status::Idle | Status::Running)) if is_asked => {
                say(format!("it is {status}, and waits for somebody"));
            }
            _ => {}
        }
    }
}

/// Tells of a row that belongs to nothing: `to` says what should be there.
pub(super) fn orphan(row: &CheckedRow, to: &str, problems: &mut StoreProblems) {
    problems.say(ProblemKind::Orphan, row.id("session"), format!("{} belongs to {to}", row.place()));
}

/// What a row of a session that is gone belongs to.
pub(super) const NO_SESSION: &str = "a session that is not there";
