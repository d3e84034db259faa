//! What `hitl store check` looks for: whether what a store holds fits together.
//!
//! Each row comes once, in the order of [`super::copying::tables::TABLES`], out of one snapshot: so whatever a row refers
//! to has come before it, whoever writes meanwhile changes nothing of it, and both stores are looked at by the same rules.
//! What is remembered of a session that waits, with its turn and its interrupt, is a kilobyte at the most.

mod lanes;
pub(in crate::store) mod problem;
mod row;
mod sessions;
#[cfg(test)]
mod tests;
mod turns;

use serde::de::IgnoredAny;

use self::lanes::CheckedLanes;
use self::problem::{ProblemKind, StoreProblem, StoreProblems};
use self::row::CheckedRow;
use self::sessions::CheckedSessions;
use self::turns::CheckedTurns;
use super::copying::batches::RowBatch;
use super::copying::tables::{AUDIT, Kind};
use crate::domain::audit::{Action, AuditRow, Verifier};
use crate::domain::{InterruptId, SessionId, Timestamp, json};
use crate::store::rows::MAX_AUDITED_DEPTH;

/// Looks at all rows of a store, and tells at the end what does not fit.
pub(in crate::store) struct Checker {
    sessions: CheckedSessions,
    turns: CheckedTurns,
    lanes: CheckedLanes,
    /// `None` once a flaw was found: what follows it cannot be told.
    audit: Option<Verifier>,
    problems: StoreProblems,
}

impl Checker {
    pub(in crate::store) fn new() -> Self {
        Self {
            sessions: CheckedSessions::default(),
            turns: CheckedTurns::default(),
            lanes: CheckedLanes::default(),
            audit: Some(Verifier::new(None)),
            problems: StoreProblems::default(),
        }
    }

    /// Something that was found without the rows.
    pub(in crate::store) fn found(&mut self, problem: StoreProblem) {
        self.problems.add(problem);
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
        match row.table() {
            "sessions" => self.sessions.session(row, &mut self.problems),
            "messages" => self.sessions.message(row, &mut self.problems),
            "turns" => self.turns.turn(row, &self.sessions, &mut self.problems),
            "journal" => self.turns.entry(row, &mut self.problems),
            "interrupts" => self.turns.interrupt(row, &mut self.sessions, &mut self.problems),
            "outbox" => self.lanes.notice(row),
            AUDIT => self.audited(row),
            _ => {}
        }
    }

    fn check_json(&mut self, row: &CheckedRow) {
        for (column, text) in row.cells() {
            if column.kind == Kind::Json
                && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
            {
                // Where, and not what: it may be anybody's secret.
                let place = format!("{} of a row of {}", column.name, row.table());
                let (line, byte) = (error.line(), error.column());
                self.problems.add(StoreProblem {
                    kind: ProblemKind::Unreadable,
                    session: row.id(if row.table() == "sessions" { "id" } else { "session" }),
                    what: format!("{place} is no JSON, from line {line}, byte {byte} on"),
                });
            }
        }
    }

    fn audited(&mut self, row: &CheckedRow) {
        let Some(verifier) = &mut self.audit else { return };
        let flaw = match audit_row(row) {
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
        self.lanes.finish(&mut self.problems);
        self.problems.sorted()
    }

    /// After a row that could not be read: of what comes after it nothing is known, nor of what is not there.
    pub(in crate::store) fn broken_off(mut self, why: &str) -> StoreProblems {
        let what = format!("nothing could be read any more: {why}");
        self.problems.say(ProblemKind::Unreadable, None, what);
        self.problems.sorted()
    }
}

/// `None` where it is none.
fn audit_row(row: &CheckedRow) -> Option<AuditRow> {
    let address = row.text("address").map(str::parse);
    Some(AuditRow {
        seq: row.text("seq")?.parse().ok()?,
        at: Timestamp::from_millis(row.number("at")?),
        action: Action::parse(row.text("action")?)?,
        session_id: row.id("session").map(SessionId),
        interrupt_id: row.id("interrupt").map(InterruptId),
        actor: row.text("actor").map(str::to_owned),
        address: address.transpose().ok()?,
        // The text has to say one thing only: whoever opens the store in another way reads the text.
        details: serde_json::from_value(json::read_within(row.text("details")?.as_bytes(), MAX_AUDITED_DEPTH).ok()?)
            .ok()?,
        prev: row.text("prev")?.to_owned(),
        hash: row.text("hash")?.to_owned(),
    })
}
