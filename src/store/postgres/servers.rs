//! The rows of servers, over a connection of their own: no batch that is slow keeps a server from saying that it lives.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;

use super::PgAddress;
use super::asking::params;
use super::cells::PostgresCells;
use super::connection::{CallFailure, Connection, Frame, PATIENCE, SqlCall};
use super::linking::Horizon;
use super::sql;
use crate::domain::Error;
use crate::store::BoxFuture;
use crate::store::rows::{self, Cells};
use crate::store::shared::servers::{OtherServer, Registered, ServerId, ServerKind, ServerRow, ServerRows};

/// How long whoever buries a server waits for what that one may have begun. The database ends it by then.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How soon it looks again where the database does not answer.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// See the module.
pub struct PostgresServers(Arc<BeatConnection>);

struct BeatConnection {
    address: PgAddress,
    connection: Mutex<Option<Connection>>,
}

impl PostgresServers {
    /// Those of the database at `address`, which has the schema.
    pub fn new(address: PgAddress) -> Self {
        Self(Arc::new(BeatConnection { address, connection: Mutex::default() }))
    }
}

impl BeatConnection {
    /// Makes the calls in one transaction.
    async fn run(&self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, Error> {
        let mut place = self.connection.lock().await;
        // Whoever gives up waiting takes the connection along: what it was at is unknown.
        let mut connection = match place.take() {
            Some(connection) if !connection.is_over() => connection,
            _ => match timeout(PATIENCE, Connection::open(&self.address)).await {
                Ok(opened) => opened.map_err(|error| Error::from(CallFailure::of(&error)))?,
                Err(_) => return Err(Error::StoreUnavailable("the database does not answer".to_owned())),
            },
        };
        let outcome = connection.run(frame, calls).await;
        *place = Some(connection);
        Ok(outcome?)
    }

    async fn register(&self, row: ServerRow) -> Result<Registered, Error> {
        let ServerRow { id, kind, host, pid, machine, process } = row;
        let calls = vec![
            SqlCall::new(sql!("servers/lock"), vec![]),
            SqlCall::new(
                sql!("servers/register"),
                params![id.0, kind.as_str(), host, i64::from(pid), machine, process],
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
        let replies = self.run(Frame::Snapshot, vec![SqlCall::new(sql!("servers/others"), params![id.0])]).await?;
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
        let mut horizon = Horizon::new(LAST_WORDS);
        loop {
            let looked = self.run(Frame::Snapshot, vec![SqlCall::new(sql!("servers/horizon"), vec![])]).await;
            let waits = match looked {
                Ok(looked) => horizon.waits(looked.first().map(Vec::as_slice).unwrap_or_default()).await?,
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
        let beats = Arc::clone(&self.0);
        Box::pin(async move { beats.register(row).await })
    }

    fn others(&self, id: ServerId) -> BoxFuture<'static, Result<Vec<OtherServer>, Error>> {
        let beats = Arc::clone(&self.0);
        Box::pin(async move { beats.others(id).await })
    }

    fn beat(&self, id: ServerId) -> BoxFuture<'static, Result<bool, Error>> {
        let beats = Arc::clone(&self.0);
        Box::pin(async move {
            let counted = beats.run(Frame::Beat, vec![SqlCall::new(sql!("servers/beat"), params![id.0])]).await?;
            Ok(counted.iter().any(|rows| !rows.is_empty()))
        })
    }

    fn bury(&self, id: ServerId, beat: u64) -> BoxFuture<'static, Result<bool, Error>> {
        let beats = Arc::clone(&self.0);
        Box::pin(async move { beats.bury(id, beat).await })
    }

    fn leave(&self, id: ServerId) -> BoxFuture<'static, Result<(), Error>> {
        let beats = Arc::clone(&self.0);
        Box::pin(async move {
            beats.run(Frame::Commit, vec![SqlCall::new(sql!("servers/leave"), params![id.0])]).await.map(drop)
        })
    }
}

fn other(row: &Row) -> Result<OtherServer, Error> {
    let mut cells = PostgresCells::new("servers", row);
    let (id, kind): (_, String) = (cells.uuid()?, cells.plain()?);
    let kind = ServerKind::parse(&kind).ok_or_else(|| cells.malformed(format!("unknown kind {kind:?}")))?;
    let (host, pid) = (cells.plain()?, cells.number()?);
    let (machine, process) = (cells.plain()?, cells.plain()?);
    let (beat, silent): (u64, i64) = (cells.number()?, cells.plain()?);
    Ok(OtherServer {
        row: ServerRow { id: ServerId(id), kind, host, pid: u32::try_from(pid).unwrap_or_default(), machine, process },
        beat,
        silent_ms: u64::try_from(silent).unwrap_or_default(),
    })
}
