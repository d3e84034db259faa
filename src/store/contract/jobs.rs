//! Transactions: all or nothing, one at a time, in order, and seen by whoever asks afterwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use futures_util::future::join_all;
use serde_json::json;

use super::fixture::*;
use crate::domain::Error;
use crate::domain::journal::{Ending, Entry, RecordedEntry};
use crate::domain::status::Status;
use crate::store::about::About;
use crate::store::carried::Carried;
use crate::store::{StoreExt, Transaction};

super::for_each_store!(
    a_job_that_fails_changes_nothing,
    a_job_that_panics_changes_nothing_and_the_store_goes_on,
    a_reading_job_that_panics_leaves_the_store_as_it_was,
    a_job_sees_what_it_has_written,
    a_caught_error_inside_a_job_keeps_the_rest,
    jobs_run_in_the_order_in_which_they_were_called,
    a_job_runs_even_if_its_future_is_dropped,
    a_read_sees_every_acknowledged_write,
    a_read_sees_one_moment,
    many_writers_lose_nothing,
    one_of_many_failing_jobs_takes_nobody_with_it,
    only_one_of_many_writers_gets_an_id,
    closing_finishes_what_was_taken,
    a_closed_store_says_so,
    dropping_a_store_does_not_hang,
);

/// Touches every table.
fn change_everything(transaction: &mut dyn Transaction) -> Result<(), Error> {
    transaction.insert_session(&session(2), &[message("new")])?;
    transaction.update_session(&session_in(1, Status::Error))?;
    transaction.set_messages(session_id(1), &[message("other")])?;
    transaction.insert_turn(&turn(session_id(1), 2))?;
    let epoch = transaction.claim_turn(turn_id(1), me(), 0)?;
    transaction.append(turn_id(1), epoch, &Entry::Cancel {}, at(0))?;
    transaction.end_turn(turn_id(1), at(5))?;
    transaction.insert_interrupt(&custom(1, 2))?;
    transaction.update_interrupt(&custom(1, 1))?;
    transaction.insert_reply("s", "k", &reply())?;
    transaction.insert_key(&key(2, "new"))?;
    transaction.revoke_key(key_id(1), at(1))?;
    transaction.insert_sign_in(&sign_in(2, 9))?;
    transaction.delete_sign_in(&[1; 32].into())?;
    transaction.append_event(&event(1, "b"), at(900))?;
    transaction.note_carried(turn_id(1), &Carried { left_at: None })?;
    transaction.delete_session(session_id(1))?;
    transaction.delete_session(session_id(2)).map(drop)
}

fn reply() -> crate::store::record::StoredReply {
    crate::store::record::StoredReply { request_digest: String::new(), body: json!(1), created_at: at(0) }
}

async fn store_something(it: &Fixture) {
    it.open_turn().await;
    it.write(|transaction| {
        transaction.set_messages(session_id(1), &[message("kept")])?;
        transaction.append_foreign(turn_id(1), &step("kept", json!(1)), at(0))?;
        transaction.insert_interrupt(&approval(1, 1, "rm"))?;
        transaction.insert_reply("s", "kept", &reply())?;
        transaction.insert_key(&key(1, "kept"))?;
        transaction.insert_sign_in(&sign_in(1, 0))?;
        transaction.append_event(&event(1, "a"), at(0)).map(drop)
    })
    .await;
}

async fn is_as_stored(it: &Fixture) {
    assert_eq!(it.orphans().await, [turn_id(1)]);
    it.read(|reader| {
        assert_eq!(reader.session(session_id(1))?, Some(session(1)));
        assert_eq!(reader.messages(session_id(1))?, vec![message("kept")]);
        assert_eq!(reader.count_sessions()?, 1);
        assert_eq!(reader.turn(turn_id(1))?, Some(turn(session_id(1), 1)));
        assert_eq!(reader.journal(turn_id(1))?, vec![recorded(step("kept", json!(1)))]);
        assert_eq!(reader.pending(session_id(1))?, vec![approval(1, 1, "rm")]);
        assert_eq!(reader.reply("s", "kept")?, Some(reply()));
        assert_eq!(reader.reply("s", "k")?, None);
        assert_eq!((reader.keys()?, reader.sign_ins()?), (vec![key(1, "kept")], vec![sign_in(1, 0)]));
        let events = reader.events_after(0, None, 10)?;
        assert_eq!(
            events.into_iter().map(|numbered| numbered.event).collect::<Vec<_>>(),
            vec![event(1, "a").view(None)]
        );
        Ok(())
    })
    .await;
}

