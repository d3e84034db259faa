//! Events to listeners, in the store's order and without a gap.
//!
//! A commit only rings; the one feeding task reads what is new from the store and tells everybody. So the order is the
//! store's, whoever wrote, and a listener that falls behind reads on from the store instead of missing anything.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::domain::event::{EventView, NumberedEvent};
use crate::domain::size::size_of_members;
use crate::domain::{Error, SessionId, Timestamp};
use crate::engine::alarm::STORE_PAUSE;
use crate::engine::telling::passing::{PassingBytes, PassingEvent};
use crate::engine::telling::view::{FeedItem, Subscription};
use crate::store::{Store, StoreExt};

/// How many events a listener may be behind before it reads on from the store.
const LAG: usize = 1024;
/// How many events wait inside one subscription. Whoever reads nothing has them in memory, and they may be long.
const WINDOW: usize = 2;
/// How many events are read at once.
const BATCH: usize = 256;
/// How many events one listener that is behind reads first; after that as many as are about [`PORTION`] bytes.
const FIRST: usize = 2;
/// How many bytes of events one listener that is behind has read ahead: there may be thousands of listeners.
const PORTION: usize = 128 * 1024;

/// How often it is looked for an event that is on disk and cannot be told yet, before it is left to the next one.
const LOOKS: u32 = 40;

enum FeedUpdate {
    /// Somebody listens from now on, who was told, or does not want, what there is up to number `cursor`.
    Listens {
        cursor: u64,
    },
    Stored {
        last: u64,
    },
    /// There is something new, of which nobody knows the number.
    Unnumbered,
    Passing(Arc<PassingEvent>),
    Gone(SessionId),
    Recheck,
    Over,
}

/// What every subscriber hears.
#[derive(Clone)]
enum Live {
    Heard(FeedItem),
    /// There will be no more events of this session.
    Gone(SessionId),
    /// There may be no more of whichever session.
    Recheck,
    /// There will be no more events.
    Over,
}

/// See the module.
pub struct Feed {
    store: Arc<dyn Store>,
    news: mpsc::UnboundedSender<FeedUpdate>,
    listeners: broadcast::Sender<Live>,
    /// Whether somebody has asked to look already: it is looked once.
    is_to_look: Arc<AtomicBool>,
    /// Up to which number events were stored while nobody listened, or while whoever does had not said from where.
    unheard: Arc<AtomicU64>,
    /// What of the events that are not stored is in memory.
    passing: PassingBytes,
    /// Nobody begins to listen while it is looked whether anybody does.
    arrivals: Mutex<()>,
    stopping: CancellationToken,
}

impl Feed {
    /// Starts the feeding task of a store whose newest event has the number `told`.
    pub fn start(store: Arc<dyn Store>, told: u64, stopping: CancellationToken) -> Self {
        let (news, incoming) = mpsc::unbounded_channel();
        let (listeners, _) = broadcast::channel(LAG);
        let is_to_look = Arc::new(AtomicBool::new(false));
        let unheard = Arc::new(AtomicU64::new(told));
        let feeding = FeedingTask {
            store: Arc::clone(&store),
            told,
            listeners: listeners.clone(),
            is_to_look: Arc::clone(&is_to_look),
            unheard: Arc::clone(&unheard),
            stopping: stopping.clone(),
            waiting: VecDeque::new(),
        };
        tokio::spawn(feeding.run(incoming));
        let (passing, arrivals) = (PassingBytes::default(), Mutex::default());
        Self { store, news, listeners, is_to_look, unheard, passing, arrivals, stopping }
    }

    /// A feed that tells nobody.
    pub fn silent(store: Arc<dyn Store>, stopping: CancellationToken) -> Self {
        let (news, _) = mpsc::unbounded_channel();
        let (listeners, _) = broadcast::channel(1);
        let (is_to_look, unheard) = (Arc::default(), Arc::default());
        let (passing, arrivals) = (PassingBytes::default(), Mutex::default());
        Self { store, news, listeners, is_to_look, unheard, passing, arrivals, stopping }
    }

    /// Events up to number `last` are on disk. Where nobody listens, nobody is woken: whoever comes later starts from the
    /// store.
    pub fn ring(&self, last: u64) {
        {
            let _nobody_comes = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_heard() {
                self.unheard.fetch_max(last, Ordering::AcqRel);
                return;
            }
        }
        // The task ends only with the runtime, or never was there; then there is nobody to tell.
        drop(self.news.send(FeedUpdate::Stored { last }));
    }

