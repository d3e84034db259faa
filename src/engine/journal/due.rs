//! What is due: interrupts expire, timers of parked turns fire.
//!
//! The store knows what is ahead, so that nothing is forgotten over a restart and nothing is held in memory; one task
//! sleeps until the first of it. Whether something is still due is decided in the transaction that handles it: there an
//! answer was first, or comes too late.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use crate::domain::journal::{Entry, PendingTimer};
use crate::domain::{Error, InterruptId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::journal::answers::DeliveryPlan;
use crate::engine::journal::closing::close;
use crate::engine::ports::dispatch::Delivery;
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::{Due, DueKind};
use crate::store::{StoreExt, Transaction};

/// How many are handled at once; the store commits them together.
const AT_ONCE: usize = 256;

/// When to look again.
enum NextDue {
    /// When the first of what is ahead is due.
    At(Option<Timestamp>),
    /// When what is due is settled.
    UnderWay,
}

/// What is due and being handled.
#[derive(Default)]
struct DueUnderWay<'e> {
    handled: FuturesUnordered<BoxFuture<'e, (DueKind, Result<(), Error>)>>,
    which: HashSet<DueKind>,
    /// Why one of it was not settled, since that was asked last.
    failed: Option<Error>,
}

impl<'e> DueUnderWay<'e> {
    /// Begins, unless it has begun.
    fn begin<F>(&mut self, what: DueKind, handle: impl FnOnce() -> F)
    where
        F: Future<Output = Result<(), Error>> + Send + 'e,
    {
        if self.which.insert(what) {
            let handled = handle();
            self.handled.push(Box::pin(async move { (what, handled.await) }));
        }
    }

    /// Goes on with all of it until nothing is left.
    async fn finish(&mut self) {
        while let Some((what, handled)) = self.handled.next().await {
            self.which.remove(&what);
            self.failed = handled.err().or(self.failed.take());
        }
    }
}

impl Engine {
    /// Handles what is due as its time comes, until the engine stops.
    pub(in crate::engine) fn spawn_due(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let stopped = engine.stopped.clone();
            tokio::select! {
                () = stopped.cancelled() => {}
                () = engine.run_due() => {}
            }
        });
    }

    async fn run_due(self: &Arc<Self>) {
        let mut under_way = DueUnderWay::default();
        loop {
            self.journal.alarm.awake();
            let next = self.begin_due(&mut under_way).await;
            // Others may hold a session for long: what is due meanwhile does not wait for it.
            let is_over = timeout(STORE_PAUSE, under_way.finish()).await.is_ok();
            match under_way.failed.take().map_or(next, Err) {
                Ok(NextDue::At(next)) if is_over => self.journal.alarm.sleep(next, self.now()).await,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "what is due could not be settled; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Begins to handle what is due, and not under way already.
    async fn begin_due<'e>(self: &'e Arc<Self>, under_way: &mut DueUnderWay<'e>) -> Result<NextDue, Error> {
        let next = self.store.upkeep().next_due().await?;
        if next.is_none_or(|next| next > self.now()) {
            return Ok(NextDue::At(next));
        }
        for due in self.store.upkeep().due(self.now(), AT_ONCE).await? {
            under_way.begin(due.what, || self.handle_one(due));
        }
        Ok(NextDue::UnderWay)
    }

    async fn handle_one(self: &Arc<Self>, due: Due) -> Result<(), Error> {
        let settled = match due.what {
            DueKind::Interrupt(interrupt) => self.expire(interrupt).await,
            DueKind::Timers(turn) => self.fire(turn).await,
        };
        match settled {
            Err(why @ Error::Unreadable(_)) => self.suspend_unreadable(due.what, &why).await,
            settled => settled,
        }
    }

    /// Expires those that are overdue, before whoever came too late is told so: a look right after must not say that
    /// they still wait.
    pub(in crate::engine) async fn expire_overdue(self: &Arc<Self>, ids: Vec<InterruptId>) {
        for expired in join_all(ids.into_iter().map(|id| self.expire(id))).await {
            if let Err(error) = expired {
                tracing::warn!(%error, "what is overdue could not be expired yet; it is tried again");
            }
        }
    }

    async fn expire(self: &Arc<Self>, id: InterruptId) -> Result<(), Error> {
        let engine = Arc::clone(self);
        let expired = self.store.transact(About::Interrupt(id), move |tx| {
            let now = tx.now();
            // Somebody answered first: then there is nothing to expire.
            let Some(expired) = tx.interrupt(id)?.and_then(|interrupt| interrupt.expire(now)) else {
                return Ok(None);
            };
            let session = tx.session(expired.session_id)?.ok_or(Error::SessionNotFound)?;
            let mut after_commit = engine.telling.after_commit();
            let (index, session) =
                close(tx, &session, &expired, &Entry::Expire { interrupt_id: id }, &mut after_commit, now)?;
            let delivery = Delivery::Expired { index, at: now, interrupt: id };
            let plan = engine.plan_delivery(tx, &session, vec![delivery], now)?;
            faults::at(Point::EngineExpireWritten);
            Ok(Some((plan, after_commit)))
        });
        if let Some((plan, after_commit)) = expired.await? {
            faults::at(Point::EngineExpireCommitted);
            self.telling.counters().expired();
            self.deliver_as_planned(plan);
            self.telling.run(after_commit);
        }
        Ok(())
    }

    /// Appends the timers of a parked turn that are due, and wakes it.
    async fn fire(self: &Arc<Self>, turn: TurnId) -> Result<(), Error> {
        let engine = Arc::clone(self);
        let fired = self.store.transact(About::Turn(turn), move |tx| {
            let now = tx.now();
            let Some(row) = tx.turn(turn)?.filter(|row| row.life.is_parked()) else {
                // It was answered, or cancelled.
                return Ok(None);
            };
            let session = tx.session(row.session_id)?.ok_or(Error::SessionNotFound)?;
            let mut timers = pending_timers(tx, turn)?;
            timers.retain(|timer| timer.due <= now);
            // In the order of their times; those of one time in that of the worker.
            timers.sort_by_key(|timer| timer.due);
            for timer in timers {
                tx.append_foreign(turn, &Entry::Timer { path: timer.path, due: timer.due }, now)?;
            }
            let woken = engine.wake(tx, &row, &session.agent, now)?;
            faults::at(Point::EngineTimersWritten);
            Ok(Some(DeliveryPlan::Parked(woken)))
        });
        let fired = fired.await?;
        faults::at(Point::EngineTimersCommitted);
        self.deliver_as_planned(fired);
        Ok(())
    }
}

/// The timers that a paused turn waits for.
fn pending_timers(tx: &dyn Transaction, turn: TurnId) -> Result<Vec<PendingTimer>, Error> {
    Ok(match tx.last_entry(turn)?.map(|last| last.entry) {
        Some(Entry::Pause { timers, .. }) => timers,
        _ => Vec::new(),
    })
}
