//! What is forgotten: sessions after `--ttl`, suspended turns after `--suspended-ttl`, journals of ended turns after
//! `--keep-journal`, replies and events after a day, notices that are delivered or given up after a week, sign-ins at their
//! end.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::audit::{Action, Deed};
use crate::domain::{Error, Timestamp};
use crate::engine::Engine;
use crate::store::upkeep::Sweep;

/// How long idempotency keys and events live.
const DAY: f64 = 24.0 * 3600.0;
/// How often old rows are looked for, at the most and at the least.
const OFTEN: f64 = 0.2;
const SELDOM: f64 = 60.0;
/// How many sessions one transaction removes, with all they have.
pub(in crate::engine) const SESSIONS_AT_ONCE: usize = 100;
/// How many journals one transaction removes, so that others get their turn in between.
pub(in crate::engine) const JOURNALS_AT_ONCE: usize = 500;
/// How many replies, events, notices or sign-ins one transaction removes, for the same reason.
pub(in crate::engine) const ROWS_AT_ONCE: usize = 500;

/// What could not be swept.
#[derive(Debug)]
pub(in crate::engine) struct Unswept {
    /// Which kinds of rows.
    pub(in crate::engine) kinds: Vec<&'static str>,
    /// Why the first of them could not.
    pub(in crate::engine) error: Error,
}

impl Engine {
    /// Sweeps now and then until the engine stops.
    pub(in crate::engine) fn spawn_sweeper(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        let ttls = [engine.settings.ttl, engine.settings.suspended_ttl];
        let pause =
            ttls.into_iter().filter(|ttl| *ttl > 0.0).fold(SELDOM, |pause, ttl| pause.min(ttl / 4.0)).max(OFTEN);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_secs_f64(pause)) => {}
                }
                if let Err(Unswept { kinds, error }) = engine.sweep().await {
                    tracing::error!(%error, kinds = kinds.join(", "), "old rows could not be removed");
                }
            }
        });
    }

    /// Sweeps each kind of rows, whatever became of the others.
    ///
    /// # Errors
    /// What could not be swept.
    pub(in crate::engine) async fn sweep(self: &Arc<Self>) -> Result<(), Unswept> {
        let now = self.now();
        let (day_ago, week_ago) = (now.plus_seconds(-DAY), now.plus_seconds(-7.0 * DAY));
        let swept = [
            ("replies", self.sweep_rows(Sweep::Replies, day_ago).await),
            ("events", self.sweep_rows(Sweep::Events, day_ago).await),
            ("notices", self.sweep_rows(Sweep::Notices, week_ago).await),
            ("sign-ins", self.sweep_rows(Sweep::SignIns, now).await),
            ("sessions", self.sweep_sessions().await),
            ("suspended turns", self.give_up_suspended().await),
            ("journals", self.compact_journals().await),
        ];
        let mut failed = swept.into_iter().filter_map(|(kind, swept)| Some((kind, swept.err()?)));
        let Some((first, error)) = failed.next() else { return Ok(()) };
        Err(Unswept { kinds: std::iter::once(first).chain(failed.map(|(kind, _)| kind)).collect(), error })
    }

    /// Removes rows until there are no more of them.
    async fn sweep_rows(&self, kind: Sweep, before: Timestamp) -> Result<(), Error> {
        while !self.is_stopping() {
            if self.store.upkeep().sweep(kind, before, ROWS_AT_ONCE).await? < ROWS_AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    async fn sweep_sessions(&self) -> Result<(), Error> {
        let ttl = self.settings.ttl;
        while ttl > 0.0 && !self.is_stopping() {
            let (now, deed) = (self.now(), Deed::new(Action::SessionDeleted).with("ttl", ttl));
            let before = now.plus_seconds(-ttl);
            let swept = self.store.upkeep().sweep_sessions(before, SESSIONS_AT_ONCE, deed, now).await?;
            let is_last = swept.len() < SESSIONS_AT_ONCE;
            for session in swept {
                self.telling.ring(session, None);
                self.telling.close(session);
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Interrupts and their answers stay until their session goes.
    async fn compact_journals(&self) -> Result<(), Error> {
        let keep = self.settings.keep_journal;
        while keep > 0.0 && !self.is_stopping() {
            let before = self.now().plus_seconds(-keep);
            if self.store.upkeep().compact_journals(before, JOURNALS_AT_ONCE).await? < JOURNALS_AT_ONCE {
                break;
            }
        }
        Ok(())
    }
}