async fn a_job_that_fails_changes_nothing(it: Fixture) {
    store_something(&it).await;
    let refused = it
        .refuse(|transaction| {
            change_everything(transaction)?;
            Err(Error::QueueFull)
        })
        .await;
    assert_eq!(refused, Error::QueueFull);
    is_as_stored(&it).await;
    it.write(change_everything).await;
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 0);
}

async fn a_job_that_panics_changes_nothing_and_the_store_goes_on(it: Fixture) {
    store_something(&it).await;
    let refused = it
        .refuse(|transaction| {
            change_everything(transaction)?;
            panic!("a bug in a job");
        })
        .await;
    assert_eq!(refused, Error::Internal("a store job panicked: a bug in a job".to_owned()));
    is_as_stored(&it).await;
}

async fn a_reading_job_that_panics_leaves_the_store_as_it_was(it: Fixture) {
    store_something(&it).await;
    for _ in 0..5 {
        let refused = it.store.query(|reader| -> Result<(), Error> { panic!("{:?}", reader.last_event()) }).await;
        assert!(matches!(refused, Err(Error::Internal(_))), "{refused:?}");
    }
    is_as_stored(&it).await;
}

async fn a_job_sees_what_it_has_written(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_session(&session(1), &[message("a")])?;
        assert_eq!(transaction.messages(session_id(1))?, vec![message("a")]);
        transaction.insert_turn(&turn(session_id(1), 1))?;
        transaction.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))?;
        assert_eq!(transaction.journal(turn_id(1))?, vec![recorded(Entry::Cancel {})]);
        transaction.delete_session(session_id(1))?;
        assert_eq!(transaction.turn(turn_id(1))?, None);
        Ok(())
    })
    .await;
}

async fn a_caught_error_inside_a_job_keeps_the_rest(it: Fixture) {
    it.write(|transaction| {
        transaction.insert_session(&session(1), &[])?;
        assert_eq!(transaction.insert_session(&session(1), &[]), Err(Error::SessionExists));
        transaction.insert_session(&session(2), &[])
    })
    .await;
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 2);
}

async fn jobs_run_in_the_order_in_which_they_were_called(it: Fixture) {
    it.open_turn().await;
    let writes: Vec<_> = (0..100)
        .map(|number| {
            it.store.transact(about(1), move |transaction| {
                transaction.append_foreign(turn_id(1), &step(&number.to_string(), json!(number)), at(0))
            })
        })
        .collect();
    // Awaited in the opposite order: what counts is the call.
    for (number, write) in writes.into_iter().enumerate().rev() {
        assert_eq!(write.await.unwrap(), number as u64);
    }
}

async fn a_job_runs_even_if_its_future_is_dropped(it: Fixture) {
    drop(it.store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])));
    // What is about the same session waits for it.
    it.store.transact(about(1), |_| Ok(())).await.unwrap();
    assert_eq!(it.read(|reader| reader.count_sessions()).await, 1);
}

async fn a_read_sees_every_acknowledged_write(it: Fixture) {
    it.open_turn().await;
    for number in 0..200 {
        it.write(|transaction| transaction.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))).await;
        assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await.len(), number + 1);
    }
}

