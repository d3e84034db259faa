//! The journal of a session, for people.

use super::Engine;
use crate::domain::timeline::TimelineEntry;
use crate::domain::{Error, SessionId};
use crate::store::StoreExt;
use crate::store::query::Page;

impl Engine {
    /// Up to `limit` entries of the journal of a session's newest turn, in order, from `first` on; empty where there was
    /// no turn, or its journal is gone after `--keep-journal`.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn timeline(&self, id: SessionId, first: u64, limit: usize) -> Result<Page<TimelineEntry>, Error> {
        self.store
            .query(move |reader| {
                reader.session(id)?.ok_or(Error::SessionNotFound)?;
                let Some(turn) = reader.last_turn(id)? else { return Ok(Page { items: Vec::new(), next: None }) };
                let journal = reader.journal_after(turn.id, first.checked_sub(1))?;
                let next = (journal.len() > limit).then(|| first.saturating_add(limit as u64));
                let items = (first..).zip(journal.iter().take(limit));
                let shown = items.map(|(index, recorded)| match TimelineEntry::of(index, recorded) {
                    start if index == 0 => start.starting(&turn.message),
                    entry => entry,
                });
                Ok(Page { items: shown.collect(), next })
            })
            .await
    }
}
