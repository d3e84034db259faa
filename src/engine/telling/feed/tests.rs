use super::*;
use crate::domain::event::{StoredEvent, Triage};
use crate::store::about::About;
use crate::store::contract::fixture::{Fixture, at, custom, event, session, session_id};

#[test]
fn of_long_events_few_are_read_at_once_and_of_short_ones_many() {
    let long = |length: usize| {
        let data = serde_json::json!({"result": {"text": ["x".repeat(length)]}});
        let data = data.as_object().unwrap().clone();
        let event = EventView { name: "tool.finished".to_owned(), session_id: session_id(1), data };
        NumberedEvent { number: 1, event }
    };
    assert_eq!(next_batch(&[long(1)]), BATCH);
    assert_eq!(next_batch(&[long(1), long(PORTION / 4)]), 3);
    assert_eq!(next_batch(&[long(PORTION * 2)]), 1);
}

#[test]
fn nobody_is_woken_for_events_that_nobody_hears() {
    let (news, mut woken) = mpsc::unbounded_channel();
    let (listeners, _) = broadcast::channel(1);
    let (store, stopping) = (Fixture::memory().store, CancellationToken::new());
    let (is_to_look, unheard) = (Arc::default(), Arc::default());
    let (passing, arrivals) = (PassingBytes::default(), Mutex::default());
    let feed = Feed { store, news, listeners, is_to_look, unheard, passing, arrivals, stopping };
    feed.ring(7);
    feed.ring(6);
    assert!(woken.try_recv().is_err());
    let _listener = feed.listeners.subscribe();
    feed.ring(8);
    assert!(matches!(woken.try_recv(), Ok(FeedUpdate::Stored { last: 8 })));
    assert_eq!(feed.unheard.load(Ordering::Acquire), 7);
}

/// Commits an event: its number.
async fn commit(store: &Arc<dyn Store>, name: &'static str) -> u64 {
    let write = move |tx: &mut dyn crate::store::Transaction| tx.append_event(&event(1, name), at(0));
    store.transact(About::Session(session_id(1)), write).await.unwrap().get()
}

#[tokio::test]
async fn what_is_on_disk_before_it_can_be_seen_is_told_to_whoever_came_back_meanwhile() {
    let fixture = Fixture::memory();
    let store = Arc::clone(&fixture.store);
    let feed = Feed::start(Arc::clone(&store), 0, CancellationToken::new());
    commit(&store, "first").await;
    // Of the second one nobody reads yet, as while somebody's transaction with a smaller number is open.
    feed.ring(2);
    let mut back = feed.subscribe(None, Some(0)).await.unwrap();
    let mut told = async || match back.events.recv().await {
        Some(FeedItem::Stored(event)) => event.number,
        other => panic!("{}", other.is_none()),
    };
    assert_eq!(told().await, 1);
    commit(&store, "second").await;
    feed.ring(commit(&store, "third").await);
    assert_eq!((told().await, told().await), (2, 3));
}

#[tokio::test]
async fn whoever_comes_back_from_a_store_that_was_here_before_hears_what_happens_from_now_on() {
    let fixture = Fixture::memory();
    let store = Arc::clone(&fixture.store);
    let feed = Feed::start(Arc::clone(&store), 0, CancellationToken::new());
    feed.ring(commit(&store, "first").await);
    let mut back = feed.subscribe(None, Some(1000)).await.unwrap();
    assert_eq!(back.after, 1, "where it comes back from the next time");
    feed.ring(commit(&store, "second").await);
    assert!(matches!(back.events.recv().await, Some(FeedItem::Stored(told)) if told.number == 2));
}

#[tokio::test]
async fn whoever_comes_back_is_not_told_that_a_claim_goes_on_which_is_over() {
    let fixture = Fixture::memory();
    let store = Arc::clone(&fixture.store);
    let feed = Feed::start(Arc::clone(&store), 0, CancellationToken::new());
    let claimed = custom(1, 1);
    assert!(claimed.claimed_by.is_some() && claimed.snoozed_by.is_some());
    let stored = store.transact(About::Session(session_id(1)), move |tx| {
        tx.insert_session(&session(1), &[])?;
        tx.insert_interrupt(&claimed)?;
        tx.append_event(&StoredEvent::triage(&claimed, Triage::Claimed), at(0))
    });
    feed.ring(stored.await.unwrap().get());
    let mut back = feed.subscribe(Some(session_id(1)), Some(0)).await.unwrap();
    let Some(FeedItem::Stored(told)) = back.events.recv().await else { panic!("nothing is told") };
    assert_eq!(told.event.name, "interrupt.claimed");
    let over = ["claimed_by", "claimed_until", "snoozed_by", "snoozed_until"];
    assert!(over.iter().all(|name| told.event.data.get(*name).is_none()), "{:?}", told.event.data);
}

#[tokio::test]
async fn whoever_comes_back_to_a_session_that_was_quiet_has_nothing_of_others_read_again() {
    let store = Fixture::memory().store;
    let first = commit(&store, "first").await;
    let of_another = store.transact(About::Session(session_id(2)), |tx| tx.append_event(&event(2, "more"), at(0)));
    let last = of_another.await.unwrap().get();
    let (news, mut updates) = mpsc::unbounded_channel();
    let (_live, live) = broadcast::channel(1);
    let (sender, _events) = mpsc::channel(WINDOW);
    let (passing, session) = (PassingBytes::default(), Some(session_id(1)));
    let subscriber = Subscriber { store, news, passing, session, cursor: first, live, has_missed: true, sender };
    tokio::spawn(subscriber.run());
    assert!(matches!(updates.recv().await, Some(FeedUpdate::Listens { cursor }) if cursor == last));
}
