//! Other servers and commands change keys, sign-ins and the policy, which each server keeps in memory: they are followed in a
//! task of their own. What holds a look at turns up, be it a table that somebody has locked, keeps no key good that was revoked.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

use crate::domain::Error;
use crate::engine::Engine;
use crate::engine::journal::others::LOOK;
use crate::store::signals::{AccessVersion, Signal};

impl Engine {
    /// Follows what others do to keys, sign-ins and the policy until the engine stops.
    pub(in crate::engine) fn follow_access(self: &Arc<Self>, mut signals: Receiver<Signal>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            // Unknown before the first look.
            let mut known: Option<AccessVersion> = None;
            let (mut failed, mut next) = (0_u32, Instant::now());
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    heard = signals.recv() => match heard {
                        Ok(Signal::Access | Signal::Missed) | Err(RecvError::Lagged(_)) => {}
                        Ok(_) => continue,
                        // The store is closed.
                        Err(RecvError::Closed) => return,
                    },
                    () = sleep_until(next) => {}
                }
                next = Instant::now() + LOOK;
                match engine.look_at_access(known).await {
                    Ok(version) => (known, failed) = (Some(version), 0),
                    Err(error) => {
                        failed = failed.saturating_add(1);
                        match failed {
                            2 => tracing::warn!(
                                %error,
                                "keys and the policy could not be read: what is revoked elsewhere is good here until they are"
                            ),
                            _ => tracing::debug!(%error, "keys and the policy could not be read; it is tried again"),
                        }
                    }
                }
            }
        });
    }

    /// Reads them anew where they may be others than at `known`.
    async fn look_at_access(&self, known: Option<AccessVersion>) -> Result<AccessVersion, Error> {
        let version = self.store.upkeep().access_version().await?;
        if known != Some(version) {
            self.access.changed_elsewhere().await?;
            // Its notices go out once a store is adopted, which is told in the same way.
            self.telling.take_over_outbox();
        }
        Ok(version)
    }
}
