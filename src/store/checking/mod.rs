//! What `hitl store check` looks for: whether what a store holds fits together.
//!
//! Each row comes once, in the order of [`super::copying::tables::TABLES`], out of one snapshot: so whatever a row refers
//! to has come before it, whoever writes meanwhile changes nothing of it, and both stores are looked at by the same rules.
//! What is remembered of a session that waits, with its turn and its interrupt, is a kilobyte at the most.

mod lanes;
pub(in crate::store) mod problem;
mod row;
mod sessions;
mod shape;
#[cfg(test)]
mod tests;
mod turns;

use serde::de::IgnoredAny;

use self::lanes::CheckedLanes;
use self::problem::{ProblemKind, StoreProblem, StoreProblems};
use self::row::CheckedRow;
use self::sessions::CheckedSessions;
use self::turns::CheckedTurns;
use super::copying::batches::{RowBatch, StoreHead};
use super::copying::tables::{AUDIT, Kind};
use super::open_error::OpenError;
use crate::domain::audit::Verifier;
use crate::store::kept::KeptForms;

/// Looks at all rows of a store, and tells at the end what does not fit.
pub(in crate::store) struct Checker {
    sessions: CheckedSessions,
    turns: CheckedTurns,
    lanes: CheckedLanes,
    /// `None` once a flaw was found: what follows it cannot be told.
    audit: Option<Verifier>,
    forms: KeptForms,
    /// What the store counts with, where it could be read, and the last numbers that its rows have.
    head: Option<StoreHead>,
    last_session: i64,
    last_event: i64,
    problems: StoreProblems,
}

impl Checker {
    pub(in crate::store) fn new() -> Self {
        Self {
            sessions: CheckedSessions::default(),
            turns: CheckedTurns::default(),
            lanes: CheckedLanes::default(),
            audit: Some(Verifier::new(None)),
            forms: KeptForms::default(),
            head: None,
            last_session: 0,
            last_event: 0,
            problems: StoreProblems::default(),
        }
    }

    /// Something that was found without the rows.
    pub(in crate::store) fn found(&mut self, problem: StoreProblem) {
        self.problems.add(problem);
    }

    /// Something that could not be read without the rows.
    pub(in crate::store) fn unreadable(&mut self, what: &str) {
        self.problems.say(ProblemKind::Unreadable, None, what);
    }

    /// What the store counts with.
    pub(in crate::store) fn counted(&mut self, head: Result<StoreHead, OpenError>) {
        match head {
            Ok(head) => self.head = Some(head),
            Err(error) => self.unreadable(&format!("what it counts with: {error}")),
        }
    }

    /// The next rows.
    pub(in crate::store) fn take(&mut self, batch: &RowBatch) {
        for line in batch.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match CheckedRow::read(batch.table, line) {
                Some(row) => self.row(&row),
                None => self.problems.add(StoreProblem {
                    kind: ProblemKind::Unreadable,
                    session: None,
                    what: format!("a row of {} cannot be read", batch.table.name),
                }),
            }
        }
    }

    fn row(&mut self, row: &CheckedRow) {
        self.check_json(row);
        let number = |name| row.number(name).unwrap_or_default();
        match row.table() {
            "sessions" => {
                self.sessions.session(row);
                self.last_session = self.last_session.max(number("seq"));
            }
            "events" => self.last_event = self.last_event.max(number("number")),
            "messages" => self.sessions.message(row, &mut self.problems),
            "turns" => self.turns.turn(row, &self.sessions, &mut self.problems),
            "journal" => {
                self.turns.entry(row, &mut self.problems);
                self.last_event = self.last_event.max(number("event"));
            }
            "interrupts" => self.turns.interrupt(row, &mut self.sessions, &mut self.problems),
            "outbox" => self.lanes.notice(row),
            AUDIT => self.audited(row),
            _ => {}
        }
    }

    fn check_json(&mut self, row: &CheckedRow) {
        let unreadable = |what: String| StoreProblem { kind: ProblemKind::Unreadable, session: row.session(), what };
        let mut is_json = true;
        for (column, text) in row.cells() {
            if column.kind == Kind::Json
                && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
            {
                is_json = false;
                // Where, and not what: it may be anybody's secret.
                let (line, byte) = (error.line(), error.column());
                let what = format!("{} of {} is no JSON, from line {line}, byte {byte} on", column.name, row.place());
                self.problems.add(unreadable(what));
            }
        }
        if let Err(column) = shape::check(row, &self.forms)
            && is_json
            && !row.is_orphan_at(&column)
        {
            self.problems.add(unreadable(format!("{} cannot be read at its {column}", row.place())));
        }
    }

    fn audited(&mut self, row: &CheckedRow) {
        let Some(verifier) = &mut self.audit else { return };
        let flaw = match shape::audited(row) {
            Some(read) => verifier.take(&read).err().map(|flaw| flaw.to_string()),
            None => Some(format!("row {} cannot be read", row.text("seq").unwrap_or("?"))),
        };
        if let Some(what) = flaw {
            self.problems.add(StoreProblem { kind: ProblemKind::Audit, session: None, what });
            self.audit = None;
        }
    }

    /// After the last row.
    pub(in crate::store) fn finish(mut self) -> StoreProblems {
        self.turns.finish(&self.sessions, &mut self.problems);
        self.sessions.finish(&self.turns, &mut self.problems);
        if let Some(head) = self.head {
            self.check_count("session", self.last_session, head.last_session);
            self.check_count("event", self.last_event, head.last_event);
        }
        self.lanes.finish(&mut self.problems);
        self.problems.sorted()
    }

    fn check_count(&mut self, what: &str, last: i64, counted: i64) {
        if last > counted {
            let what =
                format!("the last {what} has number {last}, and is counted from {counted}: another would get it again");
            self.problems.say(ProblemKind::Counter, None, what);
        }
    }

    /// After a row that could not be read: of what comes after it nothing is known, nor of what is not there.
    pub(in crate::store) fn broken_off(mut self, why: &str) -> StoreProblems {
        let what = format!("nothing could be read any more: {why}");
        self.problems.say(ProblemKind::Unreadable, None, what);
        self.problems.sorted()
    }
}
