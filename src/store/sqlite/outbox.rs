//! Notices, in SQL.

use rusqlite::params;
use rusqlite::types::Value as SqlValue;

use super::connection::Handle;
use super::reading::Filter;
use super::rows::{self, Cells as _};
use super::sql;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::faults::{self, Point};
use crate::store::outbox::{OutboxReader, OutboxWriter};
use crate::store::query::{NoticeQuery, Page};
pub(super) use crate::store::rows::notices::notice;

impl Handle<'_> {
    fn write_notice(&self, sql: &str, notice: &Notice) -> Result<usize, Error> {
        self.execute(
            sql,
            params![
                notice.id.event.as_bytes(),
                notice.id.reminder,
                notice.session_id.0.as_bytes(),
                notice.interrupt_id.as_ref().map(|id| id.0.as_bytes()),
                notice.event.as_str(),
                notice.url,
                notice.token,
                notice.body,
                notice.status.as_str(),
                notice.created_at.millis(),
                notice.due_at.map(Timestamp::millis),
                notice.leased,
                notice.attempts,
                notice.last_error,
                notice.settled_at.map(Timestamp::millis),
                notice.origin(),
            ],
        )
    }
}

impl OutboxReader for Handle<'_> {
    fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error> {
        match self.found_turn(id, |found| found.webhook.clone())?.unwrap_or(Ok(None)) {
            Err(Error::Unreadable(why)) => {
                tracing::error!(why, "nobody can be told of a turn, since its webhook cannot be read");
                Ok(None)
            }
            read => read,
        }
    }

    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
        let sql = concat!(sql!("outbox/select"), "WHERE id = ?1 AND reminder = ?2");
        Ok(self
            .one("outbox", sql, params![id.event.as_bytes(), id.reminder], |cells| notice(cells))?
            .map(|(_, notice)| notice))
    }

    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
        self.page("outbox", &filter(query), query.limit, |cells| notice(cells))
    }

    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
        let params = params![session.0.as_bytes(), url];
        Ok(self.one("outbox", sql!("outbox/has_pending"), params, |cells| cells.plain())?.unwrap_or_default())
    }

    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
        let sql = concat!(sql!("outbox/select"), sql!("outbox/lane"));
        Ok(self
            .one("outbox", sql, params![session.0.as_bytes(), url], |cells| notice(cells))?
            .map(|(_, notice)| notice))
    }
}

impl OutboxWriter for Handle<'_> {
    fn insert_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        if self.notice(notice.id)?.is_some() {
            return Err(Error::Internal(format!("notice {} is stored already", notice.id)));
        }
        self.write_notice(sql!("outbox/insert"), notice)?;
        faults::at(Point::OutboxInserted);
        Ok(())
    }

    fn update_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        match self.write_notice(sql!("outbox/update"), notice)? {
            0 => Err(Error::UnknownNotice(notice.id.to_string())),
            _ => Ok(()),
        }
    }

    fn make_first_due(&mut self, session: SessionId, url: &str, now: Timestamp) -> Result<(), Error> {
        let params = params![session.0.as_bytes(), url, now.millis()];
        self.execute(sql!("outbox/make_first_due"), params).map(drop)
    }

    fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error> {
        Ok(self.execute(sql!("outbox/delete"), params![id.event.as_bytes(), id.reminder])? > 0)
    }
}

fn filter(query: &NoticeQuery) -> Filter {
    let mut filter = Filter::new(sql!("outbox/list"), "ORDER BY seq DESC");
    if let Some(status) = query.status {
        filter.add("status = ?", SqlValue::Text(status.as_str().to_owned()));
    }
    if let Some(session) = query.session_id {
        filter.add("session = ?", SqlValue::Blob(session.0.as_bytes().to_vec()));
    }
    if let Some(cursor) = query.cursor {
        filter.add("seq < ?", SqlValue::Integer(rows::integer(cursor)));
    }
    filter
}

/// The statement for a page of notices.
#[cfg(test)]
pub(super) fn notices_sql(query: &NoticeQuery) -> String {
    filter(query).sql(query.limit)
}
