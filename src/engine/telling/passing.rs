//! Events that are not stored: what of them somebody has not heard yet is in memory, and workers say how long it is.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::domain::event::EventView;
use crate::domain::size::size_of_members;

/// How many bytes of them are in memory. Nobody is promised to hear them, so those beyond that are heard by nobody.
const MOST: usize = 16 * 1024 * 1024;

/// The bytes that all of them have.
#[derive(Clone, Default)]
pub struct PassingBytes(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    taken: AtomicUsize,
    needed: Arc<Notify>,
}

/// One of them, until everybody has heard it who wants to.
#[derive(Debug)]
pub struct PassingEvent {
    event: EventView,
    size: usize,
    room: Arc<Room>,
}

impl PassingBytes {
    /// `event`, where there is room for it.
    pub fn take(&self, event: EventView) -> Option<PassingEvent> {
        let size = size_of_members(&event.data);
        let room = Arc::clone(&self.0);
        let passing = PassingEvent { event, size, room };
        let before = self.0.taken.fetch_add(size, Ordering::AcqRel);
        if before.saturating_add(size) <= MOST {
            return Some(passing);
        }
        // Dropping it gives its bytes back; those who do not listen give back theirs.
        self.0.needed.notify_waiters();
        None
    }

    /// Waits until there is no room for one, from this call on.
    pub fn needed(&self) -> OwnedNotified {
        Arc::clone(&self.0.needed).notified_owned()
    }
}

impl Deref for PassingEvent {
    type Target = EventView;

    fn deref(&self) -> &EventView {
        &self.event
    }
}

impl Drop for PassingEvent {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.size, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::engine::telling::feed::Feed;
    use crate::engine::telling::view::FeedItem;
    use crate::store::contract::fixture::{Fixture, session_id};

    fn said(length: usize) -> EventView {
        EventView::delta(session_id(1), "0#1", 1, json!({"content": "x".repeat(length)}))
    }

    #[tokio::test]
    async fn for_a_listener_that_takes_nothing_no_more_is_kept() {
        let fixture = Fixture::memory();
        let feed = Feed::start(Arc::clone(&fixture.store), 0, CancellationToken::new());
        let mut heard = feed.subscribe(None, None).await.unwrap();
        (0..40).for_each(|_| feed.pass(said(1024 * 1024)));
        feed.pass(said(1));
        let mut long = 0;
        while let Some(FeedItem::Passing(event)) = heard.events.recv().await {
            if event.data["delta"]["content"] == "x" {
                break;
            }
            long += 1;
        }
        assert_eq!(long, 15);
    }

    #[tokio::test]
    async fn who_takes_nothing_keeps_others_from_hearing_little() {
        let fixture = Fixture::memory();
        let feed = Feed::start(Arc::clone(&fixture.store), 0, CancellationToken::new());
        let _takes_nothing = feed.subscribe(None, None).await.unwrap();
        let mut heard = feed.subscribe(None, None).await.unwrap();
        let mut long = 0;
        for _ in 0..100 {
            feed.pass(said(1024 * 1024));
            feed.pass(said(1));
            while let Some(FeedItem::Passing(event)) = heard.events.recv().await {
                if event.data["delta"]["content"] == "x" {
                    break;
                }
                long += 1;
            }
        }
        assert!(long > 80, "{long} of 100");
    }

    #[test]
    fn of_what_nobody_has_heard_yet_so_much_is_in_memory_and_no_more() {
        let bytes = PassingBytes::default();
        let mut unheard: Vec<_> = (0..20).map_while(|_| bytes.take(said(1024 * 1024))).collect();
        assert_eq!(unheard.len(), 15, "each is a little longer than what was said");
        assert!(bytes.take(said(1024 * 1024)).is_none() && bytes.take(said(1)).is_some(), "what is short has room");
        unheard.pop();
        assert!(bytes.take(said(1024 * 1024)).is_some());
        assert_eq!(unheard.first().map(|event| event.name.as_str()), Some("message.delta"));
        drop(unheard);
        assert!(bytes.take(said(2 * MOST)).is_none());
        assert_eq!(bytes.0.taken.load(Ordering::Acquire), 0);
    }
}
