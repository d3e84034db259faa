//! Upkeep, in SQL.

use rusqlite::params;
use serde_json::json;

use super::connection::Handle;
use super::outbox::notice;
use super::rows::{self, Cells as _};
use super::sql;
use crate::domain::notice::Notice;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::store::outbox::OutboxFigures;
use crate::store::record::{Due, DueKind, PendingCount, RetriableTurn};
use crate::store::rows::notices::known_events;
use crate::store::upkeep::{Receivers, UpkeepReader, UpkeepWriter};

impl UpkeepReader for Handle<'_> {
    fn count_pending(&self, now: Timestamp) -> Result<Vec<PendingCount>, Error> {
        let bounds = PendingCount::bounds(now).map(Timestamp::millis);
        self.all("interrupts", sql!("interrupts/count_pending"), bounds, |cells| {
            let kind = cells.plain()?;
            let by_age = [cells.number()?, cells.number()?, cells.number()?, cells.number()?];
            Ok(PendingCount { kind, by_age })
        })
    }

    fn unparked_turns(&self) -> Result<Vec<TurnId>, Error> {
        self.all("turns", sql!("turns/unparked"), [], |cells| cells.uuid().map(TurnId))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, Error> {
        let params = params![now.millis(), rows::count(limit)];
        let mut due = self.all("interrupts", sql!("interrupts/due"), params, |cells| {
            Ok(Due { at: cells.time()?, what: DueKind::Interrupt(InterruptId(cells.uuid()?)) })
        })?;
        due.extend(self.all("turns", sql!("turns/due"), params, |cells| {
            Ok(Due { at: cells.time()?, what: DueKind::Timers(TurnId(cells.uuid()?)) })
        })?);
        due.sort_by_key(|due| due.at);
        due.truncate(limit);
        Ok(due)
    }

    fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        let interrupt =
            self.one("interrupts", sql!("interrupts/next_due"), [], |cells| cells.time_or_none())?.flatten();
        let timer = self.one("turns", sql!("turns/next_due"), [], |cells| cells.time_or_none())?.flatten();
        Ok(interrupt.into_iter().chain(timer).min())
    }

    fn retriable_turns(&self, agent: &str, code: &str, after: u64, limit: usize) -> Result<Vec<RetriableTurn>, Error> {
        let params = params![code, rows::count(limit), agent, rows::integer(after)];
        self.all("turns", sql!("turns/retriable"), params, |cells| rows::retriable(cells))
    }

    fn suspended_turns(&self, before: Timestamp, skip: usize, limit: usize) -> Result<Vec<TurnId>, Error> {
        let params = params![before.millis(), rows::count(limit), rows::count(skip)];
        self.all("turns", sql!("turns/suspended"), params, |cells| cells.uuid().map(TurnId))
    }

    fn due_notices(&self, now: Timestamp, receivers: &Receivers, limit: usize) -> Result<Vec<Notice>, Error> {
        let sql = concat!(sql!("outbox/select"), sql!("outbox/due"));
        let (origins, are_meant) = receivers.origins();
        let params = params![
            now.millis(),
            rows::count(limit),
            json!(origins).to_string(),
            json!(known_events()).to_string(),
            are_meant
        ];
        self.all("outbox", sql, params, |cells| Ok(notice(cells)?.1))
    }

    fn next_notice_at(&self, receivers: &Receivers) -> Result<Option<Timestamp>, Error> {
        let (origins, are_meant) = receivers.origins();
        let params = params![json!(origins).to_string(), json!(known_events()).to_string(), are_meant];
        Ok(self.one("outbox", sql!("outbox/next_due"), params, |cells| cells.time_or_none())?.flatten())
    }

    fn outbox_figures(&self) -> Result<OutboxFigures, Error> {
        let figures = self.one("outbox", sql!("outbox/figures"), [], |cells| {
            let pending = usize::try_from(cells.number()?).unwrap_or(usize::MAX);
            Ok(OutboxFigures { pending, oldest: cells.time_or_none()?, is_held: false })
        })?;
        Ok(figures.unwrap_or_default())
    }
}

impl UpkeepWriter for Handle<'_> {
    fn sweep_sessions(&mut self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.session.set(None);
        self.keep_number()?;
        let mut swept =
            self.all("sessions", sql!("sessions/sweep"), params![before.millis(), rows::count(limit)], |cells| {
                Ok((cells.number()?, SessionId(cells.uuid()?)))
            })?;
        swept.sort_unstable();
        Ok(swept.into_iter().map(|(_, id)| id).collect())
    }

    fn compact_journals(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let params = params![before.millis(), rows::count(limit)];
        let turns: Vec<i64> = self.all("turns", sql!("turns/to_compact"), params, |cells| cells.plain())?;
        self.keep_number()?;
        for turn in &turns {
            self.execute(sql!("journal/delete"), [turn])?;
            self.execute(sql!("turns/compact"), [turn])?;
        }
        Ok(turns.len())
    }

    fn sweep_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        self.execute(sql!("replies/sweep"), params![before.millis(), rows::count(limit)])
    }

    fn sweep_sign_ins(&mut self, now: Timestamp, limit: usize) -> Result<usize, Error> {
        self.execute(sql!("sign_ins/sweep"), params![now.millis(), rows::count(limit)])
    }

    fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let swept = self.execute(sql!("events/sweep"), params![before.millis(), rows::count(limit)])?;
        if swept > 0 {
            self.execute(sql!("events/keep_swept"), [])?;
        }
        Ok(swept)
    }

    fn release_notices(&mut self, now: Timestamp) -> Result<(), Error> {
        self.execute(sql!("outbox/release"), [now.millis()]).map(drop)
    }

    fn sweep_notices(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        self.execute(sql!("outbox/sweep"), params![before.millis(), rows::count(limit)])
    }
}
