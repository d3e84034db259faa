//! What changes sessions and their turns, each in one transaction, and what is read of them.

pub mod answers;
pub(super) mod append;
pub mod audit;
pub(super) mod due;
pub mod giving_up;
pub(super) mod grants;
pub mod health;
pub mod interrupt_claims;
pub mod messages;
pub(super) mod outage;
pub(super) mod parking;
pub(super) mod prechecks;
pub(super) mod records;
pub(super) mod recovery;
pub mod retry;
pub mod runs;
pub mod sessions;
pub(super) mod sweeper;
pub mod timeline;
pub mod transfers;
pub(super) mod turn_claims;
pub mod turns;
pub(super) mod unreadable;
