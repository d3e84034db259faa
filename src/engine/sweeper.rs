//! What is forgotten: sessions after `--ttl`, suspended turns after `--suspended-ttl`, journals of ended turns after `--keep-journal`, replies and events after a
//! day, notices that are delivered or given up after a week.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, clock};
use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::store::{StoreExt, Transaction};

/// How long idempotency keys and events live.
const DAY: f64 = 24.0 * 3600.0;
/// How often old rows are looked for, at the most and at the least.
const OFTEN: f64 = 0.2;
const SELDOM: f64 = 60.0;
/// How many sessions one transaction removes, with all they have.
const SESSIONS_AT_ONCE: usize = 100;
/// How many journals one transaction removes, so that others get their turn in between.
const JOURNALS_AT_ONCE: usize = 500;

impl Engine {
    /// Sweeps now and then until the engine stops.
    pub(super) fn spawn_sweeper(self: &Arc<Self>) {
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
                if let Err(error) = engine.sweep().await {
                    tracing::error!(%error, "old rows could not be removed");
                }
            }
        });
    }

    pub(super) async fn sweep(self: &Arc<Self>) -> Result<(), Error> {
        let now = clock::now();
        self.store.transact(move |tx| tx.sweep_replies(now.plus_seconds(-DAY))).await?;
        self.store.transact(move |tx| tx.sweep_events(now.plus_seconds(-DAY))).await?;
        self.store.transact(move |tx| tx.sweep_notices(now.plus_seconds(-7.0 * DAY))).await?;
        self.sweep_sessions().await?;
        self.give_up_suspended().await?;
        self.compact_journals().await
    }

    async fn sweep_sessions(&self) -> Result<(), Error> {
        let ttl = self.settings.ttl;
        while ttl > 0.0 && !self.is_stopping() {
            let sweep = move |tx: &mut dyn Transaction| {
                let now = clock::now();
                let swept = tx.sweep_sessions(now.plus_seconds(-ttl), SESSIONS_AT_ONCE)?;
                for session in &swept {
                    let deed = Deed::new(Action::SessionDeleted).session(*session).with("ttl", ttl);
                    tx.append_audit(deed, now)?;
                }
                Ok(swept)
            };
            let swept = self.store.transact(sweep).await?;
            let is_last = swept.len() < SESSIONS_AT_ONCE;
            for session in swept {
                self.bells.ring(session, None);
                self.feed.close(session);
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
            let compact =
                move |tx: &mut dyn Transaction| tx.compact_journals(clock::now().plus_seconds(-keep), JOURNALS_AT_ONCE);
            if self.store.transact(compact).await? < JOURNALS_AT_ONCE {
                break;
            }
        }
        Ok(())
    }
}
