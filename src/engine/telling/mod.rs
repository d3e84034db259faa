//! What others are told after a commit: pollers, listeners, webhooks, and whoever reads the figures.

pub(super) mod after_commit;
pub(super) mod bells;
pub(super) mod feed;
pub mod figures;
pub mod histogram;
pub mod metrics;
pub(super) mod outbox;
pub mod view;
