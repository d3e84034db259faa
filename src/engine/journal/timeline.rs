//! The journal of a session, for people.

use crate::domain::timeline::{TimelineCursor, TimelineEntry, TimelinePage};
use crate::domain::{Error, SessionId};
use crate::engine::Engine;
use crate::store::StoreExt;

impl Engine {
    /// Up to `limit` entries of the journal of a session's newest turn, in order, from `from` on; empty where there was
    /// no turn, or its journal is gone after `--keep-journal`. `None` where `from` is of another turn: the entries at its
    /// place would not be those that come next.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn timeline(
        &self,
        id: SessionId,
        from: Option<TimelineCursor>,
        limit: usize,
    ) -> Result<Option<TimelinePage>, Error> {
        self.store
            .query(move |reader| {
                reader.session(id)?.ok_or(Error::SessionNotFound)?;
                let turn = reader.last_turn(id)?;
                if from.is_some_and(|from| turn.as_ref().is_none_or(|turn| turn.id != from.turn)) {
                    return Ok(None);
                }
                let Some(turn) = turn else { return Ok(Some(TimelinePage::of(Vec::new(), None))) };
                let first = from.map_or(0, |from| from.index);
                let journal = reader.journal_page(turn.id, first, limit.saturating_add(1))?;
                let index = first.saturating_add(limit as u64);
                let next = (journal.len() > limit).then_some(TimelineCursor { turn: turn.id, index });
                let items = (first..).zip(journal.iter().take(limit));
                let shown = items.map(|(index, recorded)| match TimelineEntry::of(index, recorded) {
                    start if index == 0 => start.starting(&turn.message),
                    entry => entry,
                });
                Ok(Some(TimelinePage::of(shown.collect(), next)))
            })
            .await
    }
}
