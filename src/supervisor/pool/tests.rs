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

/// A pool that keeps one shared worker, and that one.
fn with_one() -> (Arc<Pool>, Arc<Worker>) {
    let (pool, kept) = (Pool::keeping(1, true, true), worker(true));
    assert_eq!(pool.claim_starts(), 1);
    pool.ready(&kept);
    (pool, kept)
}

/// A place of a turn that is to run alone.
fn alone(pool: &Arc<Pool>) -> LeaseRequest {
    pool.request(true).unwrap()
}

/// How many are for all turns, and how many for such as run alone.
fn workers(pool: &Pool) -> (usize, usize) {
    let state = pool.state();
    (state.ready.len(), state.alone.len())
}

fn has(lease: &Lease, worker: &Arc<Worker>) -> bool {
    lease.worker().is_some_and(|its| Arc::ptr_eq(its, worker))
}

/// How many workers are starting, ready and waited for, at each moment from `from` on.
fn seen_from(pool: &Pool, from: usize) -> Vec<[usize; 3]> {
    pool.state().seen.split_off(from)
}

#[tokio::test]
async fn a_worker_is_starting_or_ready_at_each_moment_and_never_both() {
    for shared in [true, false] {
        let pool = Pool::keeping(KEPT, shared, true);
        assert_eq!(pool.claim_starts(), KEPT);
        let from = pool.state().seen.len();
        pool.ready(&worker(shared));
        assert_eq!(seen_from(&pool, from), [[2, 0, 0], [1, 1, 0]], "shared: {shared}");
        assert_eq!(pool.claim_starts(), 0, "shared: {shared}");
    }
}

#[tokio::test]
async fn a_turn_waits_for_a_worker_until_one_is_ready_for_it() {
    let pool = Pool::keeping(KEPT, false, true);
    let Ok(LeaseRequest::Later(turn)) = pool.request(false) else { panic!("nothing was ready") };
    assert_eq!(pool.claim_starts(), KEPT + 1);
    let from = pool.state().seen.len();
    pool.ready(&worker(false));
    assert_eq!(seen_from(&pool, from), [[3, 0, 1], [2, 0, 0]]);
    assert_eq!(pool.claim_starts(), 0);
    assert!(turn.await.unwrap().worker().is_some());
}

#[tokio::test]
async fn every_turn_that_waits_for_a_shared_worker_gets_the_first_that_is_ready() {
    let pool = Pool::keeping(KEPT, true, true);
    let turns: Vec<_> = (0..3).map(|_| pool.request(false).unwrap()).collect();
    assert_eq!(pool.claim_starts(), KEPT);
    let from = pool.state().seen.len();
    pool.ready(&worker(true));
    assert_eq!(seen_from(&pool, from), [[2, 0, 3], [1, 1, 0]]);
    for turn in turns {
        assert!(pool.wait(turn).await.unwrap().worker().is_some());
    }
    assert_eq!(pool.claim_starts(), 0);
}

#[tokio::test]
async fn a_turn_that_runs_alone_has_a_worker_to_itself_that_nobody_gets_after_it() {
    let (pool, kept) = with_one();
    let turn = alone(&pool);
    assert_eq!(pool.claim_starts(), 1);
    let own = worker(true);
    pool.ready(&own);
    let lease = pool.wait(turn).await.unwrap();
    assert!(has(&lease, &own));
    for _ in 0..2 {
        let Ok(LeaseRequest::Now(beside)) = pool.request(false) else { panic!("none was ready") };
        assert!(has(&beside, &kept));
    }
    assert_eq!(pool.claim_starts(), 0);
    drop(lease);
    assert_eq!(workers(&pool), (1, 0));
    assert!(matches!(alone(&pool), LeaseRequest::Later(_)));
}

#[tokio::test]
async fn where_each_worker_imports_the_agent_there_are_no_more_alone_than_are_kept() {
    let pool = Pool::keeping(1, true, false);
    assert_eq!(pool.claim_starts(), 1);
    pool.ready(&worker(true));
    let _turns: Vec<_> = (0..3).map(|_| alone(&pool)).collect();
    assert_eq!(pool.claim_starts(), 1);
}

