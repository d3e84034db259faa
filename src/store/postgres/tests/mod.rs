//! A real Postgres, started by `tools/postgres.py` with the Python of `HITL_TEST_PYTHON`: each test has a database of its own.

mod address;
mod answers;
mod audit;
mod commits;
mod connections;
mod copying;
mod deadlocks;
mod folding;
mod grouping;
mod horizon;
mod members;
mod plans;
mod routing;
pub(in crate::store) mod support;
mod upkeep;
