//! Notices.

use super::state::{MemoryState, page};
use super::transaction::MemoryTransaction;
use crate::domain::notice::{Notice, NoticeId};
use crate::domain::status::NoticeStatus;
use crate::domain::webhook::Webhook;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::outbox::{OutboxFigures, OutboxReader, OutboxWriter};
use crate::store::query::{NoticeQuery, Page};

impl MemoryState {
    fn pending_notices(&self) -> impl Iterator<Item = &Notice> {
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

    fn due_notices(&self, now: Timestamp, except: &[String], limit: usize) -> Result<Vec<Notice>, Error> {
        let is_due = |notice: &&Notice| notice.due_at.is_some_and(|at| at <= now) && !except.contains(&notice.origin());
        let mut due: Vec<&Notice> = self.notices.values().filter(is_due).collect();
        due.sort_by_key(|notice| notice.due_at);
        Ok(due.into_iter().take(limit).cloned().collect())
    }

    fn next_notice_at(&self, except: &[String]) -> Result<Option<Timestamp>, Error> {
        let others = self.notices.values().filter(|notice| !except.contains(&notice.origin()));
        Ok(others.filter_map(|notice| notice.due_at).min())
    }

    fn outbox_figures(&self) -> Result<OutboxFigures, Error> {
        let oldest = self.pending_notices().next().map(|notice| notice.created_at);
        Ok(OutboxFigures { pending: self.pending_notices().count(), oldest })
    }
}

impl MemoryTransaction<'_> {
    fn remove_notice(&mut self, id: NoticeId) -> bool {
        let Some((seq, notice)) = self.state.notices.remove(id) else { return false };
        self.on_undo(move |state| state.notices.put(seq, id, notice));
        true
    }

    fn notice_ids(&self, wanted: impl Fn(&Notice) -> bool) -> Vec<NoticeId> {
        self.state.notices.values().filter(|notice| wanted(notice)).map(|notice| notice.id).collect()
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

    fn delete_notice(&mut self, id: NoticeId) -> Result<bool, Error> {
        Ok(self.remove_notice(id))
    }

    fn release_notices(&mut self, now: Timestamp) -> Result<(), Error> {
        for id in self.notice_ids(|notice| notice.status == NoticeStatus::Pending && notice.leased) {
            if let Some(notice) = self.state.notices.get(id).cloned() {
                self.update_notice(&Notice { leased: false, due_at: Some(now), ..notice })?;
            }
        }
        Ok(())
    }

    fn sweep_notices(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let settled = self.state.notices.values().filter_map(|notice| Some((notice.settled_at?, notice.id)));
        let mut old: Vec<_> = settled.filter(|(settled_at, _)| *settled_at < before).collect();
        // Stable: of those that were settled at once the first goes first.
        old.sort_by_key(|(settled_at, _)| *settled_at);
        old.truncate(limit);
        for (_, id) in &old {
            self.remove_notice(*id);
        }
        Ok(old.len())
    }
}

impl OutboxReader for MemoryTransaction<'_> {
    fn webhook_of_turn(&self, id: TurnId) -> Result<Option<Webhook>, Error> {
        self.state.webhook_of_turn(id)
    }

    fn notice(&self, id: NoticeId) -> Result<Option<Notice>, Error> {
        self.state.notice(id)
    }

    fn notices(&self, query: &NoticeQuery) -> Result<Page<Notice>, Error> {
        self.state.notices(query)
    }

    fn has_pending_notice(&self, session: SessionId, url: &str) -> Result<bool, Error> {
        self.state.has_pending_notice(session, url)
    }

    fn first_pending_notice(&self, session: SessionId, url: &str) -> Result<Option<Notice>, Error> {
        self.state.first_pending_notice(session, url)
    }

    fn due_notices(&self, now: Timestamp, except: &[String], limit: usize) -> Result<Vec<Notice>, Error> {
        self.state.due_notices(now, except, limit)
    }

    fn next_notice_at(&self, except: &[String]) -> Result<Option<Timestamp>, Error> {
        self.state.next_notice_at(except)
    }

    fn outbox_figures(&self) -> Result<OutboxFigures, Error> {
        self.state.outbox_figures()
    }
}
