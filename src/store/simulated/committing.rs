//! Commits: all of it, or nothing.

use super::{LeftOut, Rows};
use crate::domain::Error;
use crate::domain::access::Key;
use crate::domain::notice::Notice;
use crate::store::carried::CarriedWriter;
use crate::store::memory::transaction::MemoryTransaction;
use crate::store::outbox::OutboxWriter;
use crate::store::shared::backend::Committed;
use crate::store::shared::changes::{
    Changes, NoticeChange, PolicySwap, ReplyChange, RowChange, SessionChange, TurnChange,
};
use crate::store::shared::question::Version;
use crate::store::turns::TurnWriter;
use crate::store::{Reader, Transaction};

impl Rows {
    /// Commits what is still as it was read.
    pub(super) fn commit(&mut self, changes: Changes) -> Result<Committed, Error> {
        let is_as_read = |change: &SessionChange| self.is_as_read(self.versions.get(&change.id), change.seen.as_ref());
        if !changes.sessions.iter().all(is_as_read) || self.has_new_rows_of(&changes) {
            return Ok(Committed::Moved);
        }
        let mut transaction = MemoryTransaction::new(&mut self.state);
        let events = match write(&mut transaction, &changes) {
            Ok(events) => events,
            Err(error) => {
                transaction.undo();
                return Err(error);
            }
        };
        for change in &changes.sessions {
            match change.left() {
                (id, Some(version)) => drop(self.versions.insert(id, version)),
                (id, None) => drop(self.versions.remove(&id)),
            }
        }
        let now = self.state.now().millis();
        let ahead = changes.entries.iter().map(|new| new.entry.at.millis().saturating_sub(now));
        self.ahead = self.ahead.max(ahead.max().unwrap_or(i64::MIN));
        self.members.committed(&changes);
        Ok(Committed::Yes { events })
    }

    fn is_as_read(&self, there: Option<&Version>, seen: Option<&Version>) -> bool {
        let (Some(there), Some(seen)) = (there, seen) else { return there.is_none() && seen.is_none() };
        match self.left_out {
            Some(LeftOut::Version) => true,
            Some(LeftOut::Token) => there.count == seen.count,
            _ => there == seen,
        }
    }

    /// Whether somebody else has made what is new here, or undone what is to be undone here.
    fn has_new_rows_of(&self, changes: &Changes) -> bool {
        let state = &self.state;
        let is_revoked = |id| changes.revoked_keys.iter().any(|(revoked, _)| *revoked == id);
        let goes_on = |key: &&Key| key.revoked_at.is_none() && !is_revoked(key.key_id);
        let is_good = |name: &str| state.keys.iter().filter(goes_on).any(|key| key.name == name);
        let goes = |id| changes.deleted_notices.iter().any(|gone| gone.id == id);
        let stays = |id| state.notices.contains(id) && !goes(id);
        let is_another = |seen: &Notice| !state.notices.get(seen.id).is_some_and(|there| stands_alike(there, seen));
        let is_bad = |id| !state.keys.iter().any(|key| key.key_id == id && key.revoked_at.is_none());
        let is_other_policy =
            |swap: &PolicySwap| state.policy.as_ref().map(|policy| &policy.digest) != swap.seen.as_ref();
        let is_answered = |kept: &ReplyChange| state.replies.contains_key(&(kept.scope.clone(), kept.key.clone()));
        changes.replies.iter().any(|kept| kept.is_new && is_answered(kept))
            || changes.turns.iter().any(|change| change.is_new && state.turns.contains(change.turn.id))
            || changes.interrupts.iter().any(|(it, is_new)| *is_new && state.interrupts.contains(it.interrupt_id))
            || changes.notices.iter().any(|change| match &change.seen {
                None => stays(change.notice.id),
                Some(seen) => is_another(seen),
            })
            || changes.deleted_notices.iter().any(is_another)
            || changes.keys.iter().any(|key| key.revoked_at.is_none() && is_good(&key.name))
            || changes.revoked_keys.iter().any(|(id, _)| is_bad(*id))
            || changes.policy.as_ref().is_some_and(is_other_policy)
    }
}

