//! Upkeep.

use std::collections::{BTreeMap, HashSet};

use super::state::{MemoryState, TurnRow};
use super::transaction::MemoryTransaction;
use crate::domain::access::{Digest, SignIn};
use crate::domain::notice::Notice;
use crate::domain::session::Session;
use crate::domain::status::{NoticeStatus, Status};
use crate::domain::turn::TurnState;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::Transaction;
use crate::store::outbox::{OutboxFigures, OutboxWriter};
use crate::store::record::{Due, PendingCount, RetriableTurn};
use crate::store::upkeep::{Receivers, UpkeepReader, UpkeepWriter};

impl UpkeepReader for MemoryState {
    fn count_pending(&self, now: Timestamp) -> Result<Vec<PendingCount>, Error> {
        let bounds = PendingCount::bounds(now);
        let mut counts: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
        for interrupt in self.interrupts.values().filter(|interrupt| interrupt.is_pending()) {
            let age = bounds.iter().filter(|bound| interrupt.created_at <= **bound).count();
            if let Some(count) = counts.entry(&interrupt.kind).or_default().get_mut(age) {
                *count += 1;
            }
        }
        Ok(counts.into_iter().map(|(kind, by_age)| PendingCount { kind: kind.to_owned(), by_age }).collect())
    }

    fn unparked_turns(&self) -> Result<Vec<TurnId>, Error> {
        let open = self.turns.values().filter(|row| row.turn.life.state == TurnState::UnderWay);
        Ok(open.map(|row| row.turn.id).collect())
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>, Error> {
        let mut due: Vec<Due> = self.dues().filter(|due| due.at <= now).collect();
        due.sort_by_key(|due| due.at);
        due.truncate(limit);
        Ok(due)
    }

    fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        Ok(self.dues().map(|due| due.at).min())
    }

    fn retriable_turns(&self, agent: &str, code: &str, after: u64, limit: usize) -> Result<Vec<RetriableTurn>, Error> {
        let is_of_other = |row: &&TurnRow| row.turn.life.suspended().is_some_and(|(_, other)| other != code);
        let retriable = self.turns.values().filter(is_of_other).filter_map(|row| {
            let place = self.turns.place(row.turn.id).filter(|place| *place > after)?;
            let session = &self.sessions.get(row.turn.session_id)?.session;
            let failure_code = session.failure().map(|failure| failure.code.clone());
            let turn = RetriableTurn { place, turn: row.turn.id, session: session.id, failure_code };
            (session.agent == agent).then_some(turn)
        });
        Ok(retriable.take(limit).collect())
    }

    fn suspended_turns(&self, before: Timestamp, skip: usize, limit: usize) -> Result<Vec<TurnId>, Error> {
        let mut old: Vec<(Timestamp, TurnId)> = self
            .turns
            .values()
            .filter_map(|row| Some((row.turn.life.suspended()?.0, row.turn.id)))
            .filter(|(ended_at, _)| *ended_at < before)
            .collect();
        old.sort_by_key(|(ended_at, _)| *ended_at);
        Ok(old.into_iter().map(|(_, id)| id).skip(skip).take(limit).collect())
    }

    fn due_notices(&self, now: Timestamp, receivers: &Receivers, limit: usize) -> Result<Vec<Notice>, Error> {
        let is_due = |notice: &&Notice| notice.due_at.is_some_and(|at| at <= now) && goes_to_one_of(notice, receivers);
        let mut due: Vec<&Notice> = self.notices.values().filter(is_due).collect();
        due.sort_by_key(|notice| notice.due_at);
        Ok(due.into_iter().take(limit).cloned().collect())
    }

    fn next_notice_at(&self, receivers: &Receivers) -> Result<Option<Timestamp>, Error> {
        let due = self.notices.values().filter(|notice| notice.due_at.is_some() && goes_to_one_of(notice, receivers));
        Ok(due.filter_map(|notice| notice.due_at).min())
    }

    fn outbox_figures(&self) -> Result<OutboxFigures, Error> {
        let oldest = self.pending_notices().next().map(|notice| notice.created_at);
        Ok(OutboxFigures { pending: self.pending_notices().count(), oldest, is_held: false })
    }
}

/// Whether a notice goes to one of these. To find out its origin is dear, and mostly none is named.
fn goes_to_one_of(notice: &Notice, receivers: &Receivers) -> bool {
    let (origins, are_meant) = receivers.origins();
    (!origins.is_empty() && origins.contains(&notice.origin())) == are_meant
}

