//! The schema's history: numbered files, run in one transaction when a store is opened.

use rusqlite::Connection;

/// Every migration in order; number `n` of the file name is at index `n - 1`.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_sessions.sql")];

/// The version of the schema that this build writes.
pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;
/// Marks the file as ours ("hitl").
pub(super) const APPLICATION_ID: i64 = 0x6869_746c;

/// Brings the schema from `version` to the newest, or changes nothing.
pub(super) fn run(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for (number, migration) in (1_i64..).zip(MIGRATIONS) {
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