    /// There are new events on disk.
    pub fn look(&self) {
        if self.is_heard() && !self.is_to_look.swap(true, Ordering::AcqRel) {
            drop(self.news.send(FeedUpdate::Unnumbered));
        }
    }

    /// There may be new events of other processes on disk. Where nobody listens, they are passed over: whoever comes later
    /// starts from the store.
    pub fn look_elsewhere(&self) {
        if !self.is_to_look.swap(true, Ordering::AcqRel) {
            drop(self.news.send(FeedUpdate::Unnumbered));
        }
    }

    /// A session may have been deleted elsewhere, without anybody here having heard of it: its listeners look.
    pub fn recheck(&self) {
        if self.is_heard() {
            drop(self.news.send(FeedUpdate::Recheck));
        }
    }

    /// Whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.listeners.receiver_count() > 0
    }

    /// Every listener hears the events up to number `last`, and then the end.
    pub fn finish(&self, last: u64) {
        self.ring(last);
        drop(self.news.send(FeedUpdate::Over));
    }

    /// Passes on an event that is not stored, where somebody hears it and there is room for it.
    pub fn pass(&self, event: EventView) {
        if !self.is_heard() {
            return;
        }
        match self.passing.take(event) {
            Some(event) => drop(self.news.send(FeedUpdate::Passing(Arc::new(event)))),
            None => tracing::debug!("an event that is not stored is not told: too much of such is unheard"),
        }
    }

    /// A session was deleted; its listeners hear what came before, and then the end.
    pub fn close(&self, session: SessionId) {
        drop(self.news.send(FeedUpdate::Gone(session)));
    }

    /// After which number a listener is told of events who brings one, or none. A number that was never given out here is of a
    /// store that was in this one's place: of what comes now, none is larger for long.
    async fn place(&self, session: Option<SessionId>, after: Option<u64>) -> Result<u64, Error> {
        // What a session's own listeners were told may not be in everybody's sight yet.
        if let (Some(session), Some(number)) = (session, after)
            && !events(&self.store, number.saturating_sub(1), Some(session), 1).await?.is_empty()
        {
            return Ok(number);
        }
        let newest = self.store.query(|reader| reader.last_event()).await?;
        Ok(after.map_or(newest, |number| number.min(newest)))
    }

    /// Events from now on, or after number `after`, of one session or of all; ends at shutdown. Where no event has that
    /// number yet, from now on too.
    ///
    /// # Errors
    /// The store's.
    pub async fn subscribe(&self, session: Option<SessionId>, after: Option<u64>) -> Result<Subscription, Error> {
        // First listen, then look where the store stands: what comes in between is heard twice, and told once.
        let live = {
            let _comes = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            self.listeners.subscribe()
        };
        let cursor = self.place(session, after).await?;
        let (sender, events) = mpsc::channel(WINDOW);
        let (store, news, passing) = (Arc::clone(&self.store), self.news.clone(), self.passing.clone());
        let subscriber =
            Subscriber { store, news, passing, session, cursor, live, has_missed: after.is_some(), sender };
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = subscriber.run() => {}
            }
        });
        Ok(Subscription { after: cursor, events })
    }
}

/// Reads what is new, and tells everybody.
struct FeedingTask {
    store: Arc<dyn Store>,
    /// The number up to which it was told.
    told: u64,
    listeners: broadcast::Sender<Live>,
    is_to_look: Arc<AtomicBool>,
    unheard: Arc<AtomicU64>,
    stopping: CancellationToken,
    /// What has come while something was read, in order.
    waiting: VecDeque<FeedUpdate>,
}

