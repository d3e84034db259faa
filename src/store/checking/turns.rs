//! Turns, as they say that they stand, against their journals and interrupts.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::problem::{ProblemKind, StoreProblems};
use super::row::CheckedRow;
use super::sessions::{CheckedSessions, NO_SESSION, Numbers, orphan};
use crate::domain::status::{InterruptStatus, TurnStatus};

#[derive(Default)]
pub(super) struct CheckedTurns(HashMap<Uuid, CheckedTurn>);

struct CheckedTurn {
    session: Uuid,
    status: TurnStatus,
    has_alarm: bool,
    is_compacted: bool,
    entries: Numbers,
    /// Of one that is not over: for each interrupt how often its journal asks, less how often that is settled. Entries come
    /// in any order.
    asked: BTreeMap<Uuid, i64>,
}

impl CheckedTurn {
    /// Whether it can go on.
    fn is_over(&self) -> bool {
        self.status == TurnStatus::Ended
    }
}

impl CheckedTurns {
    pub(super) fn turn(&mut self, row: &CheckedRow, sessions: &CheckedSessions, problems: &mut StoreProblems) {
        let (Some(id), Some(session)) = (row.id("id"), row.id("session")) else {
            return orphan(row, NO_SESSION, problems);
        };
        if sessions.get(Some(session)).is_none() {
            orphan(row, NO_SESSION, problems);
        }
        let status = match (row.has("ended_at"), row.has("suspended_code"), row.is("parked")) {
            (true, true, _) => TurnStatus::Suspended,
            (true, false, _) => TurnStatus::Ended,
            (false, _, true) => TurnStatus::Parked,
            (false, _, false) => TurnStatus::UnderWay,
        };
        let seen = CheckedTurn {
            session,
            status,
            has_alarm: row.has("wake_at"),
            is_compacted: row.is("compacted"),
            entries: Numbers::default(),
            asked: BTreeMap::new(),
        };
        self.0.insert(id, seen);
    }

    pub(super) fn entry(&mut self, row: &CheckedRow, problems: &mut StoreProblems) {
        // Entries are looked up by their session too.
        let session = row.id("session");
        let turn = row.id("turn").and_then(|turn| self.0.get_mut(&turn));
        let Some(turn) = turn.filter(|turn| Some(turn.session) == session) else {
            return orphan(row, "no turn of its session", problems);
        };
        turn.entries.add(row.number("idx").unwrap_or_default());
        let change = match row.text("entry") {
            Some("ask") => 1,
            Some("answer" | "expire" | "withdraw") => -1,
            _ => return,
        };
        if let Some(interrupt) = row.id("interrupt")
            && !turn.is_over()
        {
            let asked = turn.asked.entry(interrupt).or_default();
            *asked += change;
            if *asked == 0 {
                turn.asked.remove(&interrupt);
            }
        }
    }

    pub(super) fn interrupt(&self, row: &CheckedRow, sessions: &mut CheckedSessions, problems: &mut StoreProblems) {
        let (Some(id), Some(session)) = (row.id("id"), row.id("session")) else {
            return orphan(row, NO_SESSION, problems);
        };
        if sessions.get(Some(session)).is_none() {
            return orphan(row, NO_SESSION, problems);
        }
        let Some(turn) = row.id("turn").and_then(|turn| self.0.get(&turn)).filter(|turn| turn.session == session)
        else {
            return orphan(row, "no turn of its session", problems);
        };
        if row.text("status") != Some(InterruptStatus::Pending.as_str()) {
            return;
        }
        sessions.waits(session, id);
        // Of a suspended one nothing expires.
        let is_open = matches!(turn.status, TurnStatus::UnderWay | TurnStatus::Parked);
        if row.has("expires_at") && !row.has("due_at") && is_open {
            let what =
                format!("interrupt {id} expires, and nobody looks at it then: something of it could not be read");
            problems.say(ProblemKind::Expiry, Some(session), what);
        }
    }

    /// How a turn of `session` stands.
    pub(super) fn status_of(&self, turn: Uuid, session: Uuid) -> Option<TurnStatus> {
        self.0.get(&turn).filter(|turn| turn.session == session).map(|turn| turn.status)
    }

    pub(super) fn finish(&self, sessions: &CheckedSessions, problems: &mut StoreProblems) {
        for (id, turn) in &self.0 {
            turn.check_journal(*id, problems);
            if !turn.is_over() {
                turn.check_session(*id, sessions, problems);
            }
        }
    }
}

impl CheckedTurn {
    fn check_journal(&self, id: Uuid, problems: &mut StoreProblems) {
        let missing = self.entries.missing();
        let what = if self.is_compacted && !self.entries.is_empty() {
            format!("the journal of turn {id} was removed, and {} entries are there", self.entries.count())
        } else if missing != 0 {
            format!("{missing} entries are missing in the journal of turn {id}")
        } else {
            return;
        };
        problems.say(ProblemKind::Journal, Some(self.session), what);
    }

    fn check_session(&self, id: Uuid, sessions: &CheckedSessions, problems: &mut StoreProblems) {
        let Some(session) = sessions.get(Some(self.session)) else { return };
        if session.turn != Some(id) {
            let what = format!("turn {id} {}, and its session does not say so", self.status);
            return problems.say(ProblemKind::Turn, Some(self.session), what);
        }
        if self.status == TurnStatus::Parked && !self.has_alarm && session.is_unasked() {
            let what = format!("turn {id} waits for nobody, and no time wakes it");
            problems.say(ProblemKind::Asleep, Some(self.session), what);
        }
        for interrupt in session.pending.iter().filter(|interrupt| self.asked.get(interrupt) != Some(&1)) {
            let what = format!("interrupt {interrupt} waits, and the journal of turn {id} does not ask it");
            problems.say(ProblemKind::Pending, Some(self.session), what);
        }
        for interrupt in self.asked.keys().filter(|interrupt| !session.pending.contains(interrupt)) {
            let what = format!("the journal of turn {id} asks interrupt {interrupt}, and nobody is asked");
            problems.say(ProblemKind::Pending, Some(self.session), what);
        }
    }
}
