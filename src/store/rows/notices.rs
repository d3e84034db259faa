//! Between notices and their rows.

use uuid::Uuid;

use super::Cells;
use crate::domain::event::EventName;
use crate::domain::notice::{self, Notice, NoticeId};
use crate::domain::status::NoticeStatus;
use crate::domain::{Error, InterruptId, SessionId};

/// The events of which this version can send a notice. Of a later one there may be others, which are left to it.
pub(in crate::store) fn known_events() -> Vec<String> {
    EventName::FOR_WEBHOOKS.into_iter().map(|name| name.as_str().to_owned()).collect()
}

/// A row of `outbox/select.sql` or `outbox/list.sql`: its place in order, and the notice.
pub(in crate::store) fn notice(cells: &mut impl Cells) -> Result<(u64, Notice), Error> {
    let seq = cells.number()?;
    let id = NoticeId { event: cells.uuid()?, reminder: cells.plain()? };
    let session_id = SessionId(cells.uuid()?);
    let interrupt_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(Uuid::from_bytes(id)));
    let event: String = cells.plain()?;
    let event = EventName::parse(&event).ok_or_else(|| cells.malformed(format!("unknown event {event:?}")))?;
    let (url, token, body) = (cells.plain()?, cells.plain()?, cells.plain()?);
    let status: String = cells.plain()?;
    let status = NoticeStatus::parse(&status).ok_or_else(|| cells.malformed(format!("unknown status {status:?}")))?;
    let read = Notice {
        id,
        session_id,
        interrupt_id,
        event,
        url,
        is_of_client: false,
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
    let origin: String = cells.plain()?;
    Ok((seq, Notice { is_of_client: notice::is_of_client(&origin), ..read }))
}