impl UpkeepWriter for MemoryTransaction<'_> {
    fn sweep_sessions(&mut self, before: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error> {
        let turns = self.state.turns.values().map(|row| &row.turn);
        let suspended: HashSet<SessionId> =
            turns.filter(|turn| turn.life.suspended().is_some()).map(|turn| turn.session_id).collect();
        let old = |session: &&Session| {
            matches!(session.status(), Status::Idle | Status::Error)
                && session.updated_at < before
                && !suspended.contains(&session.id)
        };
        let sessions = self.state.sessions.values().map(|row| &row.session).filter(old);
        let mut swept: Vec<_> =
            (0..).zip(sessions).map(|(seq, session)| (session.updated_at, seq, session.id)).collect();
        swept.sort_unstable_by_key(|(updated_at, seq, _)| (*updated_at, *seq));
        swept.truncate(limit);
        swept.sort_unstable_by_key(|(_, seq, _): &(_, usize, _)| *seq);
        let swept: Vec<SessionId> = swept.into_iter().map(|(.., id)| id).collect();
        for id in &swept {
            self.delete_session(*id)?;
        }
        Ok(swept)
    }

    fn compact_journals(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let rows = self.state.turns.values().filter(|row| !row.is_compacted);
        let mut old: Vec<(Timestamp, TurnId)> = rows
            .filter_map(|row| Some((row.turn.life.ended_at()?, row.turn.id)))
            .filter(|(ended_at, _)| *ended_at < before)
            .collect();
        old.sort_by_key(|(ended_at, _)| *ended_at);
        old.truncate(limit);
        for (_, id) in &old {
            let Some(row) = self.state.turns.get_mut(*id) else { continue };
            row.is_compacted = true;
            let (id, journal) = (*id, std::mem::take(&mut row.journal));
            self.on_undo(move |state| {
                if let Some(row) = state.turns.get_mut(id) {
                    row.is_compacted = false;
                    row.journal = journal;
                }
            });
        }
        Ok(old.len())
    }

    fn sweep_replies(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let old = self.state.replies.iter().filter(|(_, reply)| reply.created_at < before);
        let mut old: Vec<_> = old.map(|(place, reply)| (reply.created_at, place.clone())).collect();
        old.sort_unstable();
        old.truncate(limit);
        let swept = old.len();
        for (_, place) in old {
            if let Some(reply) = self.state.replies.remove(&place) {
                self.on_undo(move |state| drop(state.replies.insert(place, reply)));
            }
        }
        Ok(swept)
    }

    fn sweep_sign_ins(&mut self, now: Timestamp, limit: usize) -> Result<usize, Error> {
        let mut ended: Vec<SignIn> = self.state.sign_ins.iter().copied().filter(|it| it.ends_at <= now).collect();
        ended.sort_unstable_by_key(|sign_in| (sign_in.ends_at, *sign_in.token.bytes()));
        ended.truncate(limit);
        let ended: HashSet<Digest> = ended.into_iter().map(|sign_in| sign_in.token).collect();
        self.change_sign_ins(|sign_ins| sign_ins.retain(|sign_in| !ended.contains(&sign_in.token)));
        Ok(ended.len())
    }

    fn sweep_events(&mut self, before: Timestamp, limit: usize) -> Result<usize, Error> {
        let newest = self.state.events.last_key_value().map_or(0, |(number, _)| *number);
        let old: Vec<u64> = self
            .state
            .events
            .range(..newest)
            .take(limit)
            .take_while(|(_, (_, stored_at))| *stored_at < before)
            .map(|(number, _)| *number)
            .collect();
        let swept = old.len();
        for number in old {
            if let Some(row) = self.state.events.remove(&number) {
                self.on_undo(move |state| drop(state.events.insert(number, row)));
            }
        }
        if swept > 0 {
            let first = self.state.events.first_key_value().map_or(0, |(number, _)| *number);
            let before = std::mem::replace(&mut self.state.swept, first);
            let kept = self.state.told.split_off(&first);
            let mut gone = std::mem::replace(&mut self.state.told, kept);
            self.on_undo(move |state| {
                state.told.append(&mut gone);
                state.swept = before;
            });
        }
        Ok(swept)
    }

    fn release_notices(&mut self, now: Timestamp) -> Result<(), Error> {
        let is_leased = |notice: &&Notice| notice.status == NoticeStatus::Pending && notice.leased;
        let leased: Vec<Notice> = self.state.notices.values().filter(is_leased).cloned().collect();
        leased
            .into_iter()
            .try_for_each(|notice| self.update_notice(&Notice { leased: false, due_at: Some(now), ..notice }))
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
