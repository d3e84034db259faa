//! Whether a Postgres can be a store, and the schema in it.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;

use super::address::PgAddress;
use super::connection::{CallFailure, Connection, Frame, SqlCall, described, refusal};
use super::sql;
use crate::store::open_error::{OpenError, ServerTrouble};

/// Every migration in order, numbered from 1 on.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_store.sql"),
    include_str!("migrations/0002_graphs.sql"),
    include_str!("migrations/0003_servers.sql"),
    include_str!("migrations/0004_policy.sql"),
    include_str!("migrations/0005_roles.sql"),
    include_str!("migrations/0006_codes.sql"),
    include_str!("migrations/0007_home.sql"),
    include_str!("migrations/0008_branch.sql"),
    include_str!("migrations/0009_hidden.sql"),
    include_str!("migrations/0010_claimed.sql"),
];
/// The version of the schema that this build reads and writes.
pub(super) const NEWEST: i32 = MIGRATIONS.len() as i32;
/// The oldest release of Postgres that is known to do, as it numbers them.
const OLDEST_SERVER: i32 = 150_000;

/// How often migrations are tried before whoever has the tables is said to be in the way, and how long after each time.
const MOST_TRIES: u32 = 30;
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// How long whoever starts waits for a database before it is said, and how long until it is said again.
const SAY: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// What `opening` comes to. Where it takes long, by a name that nobody looks up or a machine that does not reply, it is said what
/// is waited for.
pub(super) async fn told<T>(address: &PgAddress, opening: impl Future<Output = T>) -> T {
    let mut opening = pin!(opening);
    let mut waits = SAY[0];
    loop {
        match timeout(waits, &mut opening).await {
            Ok(opened) => return opened,
            Err(_) => tracing::warn!(%address, "the database has not answered yet; it is waited for"),
        }
        waits = SAY[1];
    }
}

/// Connects, and looks whether the server may be trusted with a store: what it says of itself may be another thing for the
/// next connection, once its settings have changed or another server has taken its place.
pub(super) async fn connect(address: &PgAddress) -> Result<(Connection, ServerState), OpenError> {
    let (connection, state) = look(address).await?;
    state.check().map_err(|trouble| OpenError::Server { address: address.to_string(), trouble })?;
    Ok((connection, state))
}

/// Connects, and asks the server what it is.
async fn look(address: &PgAddress) -> Result<(Connection, ServerState), OpenError> {
    let mut connection = Connection::open(address).await.map_err(|error| refused(address, &error))?;
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    let state = connection.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/state"), vec![])]).await;
    let state = state.map_err(|failed| failed_text(address, &failed))?;
    let state = ServerState::of(&state).ok_or_else(|| trouble(ServerTrouble::NotPostgres))?;
    Ok((connection, state))
}

/// Connects as [`connect`] does, and makes the schema where there is none.
pub(super) async fn open(address: &PgAddress) -> Result<Connection, OpenError> {
    let (mut connection, state) = connect(address).await?;
    if !state.has_schema {
        make(address, &mut connection, 0).await?;
    }
    check_schema(address, &mut connection).await?;
    let calls = vec![SqlCall::new(sql!("store/rebase"), vec![]), SqlCall::new(sql!("store/settle"), vec![])];
    let opened = connection.run(Frame::Commit, calls).await;
    opened.map_err(|failed| failed_text(address, &failed))?;
    Ok(connection)
}

/// Brings the schema that is there up to date; none is made. Who has the store meanwhile goes on: migrations only add.
pub(super) async fn upgrade(address: &PgAddress) -> Result<(), OpenError> {
    let (mut connection, _) = connect(address).await?;
    match version(address, &mut connection).await? {
        Some(found) if found < NEWEST => make(address, &mut connection, usize::try_from(found).unwrap_or(0)).await,
        _ => Ok(()),
    }
}

/// Connects for somebody who only reads: the database may be a standby, and nothing is made in it.
pub(super) async fn open_to_read(address: &PgAddress) -> Result<Connection, OpenError> {
    let (mut connection, state) = look(address).await?;
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    state.check_to_read().map_err(trouble)?;
    if !state.has_schema {
        return Err(trouble(ServerTrouble::NoSchema));
    }
    check_schema(address, &mut connection).await?;
    Ok(connection)
}

/// The version of the schema that is there, if any is.
pub(super) async fn find(address: &PgAddress) -> Result<Option<i32>, OpenError> {
    let (mut connection, state) = look(address).await?;
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    state.check_to_read().map_err(trouble)?;
    match state.has_schema {
        false => Ok(None),
        true => version(address, &mut connection).await?.map(Some).ok_or_else(|| trouble(ServerTrouble::ForeignSchema)),
    }
}

