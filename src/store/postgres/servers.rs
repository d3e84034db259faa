//! The rows of servers, over a connection of their own: no batch that is slow keeps a server from saying that it lives.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgAddress;
use super::asking::params;
use super::cells::PostgresCells;
use super::connection::{CallFailure, Connection, Frame, PATIENCE, SqlCall};
use super::horizon::{Horizon, InTheWay};
use super::pool::ConnectionPool;
use super::{opening, sql};
use crate::domain::Error;
use crate::store::BoxFuture;
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::rows::{self, Cells};
use crate::store::shared::options::OptionsDigests;
use crate::store::shared::servers::{
    OtherServer, Registered, RunningNow, ServerId, ServerKind, ServerRole, ServerRow, ServerRows,
};

/// How long whoever buries a server waits for what that one may have begun. The database ends it by then.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How soon it looks again where the database does not answer.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// See the module.
pub struct PostgresServers {
    beats: Arc<BeatConnection>,
    /// Whose connections read what somebody cannot wait for; without it, that is read over the one for beats.
    pool: Option<Arc<ConnectionPool>>,
}

struct BeatConnection {
    address: PgAddress,
    connection: Mutex<Option<Connection>>,
}

impl PostgresServers {
    /// Those of the database at `address`, which has the schema.
    pub fn new(address: PgAddress) -> Self {
        Self { beats: Arc::new(BeatConnection { address, connection: Mutex::default() }), pool: None }
    }

    /// The same, for a server that has a pool.
    pub(super) fn beside(address: PgAddress, pool: Arc<ConnectionPool>) -> Self {
        Self { pool: Some(pool), ..Self::new(address) }
    }
}

/// All who have the store at `address`, the first that came first. The database may be a standby.
///
/// # Errors
/// [`OpenError::Server`], also where it has no store.
pub async fn list(address: &PgAddress) -> Result<Vec<OtherServer>, OpenError> {
    opening::open_to_read(address).await?;
    let nobody = ServerId(Uuid::nil());
    PostgresServers::new(address.clone()).beats.others(nobody).await.map_err(|error| unreachable(address, &error))
}

/// Asks a server to end as by SIGTERM; whether it was there.
///
/// # Errors
/// [`OpenError::Server`].
pub async fn drain(address: &PgAddress, id: ServerId) -> Result<bool, OpenError> {
    opening::open_to_read(address).await?;
    let servers = PostgresServers::new(address.clone());
    let asked = servers.beats.run(Frame::Commit, vec![SqlCall::new(sql!("servers/drain"), params![id.0])]).await;
    let asked = asked.map_err(|error| unreachable(address, &error))?;
    Ok(asked.iter().any(|rows| !rows.is_empty()))
}

fn unreachable(address: &PgAddress, error: &Error) -> OpenError {
    OpenError::Server { address: address.to_string(), trouble: ServerTrouble::Unreachable(error.to_string()) }
}

impl BeatConnection {
    async fn connect(&self) -> Result<Connection, Error> {
        match timeout(PATIENCE, Connection::open(&self.address)).await {
            Ok(opened) => opened.map_err(|error| Error::from(CallFailure::of(&error))),
            Err(_) => Err(Error::StoreUnavailable("the database does not answer".to_owned())),
        }
    }

    /// Connects before there is something to be done.
    async fn open(&self) -> Result<(), Error> {
        *self.connection.lock().await = Some(self.connect().await?);
        Ok(())
    }

    /// Makes the calls in one transaction.
    async fn run(&self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, Error> {
        let mut place = self.connection.lock().await;
        // Whoever gives up waiting takes the connection along: what it was at is unknown.
        let mut connection = match place.take() {
            Some(connection) if !connection.is_over() => connection,
            _ => self.connect().await?,
        };
        let outcome = connection.run(frame, calls).await;
        *place = Some(connection);
        Ok(outcome?)
    }

    async fn register(&self, row: ServerRow) -> Result<Registered, Error> {
        let ServerRow { id, kind, host, pid, machine, process, role } = row;
        let ServerRole { agent, serves_http, workers, options, running } = role;
        let calls = vec![
            SqlCall::new(sql!("servers/lock"), vec![]),
            SqlCall::new(
                sql!("servers/register"),
                params![
                    id.0,
                    kind.as_str(),
                    host,
                    i64::from(pid),
                    machine,
                    process,
                    env!("CARGO_PKG_VERSION"),
                    agent,
                    serves_http,
                    rows::count(workers),
                    running.code,
                    options.map(|digests| digests.to_string()),
                    running.policy,
                ],
            ),
            SqlCall::new(sql!("servers/others"), params![id.0]),
        ];
        let replies = self.run(Frame::Commit, calls).await?;
        let rows = |index: usize| replies.get(index).map(Vec::as_slice).unwrap_or_default();
        if !rows(1).is_empty() {
            return Ok(Registered::Yes);
        }
        rows(2).iter().map(other).collect::<Result<_, _>>().map(Registered::Occupied)
    }

    async fn others(&self, id: ServerId) -> Result<Vec<OtherServer>, Error> {
        let replies = self.run(Frame::Snapshot, vec![others_of(id)]).await?;
        replies.iter().flatten().map(other).collect()
    }

    async fn bury(&self, id: ServerId, beat: u64) -> Result<bool, Error> {
        let call = SqlCall::new(sql!("servers/bury"), params![id.0, rows::integer(beat)]);
        let buried = self.run(Frame::Commit, vec![call]).await?;
        if buried.iter().all(Vec::is_empty) {
            return Ok(false);
        }
        // A transaction that found the row before it went may still commit.
        let until = Instant::now() + LAST_WORDS;
        let in_the_way = InTheWay::default();
        let mut horizon = Horizon::new(&in_the_way, LAST_WORDS);
        loop {
            let looked = self.run(Frame::Snapshot, vec![horizon.call()]).await;
            let waits = match looked {
                Ok(looked) => horizon.waits(looked.first().map(Vec::as_slice).unwrap_or_default(), true).await?,
                // Nobody says that it is over: then it is given all its time.
                Err(_) => {
                    sleep(LOOK_AGAIN).await;
                    Instant::now() < until
                }
            };
            if !waits {
                return Ok(true);
            }
        }
    }
}

impl ServerRows for PostgresServers {
    fn register(&self, row: ServerRow) -> BoxFuture<'static, Result<Registered, Error>> {
        let beats = Arc::clone(&self.beats);
        Box::pin(async move { beats.register(row).await })
    }

