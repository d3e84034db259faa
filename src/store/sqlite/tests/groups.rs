//! What is undone of jobs that share a commit, and which of them run again for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::domain::Error;
use crate::faults;
use crate::store::about::About;
use crate::store::contract::fixture::*;
use crate::store::sqlite::lock::Access;
use crate::store::sqlite::writer::Limits;
use crate::store::{StoreExt, Transaction};

type Job = fn(&mut dyn Transaction) -> Result<(), Error>;

fn writes(tx: &mut dyn Transaction) -> Result<(), Error> {
    tx.append_event(&event(1, "kept"), at(0)).map(drop)
}

fn writes_and_is_refused(tx: &mut dyn Transaction) -> Result<(), Error> {
    tx.append_event(&event(1, "undone"), at(0))?;
    Err(Error::QueueFull)
}

fn writes_and_panics(tx: &mut dyn Transaction) -> Result<(), Error> {
    tx.append_event(&event(1, "undone"), at(0))?;
    panic!("a bug in a job")
}

/// What it wrote is gone by then, and it is told so.
fn catches_what_is_refused(tx: &mut dyn Transaction) -> Result<(), Error> {
    assert_eq!(tx.insert_session(&session(1), &[]), Err(Error::SessionExists));
    writes(tx)
}

fn is_refused(_: &mut dyn Transaction) -> Result<(), Error> {
    Err(Error::QueueFull)
}

/// Runs jobs in one commit: how often each ran, whether it was taken, and how many events there are after it.
async fn together<const JOBS: usize>(jobs: [Job; JOBS]) -> ([usize; JOBS], [bool; JOBS], usize) {
    let (_directory, path) = place();
    let limits = Limits { time: Duration::from_secs(3600), quick: Duration::from_secs(3600), ..Limits::default() };
    let store = Arc::new(SqliteStore::open_with(&path, Access::Server, limits).unwrap());
    store.transact(about(1), |tx| tx.insert_session(&session(1), &[])).await.unwrap();
    let runs: Arc<[AtomicUsize; JOBS]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    let (asked, counted, put) = (Arc::clone(&store), Arc::clone(&runs), Arc::new(Mutex::new(None)));
    let waited_for = Arc::clone(&put);
    // They are asked for while one is at work, and so are taken in by it.
    let first = store.transact(About::Nothing, move |_| {
        let mut put = put.lock().unwrap();
        if put.is_none() {
            let ask = |(place, job): (usize, Job)| {
                let runs = Arc::clone(&counted);
                asked.transact(about(1), move |tx| {
                    runs[place].fetch_add(1, Ordering::Relaxed);
                    job(tx)
                })
            };
            *put = Some(jobs.into_iter().enumerate().map(ask).collect::<Vec<_>>());
        }
        Ok(())
    });
    first.await.unwrap();
    let mut is_taken = Vec::new();
    let asked = waited_for.lock().unwrap().take().unwrap();
    for outcome in asked {
        is_taken.push(outcome.await.is_ok());
    }
    let events = store.query(|reader| Ok(reader.events_after(0, None, 100)?.len())).await.unwrap();
    let runs = runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect::<Vec<_>>();
    (runs.try_into().unwrap(), is_taken.try_into().unwrap(), events)
}

#[tokio::test]
async fn jobs_that_are_taken_run_once() {
    let (runs, is_taken, events) = together([writes, catches_what_is_refused, writes]).await;
    assert_eq!((is_taken, events), ([true, true, true], 3));
    assert!(faults::refuses_once() || runs == [1, 1, 1], "{runs:?}");
}

#[tokio::test]
async fn a_refused_job_that_has_written_nothing_makes_nobody_run_again() {
    let (runs, is_taken, events) = together([writes, is_refused, writes]).await;
    assert_eq!((is_taken, events), ([true, false, true], 2));
    assert!(faults::refuses_once() || runs == [1, 1, 1], "{runs:?}");
}

#[tokio::test]
async fn where_a_refused_job_has_written_those_before_it_run_again_and_nothing_of_it_stays() {
    for refused in [writes_and_is_refused, writes_and_panics] {
        let (runs, is_taken, events) = together([writes, is_refused, refused, writes]).await;
        assert_eq!((is_taken, events), ([true, false, false, true], 2));
        assert!(faults::refuses_once() || runs == [2, 2, 1, 1], "{runs:?}");
    }
}

#[tokio::test]
async fn in_one_commit_they_run_again_once_at_most() {
    let (runs, is_taken, events) =
        together([writes, writes_and_is_refused, writes, writes_and_is_refused, writes]).await;
    assert_eq!((is_taken, events), ([true, false, true, false, true], 3));
    assert!(faults::refuses_once() || runs == [2, 1, 1, 1, 1], "{runs:?}");
}
