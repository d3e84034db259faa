//! A job on SQLite reads each row once, whatever it comes to.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::support::{World, asked, question, runtime, settings, step, waiting};
use crate::domain::Error;
use crate::store::about::About;
use crate::store::contract::fixture::Fixture;
use crate::store::sqlite::statements;
use crate::store::upkeep::Upkeep;
use crate::store::{BoxFuture, ReadJob, Store, WriteJob};

/// Notes the statements of each job that writes, in its last run.
struct Noting {
    store: Arc<dyn Store>,
    last: Arc<Mutex<Vec<String>>>,
}

impl Store for Noting {
    fn write(&self, about: About, job: WriteJob) -> BoxFuture<'static, Result<(), Error>> {
        let last = Arc::clone(&self.last);
        let noted = move |tx: &mut dyn crate::store::Transaction| {
            drop(statements::take());
            let outcome = job(tx);
            *last.lock().unwrap() = statements::take();
            outcome
        };
        self.store.write(about, Box::new(noted))
    }

    fn read(&self, job: ReadJob) -> BoxFuture<'static, Result<(), Error>> {
        self.store.read(job)
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self.store.upkeep()
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.store.close()
    }
}

#[tokio::test]
async fn each_job_of_a_pair_reads_each_row_once() {
    let fixture = Fixture::sqlite();
    let store = Arc::new(Noting { store: Arc::clone(&fixture.store), last: Arc::default() });
    let world = World::over(fixture, Arc::clone(&store) as _, settings(), runtime()).await;
    let ran = || std::mem::take(&mut *store.last.lock().unwrap()).join(", ");
    let session = world.session().await;
    world.send(session).await.unwrap();
    let order = world.order().await;
    assert_eq!(
        ran(),
        "sessions, INSERT turns, UPDATE sessions, INSERT events, UPDATE turns, INSERT journal, messages",
        "a message"
    );
    world.append(&order, vec![step("a")]).await.unwrap();
    assert_eq!(ran(), "turns, INSERT journal", "a step");
    world.append(&order, vec![step("b"), step("c")]).await.unwrap();
    assert_eq!(ran(), "turns, INSERT journal, INSERT journal", "two steps");
    let asking = vec![question(0, None), waiting(None, &[])];
    let interrupt = asked(world.append(&order, asking).await.unwrap())[0];
    assert_eq!(
        ran(),
        "sessions, turns, INSERT journal, INSERT interrupts, audit, INSERT audit, INSERT events, \
         UPDATE sessions, INSERT events, journal, INSERT journal",
        "a question, and the pause"
    );
    world.answer(session, interrupt, json!(1)).await.unwrap();
    world.delivery(order.turn).await;
    assert_eq!(
        ran(),
        // The second one is a look of builds for tests, whether it changes more than its outcome.
        "sessions, interrupts, interrupts, UPDATE interrupts, turns, INSERT journal, audit, INSERT audit, \
         INSERT events, UPDATE sessions, INSERT events",
        "an answer"
    );
    world.end(&order).await.unwrap();
    assert_eq!(
        ran(),
        "sessions, turns, INSERT journal, messages, INSERT messages, UPDATE sessions, INSERT events, UPDATE turns",
        "an end"
    );
}