    fn others(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        let beats = Arc::clone(&self.beats);
        Box::pin(async move { beats.others(id).await })
    }

    fn look(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        let Some(pool) = self.pool.clone() else { return self.others(id) };
        Box::pin(async move {
            let replies = pool.run(Frame::Snapshot, vec![others_of(id)]).await?;
            replies.iter().flatten().map(other).collect()
        })
    }

    fn beat(
        &self,
        id: ServerId,
        at_work: u64,
        running: RunningNow,
        is_draining: bool,
    ) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        let beats = Arc::clone(&self.beats);
        Box::pin(async move {
            let params = params![id.0, rows::integer(at_work), is_draining, running.code, running.policy];
            let call = SqlCall::new(sql!("servers/beat"), params);
            let counted = beats.run(Frame::Beat, vec![call]).await?;
            counted.iter().flatten().next().map(|row| PostgresCells::new("servers", row).plain()).transpose()
        })
    }

    fn bury(&self, id: ServerId, beat: u64) -> BoxFuture<'static, Result<bool, Error>> {
        let beats = Arc::clone(&self.beats);
        Box::pin(async move {
            // A burial waits for the disk and for a standby, for longer than a beat may: on a connection of its own, as long
            // as there is one to be had.
            let apart = BeatConnection { address: beats.address.clone(), connection: Mutex::default() };
            match apart.open().await {
                Ok(()) => apart.bury(id, beat).await,
                Err(error) => {
                    tracing::debug!(%error, "a dead server is buried over the connection of beats");
                    beats.bury(id, beat).await
                }
            }
        })
    }

    fn leave(&self, id: ServerId) -> BoxFuture<'static, Result<(), Error>> {
        let beats = Arc::clone(&self.beats);
        Box::pin(async move {
            beats.run(Frame::Commit, vec![SqlCall::new(sql!("servers/leave"), params![id.0])]).await.map(drop)
        })
    }
}

fn others_of(id: ServerId) -> SqlCall {
    SqlCall::new(sql!("servers/others"), params![id.0])
}

fn other(row: &Row) -> Result<OtherServer, Error> {
    let mut cells = PostgresCells::new("servers", row);
    let (id, kind): (_, String) = (cells.uuid()?, cells.plain()?);
    let kind = ServerKind::parse(&kind).ok_or_else(|| cells.malformed(format!("unknown kind {kind:?}")))?;
    let (host, pid) = (cells.plain()?, cells.number()?);
    let (machine, process) = (cells.plain()?, cells.plain()?);
    let (version, agent, serves_http) = (cells.plain()?, cells.plain()?, cells.plain()?);
    let workers: u64 = cells.number()?;
    let workers = usize::try_from(workers).unwrap_or(usize::MAX);
    let (beat, silent): (u64, i64) = (cells.number()?, cells.plain()?);
    let (at_work, is_draining, started_at) = (cells.number()?, cells.plain()?, cells.plain()?);
    let (code, options, policy): (_, Option<String>, _) = (cells.plain()?, cells.plain()?, cells.plain()?);
    let options = options.as_deref().map(OptionsDigests::parse);
    let role = ServerRole { agent, serves_http, workers, options, running: RunningNow { code, policy } };
    let pid = u32::try_from(pid).unwrap_or_default();
    Ok(OtherServer {
        row: ServerRow { id: ServerId(id), kind, host, pid, machine, process, role },
        beat,
        silent_ms: u64::try_from(silent).unwrap_or_default(),
        version,
        at_work,
        is_draining,
        started_at,
    })
}
