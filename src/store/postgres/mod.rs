//! A database that many servers share: PostgreSQL.
//!
//! Every change of a session compares the version and token of its row with those that were read, so that nobody has to
//! hold a lock: a commit is one batch of statements that goes out at once, and whoever reads gets one snapshot in one round
//! trip. No transaction of ours is open while a process thinks.

mod address;
pub mod adopting;
mod asking;
mod backend;
mod cells;
mod columns;
mod connection;
pub(in crate::store) mod copying;
mod doorbell;
mod folding;
mod graphs;
mod horizon;
mod linking;
mod lists;
pub mod migrating;
mod opening;
mod param;
mod pool;
pub mod servers;
mod store;
#[cfg(test)]
pub(in crate::store) mod tests;
mod upkeep;
mod writing;

pub use address::PgAddress;
pub use backend::PostgresBackend;
pub use pool::CONNECTIONS;
pub use store::{join, read_only};

/// The text of a statement, from its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}
use sql;
