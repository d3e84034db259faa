//! Who waits for a session to change. A bell exists only while somebody listens; whoever rings may show what the session
//! has become, so that nobody has to look it up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::{SessionId, TurnId};
use crate::engine::telling::view::SessionView;
use crate::store::record::EventNumber;

/// What a session was right after a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSnapshot {
    /// The turn that the commit was about.
    pub turn: TurnId,
    /// The number of the newest event that it wrote.
    pub event: EventNumber,
    /// The session.
    pub view: SessionView,
}

impl SessionSnapshot {
    /// Whether this is later than `view`, which was read when `event` was the newest of its session. Rings of several
    /// commits come in any order.
    pub fn is_after(&self, view: &SessionView, event: u64) -> bool {
        // Of another turn it is no news: the one before, or one of a session that was made again under the same id.
        self.event.get() > event && view.session.turn() == Some(self.turn)
    }
}

/// Bells by session.
#[derive(Debug, Default)]
pub struct Bells {
    bells: Mutex<HashMap<SessionId, watch::Sender<Option<Arc<SessionSnapshot>>>>>,
}

impl Bells {
    /// Listens from now on: every [`Bells::ring`] after this call is heard, also one before the first await.
    pub fn listen(&self, session: SessionId) -> Listener<'_> {
        let mut bells = self.lock();
        let receiver = bells.entry(session).or_insert_with(|| watch::channel(None).0).subscribe();
        Listener { bells: self, session, receiver: Some(receiver) }
    }

    /// The session changed, and the change is on disk.
    pub fn ring(&self, session: SessionId, shown: Option<Arc<SessionSnapshot>>) {
        if let Some(bell) = self.lock().get(&session) {
            bell.send_replace(shown);
        }
    }

    /// Any session may have changed.
    pub fn ring_all(&self) {
        for bell in self.lock().values() {
            bell.send_replace(None);
        }
    }

    /// Whether anybody listens at this moment.
    pub fn has_listener(&self, session: SessionId) -> bool {
        self.lock().contains_key(&session)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<Option<Arc<SessionSnapshot>>>>> {
        // A panic elsewhere cannot leave a map half changed.
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who listens; gone when dropped.
#[derive(Debug)]
pub struct Listener<'a> {
    bells: &'a Bells,
    session: SessionId,
    /// `None` once it is dropped.
    receiver: Option<watch::Receiver<Option<Arc<SessionSnapshot>>>>,
}

impl Listener<'_> {
    /// Waits for a ring since the last one heard, and returns what the newest has shown.
    pub async fn heard(&mut self) -> Option<Arc<SessionSnapshot>> {
        // The sender lives as long as a listener does, so that this cannot fail.
        let Some(receiver) = &mut self.receiver else { return std::future::pending().await };
        if receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        receiver.borrow_and_update().clone()
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut bells = self.bells.lock();
        // Inside of the lock, so that of two that go at once one is the last.
        drop(self.receiver.take());
        if bells.get(&self.session).is_some_and(|bell| bell.receiver_count() == 0) {
            bells.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock;

    #[test]
    fn a_bell_goes_with_its_last_listener_also_where_two_go_at_once() {
        let bells = Bells::default();
        for _ in 0..200 {
            let session = clock::session_id();
            let (one, other) = (bells.listen(session), bells.listen(session));
            std::thread::scope(|scope| {
                let kept_back = bells.lock();
                scope.spawn(move || drop(one));
                scope.spawn(move || drop(other));
                drop(kept_back);
            });
            assert!(!bells.has_listener(session));
        }
    }
}