/// Whether the schema is the one that this build knows.
async fn check_schema(address: &PgAddress, connection: &mut Connection) -> Result<(), OpenError> {
    let trouble = |trouble| OpenError::Server { address: address.to_string(), trouble };
    match version(address, connection).await? {
        None => Err(trouble(ServerTrouble::ForeignSchema)),
        Some(found) if found > NEWEST => Err(trouble(ServerTrouble::Newer { found, known: NEWEST })),
        Some(found) if found < NEWEST => Err(trouble(ServerTrouble::Older { found, known: NEWEST })),
        Some(_) => Ok(()),
    }
}

/// The version of the schema `hitl`; `None` where it is another program's.
async fn version(address: &PgAddress, connection: &mut Connection) -> Result<Option<i32>, OpenError> {
    let found = connection.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/schema"), vec![])]).await;
    match found {
        Ok(rows) => Ok(rows.first().and_then(|rows| rows.first()).and_then(|row| row.try_get::<_, i32>(0).ok())),
        // The statement does not fit what is there, so that is nothing of ours.
        Err(CallFailure::Refused(code, _))
            if code.code().starts_with("42") && code != SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            Ok(None)
        }
        // It could not be looked at, as while somebody brings it up to date.
        Err(failed) => Err(failed_text(address, &failed)),
    }
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

    /// For somebody who only reads.
    fn check_to_read(&self) -> Result<(), ServerTrouble> {
        if self.version < OLDEST_SERVER {
            return Err(ServerTrouble::TooOld { found: self.version / 10_000, known: OLDEST_SERVER / 10_000 });
        }
        if self.encoding != "UTF8" {
            return Err(ServerTrouble::Encoding(self.encoding.clone()));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ServerTrouble> {
        self.check_to_read()?;
        if self.is_standby {
            return Err(ServerTrouble::Standby);
        }
        if self.fsync != "on" {
            return Err(ServerTrouble::NotDurable("fsync"));
        }
        if self.synchronous_commit == "off" {
            return Err(ServerTrouble::NotDurable("synchronous_commit"));
        }
        Ok(())
    }
}

/// Runs every migration after the first `done`, in one transaction, unless somebody else does so at this moment.
async fn make(address: &PgAddress, connection: &mut Connection, done: usize) -> Result<(), OpenError> {
    let migrations = MIGRATIONS.get(done..).unwrap_or_default().concat();
    // Who waits for a table keeps everybody from it who comes after, and keeps those it has already: servers would stand still
    // for as long as somebody reads. So it waits for moments only, and lets go of everything in between.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '500ms'";
    let script = format!("{begin};\n{migrations}\nCOMMIT");
    let mut tries = 0;
    let failed = loop {
        let Err(failed) = connection.script(&script).await else { return Ok(()) };
        // What failed may have left its transaction open.
        connection.script("ROLLBACK").await.map_err(|failed| failed_text(address, &failed))?;
        tries += 1;
        if tries == MOST_TRIES || !is_in_the_way(&failed) {
            break failed;
        }
        sleep(BETWEEN_TRIES).await;
    };
    let theirs =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_COLUMN];
    match failed {
        CallFailure::Refused(code, _) if theirs.contains(&code) => Ok(()),
        failed if is_in_the_way(&failed) => {
            Err(OpenError::Server { address: address.to_string(), trouble: ServerTrouble::Locked })
        }
        CallFailure::Refused(code, _) if code == SqlState::INSUFFICIENT_PRIVILEGE => {
            Err(OpenError::Server { address: address.to_string(), trouble: ServerTrouble::NoPermission })
        }
        failed => Err(failed_text(address, &failed)),
    }
}

/// Whether somebody else has what it waited for.
fn is_in_the_way(failed: &CallFailure) -> bool {
    matches!(failed, CallFailure::Refused(code, _) if *code == SqlState::LOCK_NOT_AVAILABLE)
}

/// Why there is no connection. The driver's errors name neither the user's password nor a parameter.
pub(super) fn refused(address: &PgAddress, error: &tokio_postgres::Error) -> OpenError {
    let wrong = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
    let trouble = match error.code() {
        Some(code) if wrong.contains(code) => ServerTrouble::WrongPassword,
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => ServerTrouble::NoDatabase,
        _ => ServerTrouble::Unreachable(described(error)),
    };
    OpenError::Server { address: address.to_string(), trouble }
}

pub(super) fn failed_text(address: &PgAddress, failed: &CallFailure) -> OpenError {
    let trouble = match failed {
        // One that is there, and says so itself.
        CallFailure::Refused(code, why) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            ServerTrouble::Refused(refusal(code, why))
        }
        CallFailure::Refused(code, why) => ServerTrouble::Unreachable(refusal(code, why)),
        CallFailure::Unsendable(why) | CallFailure::Lost(why) => ServerTrouble::Unreachable(why.clone()),
    };
    OpenError::Server { address: address.to_string(), trouble }
}
