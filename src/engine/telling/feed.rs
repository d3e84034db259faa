//! Events to listeners, in the store's order and without a gap.
//!
//! A commit only rings; the one feeding task reads what is new from the store and tells everybody. So the order is the
//! store's, whoever wrote, and a listener that falls behind reads on from the store instead of missing anything.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::domain::event::{EventView, NumberedEvent};
use crate::domain::{Error, SessionId};
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::telling::view::{FeedItem, Subscription};
use crate::store::{Store, StoreExt};

/// How many events a listener may be behind before it reads on from the store.
const LAG: usize = 1024;
/// How many events wait inside one subscription.
const WINDOW: usize = 64;
/// How many events are read at once.
const BATCH: usize = 256;

enum FeedUpdate {
    Stored { last: u64 },
    Passing(Arc<EventView>),
    Gone(SessionId),
    Over,
}

/// What every subscriber hears.
#[derive(Clone)]
enum Live {
    Heard(FeedItem),
    /// There will be no more events of this session.
    Gone(SessionId),
    /// There will be no more events.
    Over,
}

/// See the module.
pub struct Feed {
    store: Arc<dyn Store>,
    news: mpsc::UnboundedSender<FeedUpdate>,
    listeners: broadcast::Sender<Live>,
    stopping: CancellationToken,
}

impl Feed {
    /// Starts the feeding task of a store whose newest event has the number `told`.
    pub fn start(store: Arc<dyn Store>, told: u64, stopping: CancellationToken) -> Self {
        let (news, incoming) = mpsc::unbounded_channel();
        let (listeners, _) = broadcast::channel(LAG);
        tokio::spawn(feed(Arc::clone(&store), told, incoming, listeners.clone(), stopping.clone()));
        Self { store, news, listeners, stopping }
    }

    /// A feed that tells nobody.
    pub fn silent(store: Arc<dyn Store>, stopping: CancellationToken) -> Self {
        let (news, _) = mpsc::unbounded_channel();
        let (listeners, _) = broadcast::channel(1);
        Self { store, news, listeners, stopping }
    }

    /// Events up to number `last` are on disk.
    pub fn ring(&self, last: u64) {
        // The task ends only with the runtime, or never was there; then there is nobody to tell.
        drop(self.news.send(FeedUpdate::Stored { last }));
    }

    /// Every listener hears the events up to number `last`, and then the end.
    pub fn finish(&self, last: u64) {
        self.ring(last);
        drop(self.news.send(FeedUpdate::Over));
    }

    /// Passes on an event that is not stored.
    pub fn pass(&self, event: EventView) {
        if self.listeners.receiver_count() > 0 {
            drop(self.news.send(FeedUpdate::Passing(Arc::new(event))));
        }
    }

    /// A session was deleted; its listeners hear what came before, and then the end.
    pub fn close(&self, session: SessionId) {
        drop(self.news.send(FeedUpdate::Gone(session)));
    }

    /// Events from now on, or after number `after`, of one session or of all; ends at shutdown.
    ///
    /// # Errors
    /// The store's.
    pub async fn subscribe(&self, session: Option<SessionId>, after: Option<u64>) -> Result<Subscription, Error> {
        // First listen, then look where the store stands: what comes in between is heard twice, and told once.
        let live = self.listeners.subscribe();
        let cursor = match after {
            Some(number) => number,
            None => self.store.query(|reader| reader.last_event()).await?,
        };
        let (sender, events) = mpsc::channel(WINDOW);
        let subscriber = Subscriber { store: Arc::clone(&self.store), session, cursor, sender };
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = subscriber.run(live, after.is_some()) => {}
            }
        });
        Ok(Subscription { events })
    }
}

async fn feed(
    store: Arc<dyn Store>,
    mut told: u64,
    mut news: mpsc::UnboundedReceiver<FeedUpdate>,
    listeners: broadcast::Sender<Live>,
    stopping: CancellationToken,
) {
    while let Some(item) = news.recv().await {
        match item {
            FeedUpdate::Passing(event) => drop(listeners.send(Live::Heard(FeedItem::Passing(event)))),
            FeedUpdate::Over => drop(listeners.send(Live::Over)),
            FeedUpdate::Gone(session) => drop(listeners.send(Live::Gone(session))),
            FeedUpdate::Stored { last } if last <= told => {}
            // Nobody listens: whoever comes later starts from the store.
            FeedUpdate::Stored { last } if listeners.receiver_count() == 0 => told = last,
            FeedUpdate::Stored { last } => {
                while told < last {
                    let events = match read(&store, told, None).await {
                        Ok(events) => events,
                        // Whoever listens hears the end instead.
                        Err(_) if stopping.is_cancelled() => break,
                        Err(error) => {
                            tracing::error!(%error, "events could not be read; they are told later");
                            tokio::time::sleep(STORE_PAUSE).await;
                            continue;
                        }
                    };
                    let Some(newest) = events.last().map(|event| event.number) else { break };
                    for event in events {
                        drop(listeners.send(Live::Heard(FeedItem::Stored(Arc::new(event)))));
                    }
                    told = newest;
                }
            }
        }
    }
}

async fn read(store: &Arc<dyn Store>, after: u64, session: Option<SessionId>) -> Result<Vec<NumberedEvent>, Error> {
    store.query(move |reader| reader.events_after(after, session, BATCH)).await
}

struct Subscriber {
    store: Arc<dyn Store>,
    session: Option<SessionId>,
    /// The last number that this subscriber was told or does not want.
    cursor: u64,
    sender: mpsc::Sender<FeedItem>,
}

impl Subscriber {
    /// Ends when the subscription is dropped, or the store fails: the client comes back with its last number.
    async fn run(mut self, mut live: broadcast::Receiver<Live>, behind: bool) {
        if behind && !self.catch_up().await {
            return;
        }
        loop {
            let heard = tokio::select! {
                () = self.sender.closed() => return,
                heard = live.recv() => heard,
            };
            let goes_on = match heard {
                Ok(Live::Heard(FeedItem::Stored(event))) => self.tell_stored(event).await,
                Ok(Live::Gone(session)) => self.session != Some(session),
                Ok(Live::Over) => false,
                Ok(Live::Heard(FeedItem::Passing(event))) => {
                    !self.wants(event.session_id) || self.sender.send(FeedItem::Passing(event)).await.is_ok()
                }
                Err(broadcast::error::RecvError::Lagged(_)) => self.catch_up().await && self.is_there().await,
                Err(broadcast::error::RecvError::Closed) => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn catch_up(&mut self) -> bool {
        loop {
            let Ok(events) = read(&self.store, self.cursor, self.session).await else { return false };
            if events.is_empty() {
                return true;
            }
            for event in events {
                if !self.tell_stored(Arc::new(event)).await {
                    return false;
                }
            }
        }
    }

    /// Whether there is anything left to listen to: the end may have been among what was missed.
    async fn is_there(&self) -> bool {
        let Some(session) = self.session else { return true };
        self.store.query(move |reader| reader.session(session)).await.is_ok_and(|found| found.is_some())
    }

    async fn tell_stored(&mut self, event: Arc<NumberedEvent>) -> bool {
        if event.number <= self.cursor {
            return true;
        }
        self.cursor = event.number;
        !self.wants(event.event.session_id) || self.sender.send(FeedItem::Stored(event)).await.is_ok()
    }

    fn wants(&self, session: SessionId) -> bool {
        self.session.is_none_or(|wanted| wanted == session)
    }
}
