//! The supervisor with real Python processes: `HITL_TEST_PYTHON`, or else the `python3` on the path, 3.11 or newer. The
//! package has to be built (`make setup`).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attaching;
mod bad_workers;
mod batches;
mod changed_code;
mod fake;
mod inbox;
mod lifetimes;
mod parking;
mod replays;
mod shared_workers;
mod silence;
mod starting;
mod support;
mod turns;
mod zombies;
