//! Turns that are carried about.

use super::fixture::*;
use crate::domain::Error;
use crate::domain::run_state::JournalPosition;
use crate::store::StoreExt;
use crate::store::carried::Carried;

super::for_each_store!(
    what_is_known_of_a_turn_outlives_its_session,
    what_was_noted_last_is_known,
    what_was_noted_in_a_job_that_failed_is_not_known,
);

fn left_at(entries: usize) -> Carried {
    Carried { left_at: Some(JournalPosition { entries, digest: format!("sha256:{entries}") }) }
}

async fn what_is_known_of_a_turn_outlives_its_session(it: Fixture) {
    it.open_turn().await;
    assert_eq!(it.read(|reader| reader.carried(turn_id(1))).await, None);
    it.write(|tx| tx.note_carried(turn_id(1), &left_at(3))).await;
    assert!(it.write(|tx| tx.delete_session(session_id(1))).await);
    assert_eq!(it.read(|reader| reader.carried(turn_id(1))).await, Some(left_at(3)));
    assert_eq!(it.read(|reader| reader.carried(turn_id(2))).await, None);
}

async fn what_was_noted_last_is_known(it: Fixture) {
    for noted in [left_at(3), Carried { left_at: None }, left_at(0)] {
        let wanted = noted.clone();
        it.write(move |tx| tx.note_carried(turn_id(1), &noted)).await;
        assert_eq!(it.read(|reader| reader.carried(turn_id(1))).await, Some(wanted));
    }
}

async fn what_was_noted_in_a_job_that_failed_is_not_known(it: Fixture) {
    it.write(|tx| tx.note_carried(turn_id(1), &left_at(3))).await;
    let failed = it.store.transact(about(1), |tx| {
        tx.note_carried(turn_id(1), &Carried { left_at: None })?;
        tx.note_carried(turn_id(2), &left_at(1))?;
        Err::<(), _>(Error::SessionNotFound)
    });
    assert_eq!(failed.await, Err(Error::SessionNotFound));
    assert_eq!(it.read(|reader| reader.carried(turn_id(1))).await, Some(left_at(3)));
    assert_eq!(it.read(|reader| reader.carried(turn_id(2))).await, None);
}
