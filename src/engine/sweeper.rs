//! What is forgotten: sessions after `--ttl`, replies and events after a day.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, clock};
use crate::domain::Error;
use crate::store::StoreExt;

/// How long idempotency keys and events live.
const DAY: f64 = 24.0 * 3600.0;
/// How often old rows are looked for, at the most and at the least.
const OFTEN: f64 = 0.2;
const SELDOM: f64 = 60.0;

impl Engine {
    /// Sweeps now and then until the engine stops.
    pub(super) fn spawn_sweeper(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        let ttl = engine.settings.ttl;
        let pause = if ttl > 0.0 { (ttl / 4.0).clamp(OFTEN, SELDOM) } else { SELDOM };
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

    async fn sweep(&self) -> Result<(), Error> {
        let ttl = self.settings.ttl;
        let swept = self
            .store
            .transact(move |tx| {
                let now = clock::now();
                tx.sweep_replies(now.plus_seconds(-DAY))?;
                tx.sweep_events(now.plus_seconds(-DAY))?;
                if ttl > 0.0 { tx.sweep_sessions(now.plus_seconds(-ttl)) } else { Ok(Vec::new()) }
            })
            .await?;
        for session in swept {
            self.bells.ring(session);
            self.feed.close(session);
        }
        Ok(())
    }
}
