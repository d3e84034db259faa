//! The rules of pausing, parking, recovery and retries, with workers that the tests play.

/// Makes a test for each store out of each of the functions, which take a [`Fixture`](crate::store::contract::fixture::Fixture).
macro_rules! for_each_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::store::contract::fixture::Fixture::memory()).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::store::contract::fixture::Fixture::sqlite()).await;
            })*
        }
    };
}
use for_each_store;

mod abandoned;
mod clocks;
mod commits;
mod compaction;
mod decisions;
mod due;
mod journal;
mod locks;
mod losses;
mod outages;
mod outbox;
mod parking;
mod polls;
mod prechecks;
mod races;
mod receiver;
mod reruns;
mod restarts;
mod retries;
mod scans;
mod spoiled;
mod stopping;
mod storm;
mod support;
mod sweeping;
mod waking;
