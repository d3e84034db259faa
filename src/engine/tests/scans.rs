//! What looks at every row runs once at a time, whoever hangs up meanwhile.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;

use super::support::{World, runtime, settings};
use crate::domain::Error;
use crate::domain::search::Needle;
use crate::store::contract::fixture::Fixture;
use crate::store::query::InterruptQuery;
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// Puts off what is read, once it is told to.
struct Slow {
    store: Arc<dyn Store>,
    put_off: Mutex<Option<Vec<ReadJob>>>,
}

impl Slow {
    /// How many reads wait.
    fn waiting(&self) -> usize {
        self.put_off.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Runs what waits, and puts nothing off any more.
    async fn catch_up(&self) {
        let jobs = self.put_off.lock().unwrap().take().unwrap_or_default();
        for job in jobs {
            self.store.read(job).await.unwrap();
        }
    }
}

impl Store for Slow {
    fn write(&self, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write(job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        match self.put_off.lock().unwrap().as_mut() {
            Some(jobs) => jobs.push(job),
            None => return self.store.read(job),
        }
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

async fn world() -> (World, Arc<Slow>) {
    let fixture = Fixture::memory();
    let slow = Arc::new(Slow { store: Arc::clone(&fixture.store), put_off: Mutex::default() });
    (World::over(fixture, Arc::clone(&slow) as _, settings(), runtime()).await, slow)
}

#[tokio::test]
async fn a_search_goes_on_alone_when_its_client_has_hung_up() {
    let (world, store) = world().await;
    let says = Some(Needle::new("it"));
    let search = || world.engine.interrupts(InterruptQuery { says: says.clone(), ..InterruptQuery::default() });
    *store.put_off.lock().unwrap() = Some(Vec::new());
    for _ in 0..3 {
        assert!(search().now_or_never().is_none());
        assert_eq!(store.waiting(), 1);
    }
    store.catch_up().await;
    assert!(search().await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_is_pending_is_counted_once_however_many_scrapes_give_up() {
    let (world, store) = world().await;
    *store.put_off.lock().unwrap() = Some(Vec::new());
    for _ in 0..3 {
        assert!(world.engine.write_pending(&mut String::new()).now_or_never().is_none());
        assert_eq!(store.waiting(), 1);
    }
    store.catch_up().await;
    let mut text = String::new();
    world.engine.write_pending(&mut text).await.unwrap();
    assert!(text.contains("hitl_interrupts_pending"), "{text}");
}
