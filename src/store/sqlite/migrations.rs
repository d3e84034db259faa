//! The schema's history: numbered files, run in one transaction when a store is opened.

use rusqlite::Connection;

/// The oldest version that can be brought up to date. Version 1 is that of 0.1.0, whose journals cannot be replayed.
pub(super) const OLDEST: i64 = 2;
/// Every migration in order; the first one makes version [`OLDEST`], as its file name says.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0002_sessions.sql"),
    include_str!("migrations/0003_decisions.sql"),
    include_str!("migrations/0004_claims.sql"),
    include_str!("migrations/0005_audit.sql"),
    include_str!("migrations/0006_access.sql"),
    include_str!("migrations/0007_outbox.sql"),
    include_str!("migrations/0008_senders.sql"),
    include_str!("migrations/0009_store.sql"),
    include_str!("migrations/0010_failed_rules.sql"),
    include_str!("migrations/0011_abandoned.sql"),
    include_str!("migrations/0012_who_may.sql"),
    include_str!("migrations/0013_told.sql"),
    include_str!("migrations/0014_graphs.sql"),
    include_str!("migrations/0015_policy.sql"),
    include_str!("migrations/0016_hidden.sql"),
    include_str!("migrations/0017_claimed.sql"),
];

/// The version of the schema that this build writes.
pub(super) const NEWEST: i64 = OLDEST + MIGRATIONS.len() as i64 - 1;
/// Marks the file as ours ("hitl").
pub(super) const APPLICATION_ID: i64 = 0x6869_746c;

/// Brings the schema from `version` to the newest, or changes nothing.
pub(super) fn run(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for (number, migration) in (OLDEST..).zip(MIGRATIONS) {
        if number > version {
            transaction.execute_batch(migration)?;
        }
    }
    transaction.execute_batch(&format!(
        "PRAGMA user_version = {NEWEST};
         PRAGMA application_id = {APPLICATION_ID};"
    ))?;
    transaction.commit()
}
