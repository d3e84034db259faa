//! Up to where what is numbered is complete.
//!
//! Numbers are those of transactions, which are given when one begins to write, and of which any may be committed last. So what
//! is numbered below the oldest that still runs is complete. Of those that run most are not ours: other programs have
//! transactions open in the same instance, for hours and in whatever database. It is looked at the locks which of them could
//! write here (`horizon/of_ours.sql`), where one is in the way for longer than ours take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Row;

use super::cells::PostgresCells;
use super::connection::SqlCall;
use super::sql;
use crate::domain::Error;
use crate::store::rows::Cells;

/// How long somebody who looks again waits at first.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How long at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// From which pause on it is looked whose transactions are in the way: those of commits are over by then.
const LOOK_WHOSE: Duration = Duration::from_millis(8);
/// How long one that may write here is open before the operator is told of it: ours are ended by the database before.
const SAY: Duration = Duration::from_secs(10);

/// What is known of the transactions that were in the way, from one look to the next.
#[derive(Default)]
pub(super) struct InTheWay {
    /// Whether some of them were not ours the last time: then it is looked whose they are at once.
    are_foreign: AtomicBool,
    /// The one that could write here.
    open: Mutex<Option<OpenTransaction>>,
}

/// A transaction that could write here, and holds up whoever reads.
#[derive(Clone, Copy)]
struct OpenTransaction {
    number: i64,
    since: Instant,
    is_said: bool,
}

impl InTheWay {
    /// All are held up behind `number`, of that process of the database; the operator is told once.
    fn waited_behind(&self, number: i64, process: Option<i64>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.filter(|known| known.number == number);
        let mut known = known.unwrap_or_else(|| OpenTransaction { number, since: Instant::now(), is_said: false });
        if !known.is_said && known.since.elapsed() >= SAY {
            known.is_said = true;
            tracing::warn!(
                transaction = number,
                process,
                "a transaction that may write to hitl's tables stays open: events of all sessions and the audit wait for it \
                 (pg_stat_activity shows it)"
            );
        }
        *open = Some(known);
    }
}

/// Waits until the transactions are over that ran when it began, for whoever has to see what was committed by then. Others
/// that begin meanwhile are not waited for, and nobody is for long: what somebody leaves open must not stop those who read.
pub(super) struct Horizon<'w> {
    in_the_way: &'w InTheWay,
    until: Instant,
    pause: Duration,
    /// The first transaction that had not begun then.
    target: Option<i64>,
    /// Whether whoever waits goes by all of them, ours or not.
    is_of_all: bool,
    /// Whether the last look was one at whose they are.
    looks_whose: bool,
    /// Whether the last look allows for such a one.
    may_look_whose: bool,
}

impl<'w> Horizon<'w> {
    pub(super) fn new(in_the_way: &'w InTheWay, patience: Duration) -> Self {
        let looks_whose = in_the_way.are_foreign.load(Ordering::Relaxed);
        let until = Instant::now() + patience;
        let may_look_whose = looks_whose;
        Self { in_the_way, until, pause: FIRST_PAUSE, target: None, is_of_all: false, looks_whose, may_look_whose }
    }

    /// One that waits for all of them, ours or not.
    pub(super) fn of_all(in_the_way: &'w InTheWay, patience: Duration) -> Self {
        Self { is_of_all: true, looks_whose: false, may_look_whose: false, ..Self::new(in_the_way, patience) }
    }

    /// The first call of a look. The statements that follow it in its transaction find in `hitl.horizon` below which number
    /// all is complete.
    pub(super) fn call(&mut self) -> SqlCall {
        self.looks_whose |= self.may_look_whose && self.pause >= LOOK_WHOSE;
        SqlCall::new(if self.looks_whose { sql!("horizon/of_ours") } else { sql!("horizon/of_all") }, vec![])
    }

    /// Whether to look again, after a pause that has passed by then: `look` are the rows of [`Self::call`], and `has_to_wait`
    /// says whether anything that was committed has to wait.
    pub(super) async fn waits(&mut self, look: &[Row], has_to_wait: bool) -> Result<bool, Error> {
        let is_reached = self.is_reached(look, has_to_wait)?;
        if !is_reached {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        Ok(!is_reached)
    }

    /// Whether all that ran when it began is over, or was waited for long enough.
    pub(super) fn is_reached(&mut self, look: &[Row], has_to_wait: bool) -> Result<bool, Error> {
        let Some(row) = look.first() else { return Ok(true) };
        let mut cells = PostgresCells::new("pg_snapshot", row);
        let (oldest, next): (i64, i64) = (cells.plain()?, cells.plain()?);
        let (goes_on, process): (bool, Option<i64>) = (cells.plain()?, cells.plain()?);
        self.may_look_whose = !self.is_of_all && (self.looks_whose || goes_on);
        if self.looks_whose {
            self.in_the_way.are_foreign.store(goes_on, Ordering::Relaxed);
        }
        let target = *self.target.get_or_insert(next);
        if !has_to_wait || oldest >= target {
            return Ok(true);
        }
        if Instant::now() < self.until {
            return Ok(false);
        }
        if !self.is_of_all {
            self.in_the_way.waited_behind(oldest, process);
        }
        Ok(true)
    }
}

/// What a `horizon.sql` says of what was committed: whether any of it has to wait.
pub(super) fn has_to_wait(rows: &[Row]) -> Result<bool, Error> {
    rows.first().map_or(Ok(false), |row| PostgresCells::new("events", row).plain())
}
