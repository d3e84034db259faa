//! One statement of several that a commit makes: each is a reply of its own for the database to send.

use tokio_postgres::Row;

use super::cells::PostgresCells;
use super::connection::SqlCall;
use super::param::Param;
use super::sql;
use crate::domain::Error;
use crate::store::rows::Cells;

/// The statements that hold a commit to what was read of its sessions, and to that its server lives. Each has the places below.
pub(super) const GUARDS: [&str; 3] = [sql!("sessions/write"), sql!("sessions/keep"), sql!("servers/lives")];
/// The place of other parts: after those that the guard has.
const PARTS_PLACE: &str = "/* parts */";
/// The place of one more column, the last one: the numbers of the events.
const NUMBERS_PLACE: &str = "/* numbers */";
/// What can be part of it. None of them reads what another one writes: all parts of a statement see one moment.
const PARTS: [&str; 6] = [
    sql!("sessions/insert"),
    sql!("turns/insert"),
    sql!("turns/update"),
    sql!("journal/insert"),
    EVENTS,
    sql!("deeds/insert"),
];
/// These look at the turn, for when an interrupt is due: the same where none of them can be.
const INTERRUPTS: [&str; 2] = [sql!("interrupts/insert"), sql!("interrupts/update")];
const EVENTS: &str = sql!("events/insert");

/// Where the numbers of the events of a commit are.
#[derive(Clone, Copy)]
pub(super) enum EventNumbers {
    /// A row for each, of that call.
    Rows(usize),
    /// All in the one row of that call, which is folded.
    Cell(usize),
}

impl EventNumbers {
    /// Where so many other calls come first.
    pub(super) fn after(self, calls: usize) -> Self {
        match self {
            Self::Rows(index) => Self::Rows(index + calls),
            Self::Cell(index) => Self::Cell(index + calls),
        }
    }

    /// In no order.
    pub(super) fn of(self, replies: &[Vec<Row>]) -> Result<Vec<u64>, Error> {
        let (Self::Rows(index) | Self::Cell(index)) = self;
        let rows = replies.get(index).map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Rows(_) => rows.iter().map(|row| PostgresCells::new("events", row).number()).collect(),
            Self::Cell(_) => {
                let last = |row: &Row| row.len().saturating_sub(1);
                let cells = rows.iter().map(|row| PostgresCells::after(last(row), "events", row).numbers());
                Ok(cells.collect::<Result<Vec<_>, Error>>()?.concat())
            }
        }
    }
}

/// Calls of a commit, of which some are one now.
pub(super) struct FoldedCalls {
    pub(super) calls: Vec<SqlCall>,
    /// Which of them has the others.
    pub(super) folded: usize,
}

/// Makes one of the guard, which is the last of the first `guards` of them, and what comes after it: all of it that can be.
///
/// The guard is what is looked at first, and where it fails nothing of the commit counts. Where it had to wait for another
/// commit and holds nevertheless, that one has not changed the session: what the parts see is from before that wait, and is
/// what they would see after it.
pub(super) fn fold(mut calls: Vec<SqlCall>, guards: usize, none_is_due: bool) -> Result<FoldedCalls, Vec<SqlCall>> {
    let is_part = |call: &SqlCall| PARTS.contains(&call.sql()) || none_is_due && INTERRUPTS.contains(&call.sql());
    let guard = guards.checked_sub(1).and_then(|last| calls.get(last)).map(SqlCall::sql);
    let places = guard.filter(|sql| GUARDS.contains(sql)).and_then(Places::of);
    let Some(places) = places.filter(|_| calls.iter().skip(guards).any(is_part)) else { return Err(calls) };
    let (mut sql, columns, rest) = (places.held.to_owned(), places.columns.to_owned(), places.rest.to_owned());
    let after = calls.split_off(guards);
    let (parts, others): (Vec<SqlCall>, Vec<SqlCall>) = after.into_iter().partition(is_part);
    let mut params: Vec<Param> = calls.pop().map(SqlCall::into_params).unwrap_or_default();
    let has_events = parts.iter().any(|part| part.sql() == EVENTS);
    for (index, part) in parts.into_iter().enumerate() {
        let name = if part.sql() == EVENTS { "told".to_owned() } else { format!("part_{index}") };
        sql.push_str(", ");
        sql.push_str(&name);
        sql.push_str(" AS (\n");
        renumbered(part.sql(), params.len(), &mut sql);
        sql.push_str("\n)");
        params.extend(part.into_params());
    }
    sql.push_str(&columns);
    if has_events {
        sql.push_str(", (SELECT array_agg(number) FROM told)");
    }
    sql.push_str(&rest);
    let folded = calls.len();
    calls.push(SqlCall::new(sql, params));
    calls.extend(others);
    Ok(FoldedCalls { calls, folded })
}

/// What is around the places of a guard.
pub(super) struct Places<'s> {
    held: &'s str,
    columns: &'s str,
    rest: &'s str,
}

impl<'s> Places<'s> {
    pub(super) fn of(guard: &'s str) -> Option<Self> {
        let (held, after) = guard.split_once(PARTS_PLACE)?;
        let (columns, rest) = after.split_once(NUMBERS_PLACE)?;
        Some(Self { held, columns, rest })
    }
}

/// A statement whose parameters come after as many others.
fn renumbered(statement: &str, before: usize, sql: &mut String) {
    let mut pieces = statement.trim_end().split('$');
    sql.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = piece.split_at(digits);
        sql.push('$');
        match number.parse::<usize>() {
            Ok(number) => sql.push_str(&(number + before).to_string()),
            Err(_) => sql.push_str(number),
        }
        sql.push_str(rest);
    }
}
