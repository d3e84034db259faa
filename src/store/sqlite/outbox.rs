//! Notices, in SQL.

use rusqlite::params;
use rusqlite::types::Value as SqlValue;

use super::connection::Handle;
use super::reading::Filter;
use super::rows::{self, Cells};
use super::sql;
use crate::domain::event::EventName;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::status::NoticeStatus;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::faults::{self, Point};
use crate::store::outbox::{OutboxReader, OutboxWriter};
use crate::store::query::{NoticeQuery, Page};

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
        match self.one("turns", sql!("turns/webhook"), [id.0.as_bytes()], |cells| cells.json_or_none()) {
            Err(Error::Unreadable(why)) => {
                tracing::error!(why, "nobody can be told of a turn, since its webhook cannot be read");
                Ok(None)
            }
            read => Ok(read?.flatten()),
        }
    }

    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
        let sql = concat!(sql!("outbox/select"), "WHERE id = ?1 AND reminder = ?2");
        Ok(self.one("outbox", sql, params![id.event.as_bytes(), id.reminder], notice)?.map(|(_, notice)| notice))
    }

    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
        self.page("outbox", &filter(query), query.limit, notice)
    }

    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
        let params = params![session.0.as_bytes(), url];
        Ok(self.one("outbox", sql!("outbox/has_pending"), params, |cells| cells.plain())?.unwrap_or_default())
    }

    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
        let sql = concat!(sql!("outbox/select"), sql!("outbox/lane"));
        Ok(self.one("outbox", sql, params![session.0.as_bytes(), url], notice)?.map(|(_, notice)| notice))
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

/// A row of `outbox/select.sql` or `outbox/list.sql`: its place in order, and the notice.
pub(super) fn notice(cells: &mut Cells<'_, '_>) -> Result<(u64, Notice), Error> {
    let seq = cells.number()?;
    let id = NoticeId { event: cells.uuid()?, reminder: cells.plain()? };
    let session_id = SessionId(cells.uuid()?);
    let interrupt_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(uuid::Uuid::from_bytes(id)));
    let event: String = cells.plain()?;
    let event = EventName::parse(&event).ok_or_else(|| cells.malformed(format!("unknown event {event:?}")))?;
    let (url, token, body) = (cells.plain()?, cells.plain()?, cells.plain()?);
    let status: String = cells.plain()?;
    let status = NoticeStatus::parse(&status).ok_or_else(|| cells.malformed(format!("unknown status {status:?}")))?;
    let notice = Notice {
        id,
        session_id,
        interrupt_id,
        event,
        url,
        token,
        body,
        status,
        created_at: cells.time()?,
        due_at: cells.time_or_none()?,
        leased: cells.plain()?,
        attempts: cells.plain()?,
        last_error: cells.plain()?,
        settled_at: cells.time_or_none()?,
    };
    Ok((seq, notice))
}