impl FeedingTask {
    async fn run(mut self, mut news: mpsc::UnboundedReceiver<FeedUpdate>) {
        loop {
            let item = match self.waiting.pop_front() {
                Some(item) => item,
                None => match news.recv().await {
                    Some(item) => item,
                    None => return,
                },
            };
            // Then whoever listens has not said yet from where.
            let awaits = self.unheard.load(Ordering::Acquire) > self.told;
            match item {
                FeedUpdate::Listens { cursor } => self.begin(cursor, &mut news).await,
                FeedUpdate::Passing(event) => drop(self.listeners.send(Live::Heard(FeedItem::Passing(event)))),
                FeedUpdate::Over => drop(self.listeners.send(Live::Over)),
                FeedUpdate::Recheck => drop(self.listeners.send(Live::Recheck)),
                FeedUpdate::Gone(session) => drop(self.listeners.send(Live::Gone(session))),
                FeedUpdate::Stored { last } if last <= self.told => {}
                // Nobody listens: whoever comes later starts from the store.
                FeedUpdate::Stored { last } if awaits || self.listeners.receiver_count() == 0 => {
                    self.unheard.fetch_max(last, Ordering::AcqRel);
                }
                FeedUpdate::Stored { last } => self.tell_new(Some(last), &mut news).await,
                FeedUpdate::Unnumbered => {
                    // Before it is looked: what is written from here on asks for itself.
                    self.is_to_look.store(false, Ordering::Release);
                    match self.listeners.receiver_count() {
                        0 => self.pass_over().await,
                        _ if awaits => {}
                        _ => self.tell_new(None, &mut news).await,
                    }
                }
            }
        }
    }

    /// Somebody begins to listen. What there is above their `cursor` is told, and told again to others, who pass it over:
    /// it may have been on disk, and in nobody's sight yet, when it was passed over here or read there.
    async fn begin(&mut self, cursor: u64, news: &mut mpsc::UnboundedReceiver<FeedUpdate>) {
        let unheard = self.unheard.swap(0, Ordering::AcqRel);
        self.told = if unheard > self.told { cursor } else { self.told.min(cursor) };
        self.tell_new(Some(unheard), news).await;
        self.tell_new(None, news).await;
    }

    /// Nobody listens: what is there need not be told.
    async fn pass_over(&mut self) {
        match self.store.query(|reader| reader.last_event()).await {
            // Whoever has begun to listen meanwhile may want some of it.
            Ok(last) if self.listeners.receiver_count() == 0 => self.told = last.max(self.told),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "events of other servers could not be looked at"),
        }
    }

    /// Tells what is new, up to number `last`; all that is there where that is not known.
    async fn tell_new(&mut self, last: Option<u64>, news: &mut mpsc::UnboundedReceiver<FeedUpdate>) {
        let mut looks = LOOKS;
        while last.is_none_or(|last| self.told < last) {
            let events = match read(&self.store, self.told, None).await {
                Ok(events) => events,
                // Whoever listens hears the end instead.
                Err(_) if self.stopping.is_cancelled() => break,
                Err(error) => {
                    tracing::error!(%error, "events could not be read; they are told later");
                    tokio::time::sleep(STORE_PAUSE).await;
                    continue;
                }
            };
            let Some(newest) = events.last().map(|event| event.number) else {
                // Somebody's transaction may hold up what is there already; each of these looks waits for that a while.
                if last.is_none() || looks == 0 {
                    break;
                }
                looks -= 1;
                continue;
            };
            // What has come while these were read is asked for by whoever wrote it.
            let is_all = events.len() < BATCH;
            while let Ok(item) = news.try_recv() {
                self.waiting.push_back(item);
            }
            for event in events {
                self.tell_what_came_before(&event.event);
                drop(self.listeners.send(Live::Heard(FeedItem::Stored(Arc::new(event)))));
            }
            self.told = newest;
            if last.is_none() && is_all {
                break;
            }
        }
    }
}

impl FeedingTask {
    /// What was read may have been stored after something that still waits to be passed on: of the step that is over, which
    /// is told first.
    fn tell_what_came_before(&mut self, event: &EventView) {
        let Some(step) = event.data.get("step_id") else { return };
        let is_before = |item: &FeedUpdate| match item {
            FeedUpdate::Passing(passing) => {
                passing.session_id == event.session_id && passing.data.get("step_id") == Some(step)
            }
            _ => false,
        };
        while let Some(place) = self.waiting.iter().position(is_before) {
            if let Some(FeedUpdate::Passing(passing)) = self.waiting.remove(place) {
                drop(self.listeners.send(Live::Heard(FeedItem::Passing(passing))));
            }
        }
    }
}

async fn read(store: &Arc<dyn Store>, after: u64, session: Option<SessionId>) -> Result<Vec<NumberedEvent>, Error> {
    events(store, after, session, BATCH).await
}

async fn events(
    store: &Arc<dyn Store>,
    after: u64,
    session: Option<SessionId>,
    most: usize,
) -> Result<Vec<NumberedEvent>, Error> {
    let told = store.query(move |reader| Ok((reader.now(), reader.events_after(after, session, most)?)));
    let (now, events) = told.await?;
    Ok(as_of(now, events))
}