async fn a_read_sees_one_moment(it: Fixture) {
    // Every write keeps the two counts alike; a read that saw half of one would find them different.
    it.open_turn().await;
    let writes = (0..100).map(|_| {
        it.store.transact(about(1), |transaction| {
            transaction.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))?;
            transaction.append_event(&event(1, "x"), at(0)).map(drop)
        })
    });
    let writes: Vec<_> = writes.collect();
    let reads = (0..100).map(|_| {
        it.store.query(|reader| {
            Ok((reader.journal(turn_id(1))?.len(), reader.events_after(0, Some(session_id(1)), 1000)?.len()))
        })
    });
    for (entries, events) in join_all(reads).await.into_iter().map(Result::unwrap) {
        assert_eq!(entries, events);
    }
    assert!(join_all(writes).await.into_iter().all(|outcome| outcome.is_ok()));
}

async fn many_writers_lose_nothing(it: Fixture) {
    it.open_turn().await;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let store = it.store.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let write = || {
                    store.transact(about(1), |transaction| {
                        transaction.append_event(&event(1, "x"), at(0))?;
                        transaction.append_foreign(turn_id(1), &Entry::Cancel {}, at(0))
                    })
                };
                runtime.block_on(async { join_all((0..50).map(|_| write())).await })
            })
        })
        .collect();
    let mut indexes: Vec<u64> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).map(Result::unwrap).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..400).collect::<Vec<_>>());
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await.len(), 400);
    assert_eq!(it.read(|reader| reader.events_after(0, None, 1000)).await.len(), 400);
}

async fn one_of_many_failing_jobs_takes_nobody_with_it(it: Fixture) {
    it.open_turn().await;
    let writes = (0..60).map(|number| {
        it.store.transact(about(1), move |transaction| {
            transaction.append_foreign(turn_id(1), &step("x", json!(number)), at(0))?;
            match number % 3 {
                0 => Ok(()),
                1 => Err(Error::QueueFull),
                _ => panic!("job {number}"),
            }
        })
    });
    let outcomes = join_all(writes.collect::<Vec<_>>()).await;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match number % 3 {
            0 => assert_eq!(outcome, Ok(())),
            1 => assert_eq!(outcome, Err(Error::QueueFull)),
            _ => assert!(matches!(outcome, Err(Error::Internal(_)))),
        }
    }
    let expected: Vec<RecordedEntry> = (0..60).step_by(3).map(|number| recorded(step("x", json!(number)))).collect();
    assert_eq!(it.read(|reader| reader.journal(turn_id(1))).await, expected);
}

async fn only_one_of_many_writers_gets_an_id(it: Fixture) {
    let writes =
        (0..20).map(|_| it.store.transact(about(1), |transaction| transaction.insert_session(&session(1), &[])));
    let outcomes = join_all(writes.collect::<Vec<_>>()).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Err(Error::SessionExists)).count(), 19);
}

async fn closing_finishes_what_was_taken(it: Fixture) {
    it.open_turn().await;
    let done = Arc::new(AtomicU64::new(0));
    let writes: Vec<_> = (1..=50)
        .map(|number| {
            let done = done.clone();
            it.store.transact(about(1), move |transaction| {
                transaction.append_foreign(turn_id(1), &Entry::End { ending: Ending::Done }, at(0))?;
                done.store(number, Ordering::SeqCst);
                Ok(())
            })
        })
        .collect();
    let read = it.store.query(|reader| reader.session(session_id(1)));
    it.store.close().await.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 50);
    assert!(join_all(writes).await.into_iter().all(|outcome| outcome.is_ok()));
    assert_eq!(read.await.unwrap(), Some(session(1)));
}

async fn a_closed_store_says_so(it: Fixture) {
    it.store.close().await.unwrap();
    let closed = Error::StoreUnavailable("the store is closed".to_owned());
    assert_eq!(it.refuse(|_| Ok(())).await, closed);
    assert_eq!(it.store.query(|reader| reader.last_event()).await, Err(closed));
    assert_eq!(it.store.close().await, Ok(()));
}

async fn dropping_a_store_does_not_hang(it: Fixture) {
    let (sender, receiver) = mpsc::channel();
    let write = it.store.write(About::Nothing, Box::new(move |_| sender.send(()).map_err(|_| Error::QueueFull)));
    // Of a shared store the runtime is the fixture's own: gone, it would take the job along.
    let lasts = it.drop_store();
    write.await.unwrap();
    receiver.recv().unwrap();
    drop(lasts);
}
