//! Who waits for a session to change. A bell exists only while somebody listens.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::SessionId;

/// Bells by session.
#[derive(Debug, Default)]
pub struct Bells {
    bells: Mutex<HashMap<SessionId, watch::Sender<()>>>,
}

impl Bells {
    /// Listens from now on: every [`Bells::ring`] after this call is heard, also one before the first await.
    pub fn listen(&self, session: SessionId) -> Listener<'_> {
        let mut bells = self.lock();
        let receiver = bells.entry(session).or_insert_with(|| watch::channel(()).0).subscribe();
        Listener { bells: self, session, receiver }
    }

    /// The session changed, and the change is on disk.
    pub fn ring(&self, session: SessionId) {
        if let Some(bell) = self.lock().get(&session) {
            bell.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<()>>> {
        // A panic elsewhere cannot leave a map half changed.
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who listens; gone when dropped.
#[derive(Debug)]
pub struct Listener<'a> {
    bells: &'a Bells,
    session: SessionId,
    receiver: watch::Receiver<()>,
}

impl Listener<'_> {
    /// Waits for a ring since the last one heard.
    pub async fn heard(&mut self) {
        // The sender lives as long as a listener does, so that this cannot fail.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut bells = self.bells.lock();
        // Ours is the last receiver: it is dropped after this.
        if bells.get(&self.session).is_some_and(|bell| bell.receiver_count() <= 1) {
            bells.remove(&self.session);
        }
    }
}
