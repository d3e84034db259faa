//! What every store has to do. Each test runs against each store; only what a store does beyond the trait is tested
//! next to it.

mod about;
mod access;
mod asked;
mod audit;
mod carried;
mod events;
pub(crate) mod fixture;
mod graphs;
mod identity;
mod interrupts;
mod jobs;
mod model;
pub(crate) mod outbox;
mod parking;
mod sessions;
mod turn_model;
mod turns;

/// Makes a test for each kind of store out of each of the functions, of this contract or of the engine, which take a
/// [`fixture::Fixture`].
macro_rules! for_each_store {
    ($($test:ident),* $(,)?) => {
        crate::store::contract::for_each_local_store!($($test),*);

        mod shared {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::store::contract::fixture::Fixture::shared()).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::store::contract::fixture::Fixture::postgres()).await;
            })*
        }
    };
}
pub(crate) use for_each_store;

/// The same, for the stores that a process has for itself.
macro_rules! for_each_local_store {
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
pub(crate) use for_each_local_store;
