//! What looks at every row runs once at a time, whoever hangs up meanwhile.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::support::{World, runtime, settings};
use crate::domain::Error;
use crate::domain::audit::Action;
use crate::domain::search::Needle;
use crate::domain::status::InterruptStatus;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;
use crate::store::query::{AuditQuery, InterruptQuery};
use crate::store::upkeep::{LocalStore, Upkeep, UpkeepReadJob, UpkeepWriteJob};
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// Puts off what is read, once it is told to.
struct Slow {
    store: Arc<dyn LocalStore>,
    put_off: Mutex<Option<Vec<PutOff>>>,
}

/// Begins to read.
type Begin = Box<dyn FnOnce(&dyn LocalStore) -> BoxFuture<'static, Result<(), Error>> + Send>;

/// What is put off, and whoever waits for it.
type PutOff = (Begin, oneshot::Sender<Result<(), Error>>);

impl Slow {
    /// How many reads wait.
    fn waiting(&self) -> usize {
        self.put_off.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Runs what waits, and puts nothing off any more.
    async fn catch_up(&self) {
        let jobs = self.put_off.lock().unwrap().take().unwrap_or_default();
        for (begin, done) in jobs {
            let read = begin(self.store.as_ref()).await;
            assert!(read.is_ok(), "{read:?}");
            // Whoever waited may have hung up.
            drop(done.send(read));
        }
    }

    fn read_later(&self, begin: Begin) -> BoxFuture<'static, Result<(), Error>> {
        let (done, read) = oneshot::channel();
        match self.put_off.lock().unwrap().as_mut() {
            Some(jobs) => jobs.push((begin, done)),
            None => return begin(self.store.as_ref()),
        }
        Box::pin(async move { read.await.unwrap() })
    }
}

impl Store for Slow {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write(about, job)
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.read_later(Box::new(move |store| store.read(job)))
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

impl LocalStore for Slow {
    fn write_upkeep(&self, job: UpkeepWriteJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.write_upkeep(job)
    }

    fn read_upkeep(&self, job: UpkeepReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.read_later(Box::new(move |store| store.read_upkeep(job)))
    }
}

async fn world() -> (World, Arc<Slow>) {
    let fixture = Fixture::memory();
    let slow = Arc::new(Slow { store: fixture.local(), put_off: Mutex::default() });
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
async fn a_list_that_no_index_leads_to_is_a_search() {
    let (world, store) = world().await;
    let listed = |query: InterruptQuery| world.engine.interrupts(query);
    let (text, now) = (|| Some("x".to_owned()), world.engine.now());
    let session_id = Some(world.session().await);
    *store.put_off.lock().unwrap() = Some(Vec::new());
    let any = InterruptQuery::default;
    assert!(listed(InterruptQuery { agent: text(), ..any() }).now_or_never().is_none());
    for search in [
        InterruptQuery { agent: text(), ..any() },
        InterruptQuery { kind: text(), ..any() },
        InterruptQuery { created_after: Some(now), ..any() },
        InterruptQuery { status: Some(InterruptStatus::Cancelled), ..any() },
        InterruptQuery { agent: text(), status: Some(InterruptStatus::Pending), ..any() },
        InterruptQuery { agent: text(), tool: text(), ..any() },
    ] {
        assert!(listed(search).now_or_never().is_none());
        assert_eq!(store.waiting(), 1);
    }
    let audit = |query: AuditQuery| world.engine.audit(query);
    for search in [
        AuditQuery { action: Some(Action::Asked), ..AuditQuery::default() },
        AuditQuery { after: Some(now), ..AuditQuery::default() },
        AuditQuery { after: Some(now), actor: text(), ..AuditQuery::default() },
    ] {
        assert!(audit(search).now_or_never().is_none());
        assert_eq!(store.waiting(), 1);
    }
    // What an index leads to waits for no search.
    for narrow in [
        any(),
        InterruptQuery { status: Some(InterruptStatus::Pending), ..any() },
        InterruptQuery { tool: text(), ..any() },
        InterruptQuery { agent: text(), session_id, ..any() },
        InterruptQuery { agent: text(), claimed_by: Some(("ada".to_owned(), now)), ..any() },
    ] {
        let before = store.waiting();
        assert!(listed(narrow).now_or_never().is_none());
        assert_eq!(store.waiting(), before + 1);
    }
    for narrow in [
        AuditQuery { actor: text(), ..AuditQuery::default() },
        AuditQuery { session_id, action: Some(Action::Asked), ..AuditQuery::default() },
    ] {
        let before = store.waiting();
        assert!(audit(narrow).now_or_never().is_none());
        assert_eq!(store.waiting(), before + 1);
    }
    store.catch_up().await;
}

#[tokio::test]
async fn what_is_pending_is_counted_once_however_many_scrapes_give_up() {
    let (world, store) = world().await;
    *store.put_off.lock().unwrap() = Some(Vec::new());
    for _ in 0..3 {
        assert!(world.engine.telling.pending().now_or_never().is_none());
        assert_eq!(store.waiting(), 1);
    }
    store.catch_up().await;
    assert_eq!(world.engine.telling.pending().await.unwrap().name, "hitl_interrupts_pending");
}
