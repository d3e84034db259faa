//! Whether a Postgres can be a store, and the schema in it.

use tokio_postgres::error::SqlState;

use super::address::PgAddress;
use super::connection::{CallFailure, Connection, Frame, SqlCall, described};
use super::sql;
use crate::store::open_error::{OpenError, ServerTrouble};

/// Every migration in order, numbered from 1 on.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_store.sql")];
/// The version of the schema that this build reads and writes.
pub(super) const NEWEST: i32 = MIGRATIONS.len() as i32;
/// The oldest release of Postgres that is known to do, as it numbers them.
const OLDEST_SERVER: i32 = 150_000;

/// Connects, and looks whether the server may be trusted with a store: what it says of itself may be another thing for the
/// next connection, once its settings have changed or another server has taken its place.
pub(super) async fn connect(address: &PgAddress) -> Result<(Connection, ServerState), OpenError> {
    let mut connection = Connection::open(address).await.map_err(|error| refused(address, &error))?;
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    let state = connection.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/state"), vec![])]).await;
    let state = state.map_err(|failed| trouble(ServerTrouble::Unreachable(text(&failed))))?;
    let state = ServerState::of(&state).ok_or_else(|| trouble(ServerTrouble::NotPostgres))?;
    state.check().map_err(trouble)?;
    Ok((connection, state))
}

/// Connects as [`connect`] does, and makes the schema where there is none.
pub(super) async fn open(address: &PgAddress) -> Result<Connection, OpenError> {
    let (mut connection, state) = connect(address).await?;
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    let failed = |failed: CallFailure| trouble(ServerTrouble::Unreachable(text(&failed)));
    if !state.has_schema {
        make(&mut connection).await.map_err(|failed| match failed {
            CallFailure::Refused(code, _) if code == SqlState::INSUFFICIENT_PRIVILEGE => {
                trouble(ServerTrouble::NoPermission)
            }
            other => failed_text(address, &other),
        })?;
    }
    let found = connection.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/schema"), vec![])]).await;
    let found = match found {
        Ok(rows) => rows.first().and_then(|rows| rows.first()).and_then(|row| row.try_get::<_, i32>(0).ok()),
        // Nothing of ours is there, or it may not be looked at.
        Err(CallFailure::Refused(code, _)) if code == SqlState::INSUFFICIENT_PRIVILEGE => {
            return Err(trouble(ServerTrouble::NoPermission));
        }
        Err(CallFailure::Refused(..)) => None,
        Err(lost) => return Err(failed(lost)),
    };
    match found {
        None => return Err(trouble(ServerTrouble::ForeignSchema)),
        Some(found) if found > NEWEST => return Err(trouble(ServerTrouble::Newer { found, known: NEWEST })),
        Some(found) if found < NEWEST => return Err(trouble(ServerTrouble::Older { found, known: NEWEST })),
        Some(_) => {}
    }
    connection.run(Frame::Commit, vec![SqlCall::new(sql!("store/rebase"), vec![])]).await.map_err(failed)?;
    Ok(connection)
}

/// What a server says of itself.
pub(super) struct ServerState {
    version: i32,
    is_standby: bool,
    fsync: String,
    encoding: String,
    synchronous_commit: String,
    has_schema: bool,
}

impl ServerState {
    fn of(rows: &[Vec<tokio_postgres::Row>]) -> Option<Self> {
        let row = rows.first()?.first()?;
        Some(Self {
            version: row.try_get(0).ok()?,
            is_standby: row.try_get(1).ok()?,
            fsync: row.try_get(2).ok()?,
            encoding: row.try_get(3).ok()?,
            synchronous_commit: row.try_get(4).ok()?,
            has_schema: row.try_get(5).ok()?,
        })
    }

    fn check(&self) -> Result<(), ServerTrouble> {
        if self.version < OLDEST_SERVER {
            return Err(ServerTrouble::TooOld { found: self.version / 10_000, known: OLDEST_SERVER / 10_000 });
        }
        if self.is_standby {
            return Err(ServerTrouble::Standby);
        }
        if self.fsync != "on" {
            return Err(ServerTrouble::NotDurable("fsync"));
        }
        if self.synchronous_commit == "off" {
            return Err(ServerTrouble::NotDurable("synchronous_commit"));
        }
        if self.encoding != "UTF8" {
            return Err(ServerTrouble::Encoding(self.encoding.clone()));
        }
        Ok(())
    }
}

/// Makes the schema, unless somebody else does so at this moment.
async fn make(connection: &mut Connection) -> Result<(), CallFailure> {
    for migration in MIGRATIONS {
        let script = format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;\n{migration}\nCOMMIT");
        if let Err(failed) = connection.script(&script).await {
            // What failed may have left its transaction open.
            connection.script("ROLLBACK").await?;
            let theirs = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE];
            return match failed {
                CallFailure::Refused(code, _) if theirs.contains(&code) => Ok(()),
                failed => Err(failed),
            };
        }
    }
    Ok(())
}

/// Why there is no connection. The driver's errors name neither the user's password nor a parameter.
fn refused(address: &PgAddress, error: &tokio_postgres::Error) -> OpenError {
    let wrong = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
    let trouble = match error.code() {
        Some(code) if wrong.contains(code) => ServerTrouble::WrongPassword,
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => ServerTrouble::NoDatabase,
        _ => ServerTrouble::Unreachable(described(error)),
    };
    OpenError::Server { address: address.to_string(), trouble }
}

fn failed_text(address: &PgAddress, failed: &CallFailure) -> OpenError {
    OpenError::Server { address: address.to_string(), trouble: ServerTrouble::Unreachable(text(failed)) }
}

fn text(failed: &CallFailure) -> String {
    match failed {
        CallFailure::Refused(code, why) => format!("{why} ({})", code.code()),
        CallFailure::Unsendable(why) | CallFailure::Lost(why) => why.clone(),
    }
}
