//! Notices.

use super::state::{MemoryState, page};
use super::transaction::MemoryTransaction;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::status::NoticeStatus;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::outbox::{OutboxReader, OutboxWriter};
use crate::store::query::{NoticeQuery, Page};

impl MemoryState {
    pub(in crate::store) fn pending_notices(&self) -> impl Iterator<Item = &Notice> {
        self.notices.values().filter(|notice| notice.status == NoticeStatus::Pending)
    }
}

impl OutboxReader for MemoryState {
    fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error> {
        Ok(self.turns.get(id).and_then(|row| row.turn.webhook.clone()))
    }

    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
        Ok(self.notices.get(id).cloned())
    }

    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
        let rows = self.notices.before(query.cursor).filter(|(_, notice)| {
            query.status.is_none_or(|status| notice.status == status)
                && query.session_id.is_none_or(|session| notice.session_id == session)
        });
        let found = page(rows, query.limit);
        let listed = |notice: &Notice| Notice { token: None, body: None, ..notice.clone() };
        Ok(Page { items: found.items.into_iter().map(listed).collect(), next: found.next })
    }

    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
        Ok(self.pending_notices().any(|notice| notice.session_id == session && notice.url == url))
    }

    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
        Ok(self.pending_notices().find(|notice| notice.session_id == session && notice.url == url).cloned())
    }
}

impl MemoryTransaction<'_> {
    pub(in crate::store) fn remove_notice(&mut self, id: NoticeId) -> bool {
        let Some((seq, notice)) = self.state.notices.remove(id) else { return false };
        self.on_undo(move |state| state.notices.put(seq, id, notice));
        true
    }
}

impl OutboxWriter for MemoryTransaction<'_> {
    fn insert_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        let id = notice.id;
        if self.state.notices.contains(id) {
            return Err(Error::Internal(format!("notice {id} is stored already")));
        }
        self.state.notices.push(id, notice.clone());
        self.on_undo(move |state| state.notices.unpush(id));
        Ok(())
    }

    fn update_notice(&mut self, notice: &Notice) -> Result<(), Error> {
        let id = notice.id;
        let row = self.state.notices.get_mut(id).ok_or_else(|| Error::UnknownNotice(id.to_string()))?;
        let before = std::mem::replace(row, notice.clone());
        self.on_undo(move |state| {
            if let Some(row) = state.notices.get_mut(id) {
                *row = before;
            }
        });
        Ok(())
    }

    fn make_first_due(&mut self, session: SessionId, url: &str, now: Timestamp) -> Result<(), Error> {
        match self.state.first_pending_notice(session, url)?.filter(|first| first.due_at.is_none()) {
            Some(first) => self.update_notice(&first.first_in_lane(now)),
            None => Ok(()),
        }
    }

    fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error> {
        Ok(self.remove_notice(id))
    }
}