#[tokio::test]
async fn a_turn_that_was_to_run_alone_runs_beside_others_where_no_more_workers_can_be_started() {
    let (pool, kept) = with_one();
    let turn = alone(&pool);
    for _ in 0..HOPELESS {
        assert_eq!(pool.claim_starts(), 1);
        pool.not_started();
    }
    let lease = pool.wait(turn).await.unwrap();
    assert!(has(&lease, &kept));
    assert!(!pool.is_hopeless());
    // It is tried again for the next one, which waits no longer than for one more failure.
    let next = alone(&pool);
    assert_eq!(pool.claim_starts(), 1);
    pool.not_started();
    assert!(has(&pool.wait(next).await.unwrap(), &kept));
}

#[tokio::test]
async fn more_turns_than_there_may_be_workers_for_share_those_with_each_other() {
    let (pool, kept) = with_one();
    let turns: Vec<_> = (0..MOST_ALONE + 2).map(|_| alone(&pool)).collect();
    assert_eq!(pool.claim_starts(), MOST_ALONE);
    let started: Vec<_> = (0..MOST_ALONE).map(|_| worker(true)).collect();
    started.iter().for_each(|worker| pool.ready(worker));
    let mut leases = Vec::new();
    for turn in turns {
        leases.push(pool.wait(turn).await.unwrap());
    }
    let LeaseRequest::Now(another) = alone(&pool) else { panic!("none was ready") };
    leases.push(another);
    let loads: Vec<usize> = started.iter().map(|worker| worker.load.load(Ordering::Relaxed)).collect();
    assert_eq!((loads.iter().sum::<usize>(), loads.iter().max()), (MOST_ALONE + 3, Some(&2)));
    assert_eq!((kept.load.load(Ordering::Relaxed), pool.claim_starts()), (0, 0));
    // Where one has ended, the next turn has one to itself again.
    pool.gone(&started[0]);
    let _next = alone(&pool);
    assert_eq!(pool.claim_starts(), 1);
}

#[tokio::test]
async fn a_worker_whose_turn_has_gone_meanwhile_is_kept_only_where_one_is_missing() {
    let (pool, kept) = with_one();
    drop({
        let turn = alone(&pool);
        assert_eq!(pool.claim_starts(), 1);
        turn
    });
    assert_eq!(pool.claim_starts(), 0);
    pool.ready(&worker(true));
    let Ok(LeaseRequest::Now(lease)) = pool.request(false) else { panic!("none was ready") };
    assert!(has(&lease, &kept));
    assert_eq!(workers(&pool), (1, 0));
}

#[tokio::test]
async fn who_waits_for_a_shared_worker_gets_one_before_who_is_to_run_alone() {
    let pool = Pool::keeping(1, true, true);
    let (_one, other) = (alone(&pool), pool.request(false).unwrap());
    assert_eq!(pool.claim_starts(), 2);
    let first = worker(true);
    pool.ready(&first);
    assert!(has(&pool.wait(other).await.unwrap(), &first));
    assert_eq!(workers(&pool), (1, 0));
}

#[tokio::test]
async fn a_pool_is_hopeless_while_starts_fail_in_a_row_and_nothing_is_ready() {
    for shared in [true, false] {
        let pool = Pool::keeping(1, shared, true);
        let fail = |times: u32| {
            for _ in 0..times {
                assert_eq!(pool.claim_starts(), 1, "shared: {shared}");
                pool.not_started();
            }
        };
        fail(HOPELESS - 1);
        assert!(!pool.is_hopeless(), "one more is tried");
        fail(1);
        assert!(pool.is_hopeless());
        let one = worker(shared);
        assert_eq!(pool.claim_starts(), 1);
        pool.ready(&one);
        assert!(!pool.is_hopeless());
        // It is only replaced.
        pool.gone(&one);
        fail(HOPELESS - 1);
        assert!(!pool.is_hopeless());
    }
}

#[tokio::test]
async fn a_pool_with_a_worker_that_takes_turns_is_not_hopeless_whatever_becomes_of_the_others() {
    let (pool, kept) = with_one();
    for _ in 0..HOPELESS {
        let _turn = alone(&pool);
        assert_eq!(pool.claim_starts(), 1);
        pool.not_started();
    }
    assert!(!pool.is_hopeless());
    pool.gone(&kept);
    assert!(pool.is_hopeless());
}