/// [`events`], and the number up to which nothing comes any more that is none of them, where these are all.
async fn events_and_last(
    store: &Arc<dyn Store>,
    after: u64,
    session: Option<SessionId>,
    most: usize,
) -> Result<(Vec<NumberedEvent>, u64), Error> {
    let told = store.query(move |reader| {
        // First: what is read after it has all that is there by then.
        let last = reader.last_event()?;
        Ok((last, reader.now(), reader.events_after(after, session, most)?))
    });
    let (last, now, events) = told.await?;
    Ok((as_of(now, events), last))
}

fn as_of(now: Timestamp, events: Vec<NumberedEvent>) -> Vec<NumberedEvent> {
    events.into_iter().map(|told| NumberedEvent { event: told.event.as_of(now), ..told }).collect()
}

/// How many events to read after these: as many as are a portion, if the longest of these is like the next.
fn next_batch(events: &[NumberedEvent]) -> usize {
    let longest = events.iter().map(|event| size_of_members(&event.event.data)).max().unwrap_or_default();
    (PORTION / longest.max(1)).clamp(1, BATCH)
}

struct Subscriber {
    store: Arc<dyn Store>,
    news: mpsc::UnboundedSender<FeedUpdate>,
    passing: PassingBytes,
    session: Option<SessionId>,
    /// The last number that this subscriber was told or does not want.
    cursor: u64,
    live: broadcast::Receiver<Live>,
    /// Something that came after `cursor` may not be in `live`.
    has_missed: bool,
    sender: mpsc::Sender<FeedItem>,
}

impl Subscriber {
    /// Ends when the subscription is dropped, or the store fails: the client comes back with its last number.
    async fn run(mut self) {
        if self.has_missed && !self.catch_up().await {
            return;
        }
        drop(self.news.send(FeedUpdate::Listens { cursor: self.cursor }));
        loop {
            if self.has_missed && !(self.catch_up().await && self.is_there().await) {
                return;
            }
            let heard = tokio::select! {
                () = self.sender.closed() => return,
                heard = self.live.recv() => heard,
            };
            let goes_on = match heard {
                Ok(Live::Heard(FeedItem::Stored(event))) => self.tell_stored(event).await,
                Ok(Live::Gone(session)) => self.session != Some(session),
                Ok(Live::Recheck) => {
                    !self.is_known_to_be_gone().await || self.catch_up().await && self.is_there().await
                }
                Ok(Live::Over) => false,
                Ok(Live::Heard(FeedItem::Passing(event))) => {
                    !self.wants(event.session_id) || self.tell(FeedItem::Passing(event)).await
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    self.has_missed = true;
                    true
                }
                Err(broadcast::error::RecvError::Closed) => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Reads on from the store what may have been missed. What there is of other sessions is passed over: else whoever comes back
    /// to one that was quiet for long would have all of it read again, for everybody.
    async fn catch_up(&mut self) -> bool {
        self.has_missed = false;
        let mut batch = FIRST;
        loop {
            let read = events_and_last(&self.store, self.cursor, self.session, batch).await;
            let Ok((events, last)) = read else { return false };
            if events.is_empty() {
                self.cursor = self.cursor.max(last);
                return true;
            }
            batch = next_batch(&events);
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

    /// Whether the store says so; one that cannot be asked now says nothing.
    async fn is_known_to_be_gone(&self) -> bool {
        let Some(session) = self.session else { return false };
        matches!(self.store.query(move |reader| reader.session(session)).await, Ok(None))
    }

    async fn tell_stored(&mut self, event: Arc<NumberedEvent>) -> bool {
        if event.number <= self.cursor {
            return true;
        }
        self.cursor = event.number;
        !self.wants(event.event.session_id) || self.tell(FeedItem::Stored(event)).await
    }

    /// Waits for room. What it has not heard of stays in memory for it, also while others need that: then it lets go of all of
    /// it, and reads on from the store once there is room.
    async fn tell(&mut self, item: FeedItem) -> bool {
        loop {
            let needed = self.passing.needed();
            let room = tokio::select! {
                biased;
                room = self.sender.reserve() => room,
                () = needed => {
                    self.live = self.live.resubscribe();
                    self.has_missed = true;
                    continue;
                }
            };
            return room.map(|room| room.send(item)).is_ok();
        }
    }

    fn wants(&self, session: SessionId) -> bool {
        self.session.is_none_or(|wanted| wanted == session)
    }
}

#[cfg(test)]
mod tests;
