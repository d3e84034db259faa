//! The schema, for those who make it themselves before any server comes: `hitl migrate`.

use super::PgAddress;
use super::connection::CallFailure;
use super::opening::{self, MIGRATIONS, NEWEST};
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::schema_state::SchemaState;

/// Whatever the defaults of the database and of its owner are: those of many are to read only.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Which schema there is at `address`. Nothing is changed.
///
/// # Errors
/// [`OpenError::Server`].
pub async fn schema(address: &PgAddress) -> Result<SchemaState, OpenError> {
    Ok(SchemaState { found: opening::find(address).await?, newest: NEWEST })
}

/// Makes the schema at `address` where there is none, brings an older one up to date, and lets `role` use it: what was there before.
///
/// # Errors
/// [`OpenError::Server`].
pub async fn migrate(address: &PgAddress, role: Option<&str>) -> Result<SchemaState, OpenError> {
    let found = opening::find(address).await?;
    if found.is_some_and(|found| found < NEWEST) {
        opening::upgrade(address).await?;
    }
    let mut connection = opening::open(address).await?;
    if let Some(role) = role {
        connection.script(&format!("{BEGIN};\n{}COMMIT", grants(role))).await.map_err(|failed| {
            let trouble = match failed {
                CallFailure::Refused(code, why) => ServerTrouble::Refused(format!("{why} ({})", code.code())),
                CallFailure::Unsendable(why) | CallFailure::Lost(why) => ServerTrouble::Unreachable(why),
            };
            OpenError::Server { address: address.to_string(), trouble }
        })?;
    }
    Ok(SchemaState { found, newest: NEWEST })
}

/// The statements that [`migrate`] runs where there is no schema, for whoever runs them in another way.
pub fn script(role: Option<&str>) -> String {
    let grants = role.map(grants).unwrap_or_default();
    format!("{BEGIN};\n{}{grants}COMMIT;\n", MIGRATIONS.concat())
}

/// What a server needs and no more: it makes no table, and what the audit tells it can add to and not change.
fn grants(role: &str) -> String {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    format!(
        "GRANT USAGE ON SCHEMA hitl TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA hitl TO {role};\n\
         GRANT SELECT ON ALL SEQUENCES IN SCHEMA hitl TO {role};\n\
         REVOKE UPDATE, DELETE, TRUNCATE ON hitl.deeds, hitl.audit_chain FROM {role};\n\
         REVOKE INSERT, DELETE, TRUNCATE ON hitl.meta FROM {role};\n"
    )
}