/// Whether a notice stands where it stood when it was seen.
fn stands_alike(there: &Notice, seen: &Notice) -> bool {
    let standing = |notice: &Notice| (notice.status, notice.leased, notice.attempts, notice.due_at);
    standing(there) == standing(seen)
}

/// Writes the rows: the numbers of the events.
fn write(tx: &mut MemoryTransaction<'_>, changes: &Changes) -> Result<Vec<u64>, Error> {
    for change in &changes.sessions {
        match &change.row {
            RowChange::Kept => {}
            RowChange::Written(session) if change.seen.is_some() => tx.update_session(session)?,
            RowChange::Written(session) => tx.insert_session(session, &[])?,
            RowChange::Deleted => drop(tx.delete_session(change.id)?),
            RowChange::Replaced(session) => {
                tx.delete_session(change.id)?;
                tx.insert_session(session, &[])?;
            }
        }
    }
    for (id, first, messages) in &changes.messages {
        tx.set_messages_from(*id, *first, messages)?;
    }
    for TurnChange { turn, is_new, .. } in changes.turns.iter().filter(|change| change.is_new) {
        debug_assert!(is_new);
        tx.insert_turn(turn)?;
    }
    for entry in &changes.entries {
        // It may end the turn in the same job: the order of both is the job's.
        let index = tx.append_anyway(entry.turn, &entry.entry)?;
        if index != entry.index {
            return Err(Error::Internal(format!("entry {} of a journal became entry {index}", entry.index)));
        }
    }
    for change in &changes.turns {
        tx.replace_turn(&change.turn)?;
    }
    for (interrupt, is_new) in &changes.interrupts {
        if *is_new { tx.insert_interrupt(interrupt)? } else { tx.update_interrupt(interrupt)? }
    }
    for (_, due) in &changes.set_aside {
        tx.set_aside(*due)?;
    }
    for change in &changes.replies {
        tx.insert_reply(&change.scope, &change.key, &change.reply)?;
    }
    for (turn, carried) in &changes.carried {
        tx.note_carried(*turn, carried)?;
    }
    for gone in &changes.deleted_notices {
        tx.delete_notice(gone.id)?;
    }
    for NoticeChange { notice, seen } in &changes.notices {
        if seen.is_none() { tx.insert_notice(notice)? } else { tx.update_notice(notice)? }
    }
    for (session, url, now) in &changes.first_due {
        tx.make_first_due(*session, url, *now)?;
    }
    for (deed, at) in &changes.deeds {
        tx.append_audit(deed.clone(), *at)?;
    }
    for (id, at) in &changes.revoked_keys {
        tx.revoke_key(*id, *at)?;
    }
    for key in &changes.keys {
        tx.insert_key(key)?;
    }
    for sign_in in &changes.sign_ins {
        tx.insert_sign_in(sign_in)?;
    }
    for token in &changes.deleted_sign_ins {
        tx.delete_sign_in(token)?;
    }
    if let Some(swap) = &changes.policy {
        tx.change_policy(&swap.change)?;
    }
    tell(tx, changes)
}

/// Numbers what listeners are told of, in the job's order: the numbers of the events.
fn tell(tx: &mut MemoryTransaction<'_>, changes: &Changes) -> Result<Vec<u64>, Error> {
    let mut events = changes.event_places().into_iter().zip(&changes.events).peekable();
    let mut entries: Vec<_> = changes.entries.iter().filter_map(|entry| Some((entry.told?, entry))).collect();
    entries.sort_by_key(|(place, _)| *place);
    let mut entries = entries.into_iter().peekable();
    let mut numbers = Vec::new();
    loop {
        let first = (events.peek().map(|next| next.0), entries.peek().map(|next| next.0));
        let is_entry = match first {
            (None, None) => return Ok(numbers),
            (Some(event), Some(entry)) => entry < event,
            (event, _) => event.is_none(),
        };
        if is_entry {
            let Some((_, entry)) = entries.next() else { continue };
            tx.tell_entry(entry.turn, entry.index, &entry.entry.entry)?;
        } else {
            let Some((_, (event, at))) = events.next() else { continue };
            numbers.push(tx.append_event(event, *at)?.get());
        }
    }
}
