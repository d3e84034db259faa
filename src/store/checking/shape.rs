//! Whether a row reads back: by the readers that serve it, so that whatever they would refuse is told here.

use std::fmt::Display;

use super::row::CheckedRow;
use crate::domain::Error;
use crate::domain::audit::AuditRow;
use crate::domain::message::ChatMessage;
use crate::domain::scope::Scopes;
use crate::store::copying::tables::AUDIT;
use crate::store::kept::KeptForms;
use crate::store::rows::{self, Cells, Plain, entries, notices};

/// The columns of a statement that reads rows of one table, from left to right.
type Columns = &'static [&'static str];

/// As `sessions/select.sql` has them.
const SESSION: Columns = &[
    "seq",
    "id",
    "agent",
    "created_at",
    "updated_at",
    "total_messages",
    "status",
    "turn",
    "pending",
    "response",
    "failure_code",
    "failure_message",
    "rules",
    "grants",
    "webhook",
    "abandoned",
];

/// As `turns/select.sql` has them.
const TURN: Columns = &[
    "id",
    "session",
    "message",
    "webhook",
    "created_at",
    "impure_at",
    "warnings",
    "sent_by",
    "epoch",
    "recoveries",
    "worked_ms",
    "claimed",
    "parked",
    "wake_at",
    "ended_at",
    "suspended_code",
];

/// As `journal/of_turn.sql` has them.
const ENTRY: Columns = &["at", "entry", "path", "kind", "name", "location", "arguments", "interrupt", "body"];

/// As `interrupts/select.sql` has them.
const INTERRUPT: Columns = &[
    "seq",
    "id",
    "session",
    "turn",
    "type",
    "payload",
    "status",
    "message",
    "built_in_schema",
    "response_schema",
    "allowed_decisions",
    "tool_call_id",
    "agent",
    "rule",
    "args_digest",
    "created_at",
    "expires_at",
    "value",
    "resolved_by",
    "resolved_at",
    "metadata",
    "tool_source",
    "args_schema",
    "claimed_by",
    "claimed_until",
    "snoozed_by",
    "snoozed_until",
    "sent_by",
    "approvers",
    "rule_failed",
    "lets_run",
    "hidden",
    "tool_approvers",
];

/// As `audit/select.sql` has them.
const AUDITED: Columns =
    &["seq", "at", "action", "session", "interrupt", "actor", "address", "details", "prev", "hash"];

/// As `outbox/select.sql` has them.
const NOTICE: Columns = &[
    "seq",
    "id",
    "reminder",
    "session",
    "interrupt",
    "event",
    "url",
    "token",
    "body",
    "status",
    "created_at",
    "due_at",
    "leased",
    "attempts",
    "last_error",
    "settled_at",
    "origin",
];

/// As `keys/select.sql` has them.
const KEY: Columns = &["id", "name", "scopes", "key_groups", "digest", "created_at", "created_by", "revoked_at"];

/// Whether the row reads back; `Err` is where it does not, and not what stands there, which may be anybody's secret. Rows
/// of the audit are read by [`audited`].
pub(super) fn check(row: &CheckedRow, forms: &KeptForms) -> Result<(), String> {
    let cells = |columns| CheckedCells { row, columns, next: 0 };
    let read = match row.table() {
        "sessions" => rows::session(&mut cells(SESSION)).map(drop),
        "messages" => cells(&["message"]).json::<ChatMessage>().map(drop),
        "turns" => rows::turn(&mut cells(TURN)).map(drop),
        "journal" => entries::recorded(&mut cells(ENTRY)).map(drop),
        "interrupts" => rows::interrupt(&mut cells(INTERRUPT), forms).map(drop),
        "replies" => rows::reply(&mut cells(&["request_digest", "body", "created_at"])).map(drop),
        "events" => rows::event(&mut cells(&["number", "session", "status", "interrupt", "error"])).map(drop),
        "keys" => key(row),
        "sign_ins" => rows::sign_in(&mut cells(&["token", "key", "ends_at"])).map(drop),
        "outbox" => notices::notice(&mut cells(NOTICE)).map(drop),
        "policy" => rows::pushed_policy(&mut cells(&["text", "digest", "pushed_at", "pushed_by"])).map(drop),
        _ => Ok(()),
    };
    read.map_err(|error| match error {
        Error::Unreadable(column) => column,
        other => other.to_string(),
    })
}

/// What a server takes for a key that may do nothing is told here.
fn key(row: &CheckedRow) -> Result<(), Error> {
    let mut lists = CheckedCells { row, columns: &["scopes", "key_groups"], next: 0 };
    lists.json::<Scopes>()?;
    lists.json::<Vec<String>>()?;
    rows::key(&mut CheckedCells { row, columns: KEY, next: 0 }).map(drop)
}

/// A row of the audit; `None` where it is none.
pub(super) fn audited(row: &CheckedRow) -> Option<AuditRow> {
    debug_assert_eq!(row.table(), AUDIT);
    rows::audit(&mut CheckedCells { row, columns: AUDITED, next: 0 }).ok().map(|(_, audited)| audited)
}

/// The cells of those columns. An error of it names the column alone.
struct CheckedCells<'r> {
    row: &'r CheckedRow,
    columns: Columns,
    next: usize,
}

impl CheckedCells<'_> {
    fn column(&self, index: usize) -> &'static str {
        self.columns.get(index).copied().unwrap_or("?")
    }
}

impl Cells for CheckedCells<'_> {
    fn plain<T: Plain>(&mut self) -> Result<T, Error> {
        let column = self.column(self.next);
        self.next += 1;
        T::parse(self.row.text(column)).map_err(|why| self.malformed(why))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn malformed(&self, _: impl Display) -> Error {
        Error::Unreadable(self.column(self.next.saturating_sub(1)).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::copying::tables::TABLES;

    #[test]
    fn what_is_read_is_what_the_tables_have() {
        let read = [
            ("sessions", SESSION),
            ("turns", TURN),
            ("journal", ENTRY),
            ("interrupts", INTERRUPT),
            (AUDIT, AUDITED),
            ("outbox", NOTICE),
            ("keys", KEY),
        ];
        for (name, columns) in read {
            let table = TABLES.iter().find(|table| table.name == name).unwrap();
            for column in columns {
                assert!(table.columns.iter().any(|there| there.name == *column), "{name} has no {column}");
            }
        }
    }
}
