//! Upkeep: that of a memory store. What it changes of a session gives it another version, as every change does.

use std::collections::HashSet;

use super::{LeftOut, Rows, SimulatedDatabase};
use crate::domain::audit::Deed;
use crate::domain::notice::Notice;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::memory::transaction::MemoryTransaction;
use crate::store::outbox::OutboxFigures;
use crate::store::record::{Due, PendingCount, RetriableTurn};
use crate::store::shared::question::Version;
use crate::store::signals::{AccessVersion, KnownTurn, OrphanedTurn, OthersSnapshot, TurnTaker};
use crate::store::upkeep::{self, LeftTurns, ReadyTurns, Receivers, Sweep, Totals, Upkeep, UpkeepReader, UpkeepWriter};
use crate::store::{BoxFuture, Reader, Transaction};

impl Rows {
    /// Changes rows of whichever sessions it concerns.
    fn change<T>(&mut self, act: impl FnOnce(&mut MemoryTransaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut transaction = MemoryTransaction::new(&mut self.state);
        let outcome = act(&mut transaction);
        if outcome.is_err() {
            transaction.undo();
        }
        // Of all: whoever knows one of them reads it again, and no more.
        let there: HashSet<SessionId> = self.state.sessions.values().map(|row| row.session.id).collect();
        self.versions.retain(|id, _| there.contains(id));
        for version in self.versions.values_mut() {
            *version = Version { count: version.count + 1, token: version.token.wrapping_add(1) };
        }
        outcome
    }
}

impl Upkeep for SimulatedDatabase {
    fn orphaned_turns(&self, _: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>> {
        self.with(|rows| {
            Ok(upkeep::orphans(&rows.state)?.into_iter().filter(|it| rows.members.is_orphan(it)).collect())
        })
    }

    fn left_turns(&self, orphans: Vec<OrphanedTurn>) -> BoxFuture<'static, Result<LeftTurns, Error>> {
        if self.lock().left_out == Some(LeftOut::Left) {
            return Box::pin(std::future::pending());
        }
        self.with(move |rows| {
            rows.calls.0 += 1;
            upkeep::left_turns(&rows.state, &orphans)
        })
    }

    fn look(&self, taker: TurnTaker, known: Vec<KnownTurn>) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        self.look_for(None, taker.agent, known)
    }

    fn access_version(&self) -> BoxFuture<'static, Result<AccessVersion, Error>> {
        self.with(|rows| Ok(rows.access_version()))
    }

    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>> {
        // No test asks for it.
        Box::pin(std::future::ready(Ok(None)))
    }

    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>> {
        self.with(move |rows| rows.state.due(now, limit))
    }

    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.with(|rows| rows.state.next_due())
    }

    fn retriable_turns(
        &self,
        agent: String,
        code: String,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<RetriableTurn>, Error>> {
        self.with(move |rows| rows.state.retriable_turns(&agent, &code, after, limit))
    }

    fn suspended_turns(
        &self,
        before: Timestamp,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        self.with(move |rows| rows.state.suspended_turns(before, skip, limit))
    }

    fn due_notices(
        &self,
        now: Timestamp,
        receivers: Receivers,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>> {
        self.with(move |rows| rows.state.due_notices(now, &receivers, limit))
    }

    fn next_notice_at(&self, receivers: Receivers) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.with(move |rows| rows.state.next_notice_at(&receivers))
    }

    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>> {
        self.with(move |rows| rows.change(|tx| tx.release_notices(now)))
    }

    fn sweep(&self, kind: Sweep, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        self.with(move |rows| {
            rows.change(|tx| match kind {
                Sweep::Replies => tx.sweep_replies(before, limit),
                Sweep::Events => tx.sweep_events(before, limit),
                Sweep::Notices => tx.sweep_notices(before, limit),
                Sweep::SignIns => tx.sweep_sign_ins(before, limit),
            })
        })
    }

    fn sweep_sessions(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, Error>> {
        self.with(move |rows| {
            rows.change(|tx| {
                let swept = tx.sweep_sessions(before, limit)?;
                swept.iter().try_for_each(|session| tx.append_audit(deed.clone().session(*session), now))?;
                Ok(swept)
            })
        })
    }

    fn compact_journals(&self, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        self.with(move |rows| rows.change(|tx| tx.compact_journals(before, limit)))
    }

    fn totals(&self) -> BoxFuture<'static, Result<Totals, Error>> {
        self.with(|rows| Ok(Totals { sessions: rows.state.count_sessions()?, audit: rows.state.audit_head()? }))
    }

    fn outbox_figures(&self) -> BoxFuture<'static, Result<OutboxFigures, Error>> {
        self.with(|rows| rows.state.outbox_figures())
    }

    fn count_pending(&self, now: Timestamp) -> BoxFuture<'static, Result<Vec<PendingCount>, Error>> {
        self.with(move |rows| rows.state.count_pending(now))
    }
}
