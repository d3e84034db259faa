//! What a pool counts. Whoever asks how many workers to start may ask at any moment at which the lock is free; so these
//! look at what was there each time it was taken.

#![allow(clippy::unwrap_used)]

use tokio::net::UnixStream;
use tokio::sync::watch;

use super::super::channel::Channel;
use super::super::spawner::Body;
use super::*;

const KEPT: usize = 2;

/// A worker with nothing behind it.
fn worker(shared: bool) -> Arc<Worker> {
    let (stream, _) = UnixStream::pair().unwrap();
    let (lives, exit) = watch::channel(None);
    Worker::over(0, shared, Channel::new(stream), Body::InProcess(lives), exit).0
}

/// How many workers are starting, ready and waited for, at each moment from `from` on.
fn seen_from(pool: &Pool, from: usize) -> Vec<[usize; 3]> {
    pool.state().seen.split_off(from)
}

#[tokio::test]
async fn a_worker_is_starting_or_ready_at_each_moment_and_never_both() {
    for shared in [true, false] {
        let pool = Pool::new(KEPT, shared);
        assert_eq!(pool.claim_starts(), KEPT);
        let from = pool.state().seen.len();
        pool.ready(&worker(shared));
        assert_eq!(seen_from(&pool, from), [[2, 0, 0], [1, 1, 0]], "shared: {shared}");
        assert_eq!(pool.claim_starts(), 0, "shared: {shared}");
    }
}

#[tokio::test]
async fn a_turn_waits_for_a_worker_until_one_is_ready_for_it() {
    let pool = Pool::new(KEPT, false);
    let Ok(LeaseRequest::Later(turn)) = pool.request() else { panic!("nothing was ready") };
    assert_eq!(pool.claim_starts(), KEPT + 1);
    let from = pool.state().seen.len();
    pool.ready(&worker(false));
    assert_eq!(seen_from(&pool, from), [[3, 0, 1], [2, 0, 0]]);
    assert_eq!(pool.claim_starts(), 0);
    assert!(turn.await.unwrap().worker().is_some());
}

#[tokio::test]
async fn every_turn_that_waits_for_a_shared_worker_gets_the_first_that_is_ready() {
    let pool = Pool::new(KEPT, true);
    let turns: Vec<_> = (0..3).map(|_| pool.request().unwrap()).collect();
    assert_eq!(pool.claim_starts(), KEPT);
    let from = pool.state().seen.len();
    pool.ready(&worker(true));
    assert_eq!(seen_from(&pool, from), [[2, 0, 3], [1, 1, 0]]);
    for turn in turns {
        assert!(pool.wait(turn).await.unwrap().worker().is_some());
    }
    assert_eq!(pool.claim_starts(), 0);
}
