//! What becomes of commits whose replies are lost, while others go on.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::domain::Error;
use crate::domain::audit::{Action, Deed};
use crate::store::StoreExt;
use crate::store::clock::{Clock, WallClock};
use crate::store::contract::fixture::{about, at, session, session_id};
use crate::store::shared::{SharedStore, StoreAccess};
use crate::store::simulated::SimulatedDatabase;
use crate::store::simulated::network::{SimulatedConnection, Weather};

/// Seeds of the weather.
const SEEDS: u64 = 100;

fn store<B: crate::store::shared::backend::Backend>(backend: B) -> Arc<SharedStore<B>> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    Arc::new(SharedStore::new(backend, StoreAccess::Alone, clock, Handle::current()))
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_is_not_made_again_by_who_never_heard_that_it_was_made() {
    let weather = Weather { lost: 10, unanswered: 70, slow_ms: 10, ..Weather::default() };
    let mut unknown = 0;
    for seed in 0..SEEDS {
        let database = SimulatedDatabase::new(Arc::new(WallClock));
        let far = store(SimulatedConnection::new(database.clone(), weather, seed));
        let near = store(database);
        let making =
            tokio::spawn(async move { far.transact(about(1), |tx| tx.insert_session(&session(1), &[])).await });
        let is_there = || near.query(|reader| Ok(reader.session(session_id(1))?.is_some()));
        while !making.is_finished() && !is_there().await.unwrap() {
            sleep(Duration::from_millis(1)).await;
        }
        let deleted = near.transact(about(1), |tx| {
            tx.append_audit(Deed::new(Action::SessionDeleted).session(session_id(1)), at(5))?;
            tx.delete_session(session_id(1))
        });
        let is_deleted = deleted.await.unwrap();
        let made = making.await.unwrap();
        assert!(!is_there().await.unwrap(), "seed {seed}: it is there again");
        assert!(made.is_ok() || matches!(made, Err(Error::StoreUnavailable(_))), "seed {seed}: {made:?}");
        unknown += u64::from(is_deleted && made.is_err());
    }
    assert!(unknown > 0, "no reply was lost");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_making_was_lost_on_the_way_is_made_also_where_one_of_its_id_was_deleted_before() {
    let weather = Weather { lost: 30, ..Weather::default() };
    let mut made = 0;
    for seed in 0..SEEDS {
        let database = SimulatedDatabase::new(Arc::new(WallClock));
        let far = store(SimulatedConnection::new(database.clone(), weather, seed));
        let near = store(database);
        let before = near
            .transact(about(1), |tx| tx.append_audit(Deed::new(Action::SessionDeleted).session(session_id(1)), at(0)));
        before.await.unwrap();
        let mut again = session(1);
        again.created_at = at(1_000);
        let making = far.transact(about(1), move |tx| tx.insert_session(&again, &[])).await;
        let is_there = near.query(|reader| Ok(reader.session(session_id(1))?.is_some())).await.unwrap();
        assert_eq!(making.is_ok(), is_there, "seed {seed}: {making:?}");
        made += u64::from(is_there);
    }
    assert!(made > SEEDS / 2, "{made} of {SEEDS} were made");
}
