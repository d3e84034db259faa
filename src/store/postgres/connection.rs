//! One connection: statements that go out together, and what comes back.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::address::PgAddress;
use crate::domain::Error;

/// How long a batch may take. What has not been answered by then has an outcome that nobody knows.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How many statements a connection keeps prepared. Those of lists have a form for each combination of filters.
const MOST_PREPARED: usize = 512;

/// A parameter of a statement.
pub(super) type Param = Box<dyn ToSql + Sync + Send>;

/// A statement with its parameters.
pub(super) struct SqlCall {
    sql: String,
    params: Vec<Param>,
}

impl SqlCall {
    pub(super) fn new(sql: impl Into<String>, params: Vec<Param>) -> Self {
        Self { sql: sql.into(), params }
    }
}

/// In which transaction calls are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// One snapshot for all of them.
    Snapshot,
    /// All or nothing.
    Commit,
}

impl Frame {
    /// Whatever the server's own defaults are.
    fn begin(self) -> &'static str {
        match self {
            Self::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Self::Commit => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        }
    }
}

/// Why calls came to nothing.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The database refused one of them: nothing has changed.
    Refused(SqlState, String),
    /// The connection is gone, or too slow: nobody knows.
    Lost(String),
}

impl CallFailure {
    fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => Self::Refused(refused.code().clone(), refused.message().to_owned()),
            // Never more than the kind of error and what the system says: no parameter is in it.
            None => Self::Lost(described(error)),
        }
    }

    /// Whether somebody was first.
    pub(super) fn is_moved(&self) -> bool {
        let moved = [
            SqlState::DIVISION_BY_ZERO,
            SqlState::UNIQUE_VIOLATION,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ];
        matches!(self, Self::Refused(code, _) if moved.contains(code))
    }

    /// Whether another connection may do better.
    fn ends_connection(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            // The server goes down or over to another one, where this session may not write.
            Self::Refused(code, _) => code.code().starts_with("57P") || code.code().starts_with("25006"),
        }
    }
}

impl From<CallFailure> for Error {
    fn from(failed: CallFailure) -> Self {
        match failed {
            // What does not fit into a row or an index will not the next time.
            CallFailure::Refused(code, why) if code.code().starts_with("22") || code.code().starts_with("54") => {
                Self::Internal(format!("the database cannot store it: {why}"))
            }
            CallFailure::Refused(code, why) => {
                Self::StoreUnavailable(format!("the database refused: {why} ({})", code.code()))
            }
            CallFailure::Lost(why) => Self::StoreUnavailable(format!("the database cannot be reached: {why}")),
        }
    }
}

/// What an error says, with what it is about.
pub(super) fn described(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// A connection with the statements that it has prepared.
pub(super) struct Connection {
    client: Client,
    prepared: HashMap<String, Statement>,
    is_over: bool,
}

impl Connection {
    /// Connects, within the patience of a batch.
    pub(super) async fn open(address: &PgAddress) -> Result<Self, tokio_postgres::Error> {
        let client = address.connect().await?;
        Ok(Self { client, prepared: HashMap::new(), is_over: false })
    }

    /// Whether nothing more is to be expected of it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over || self.client.is_closed()
    }

    /// Runs statements that nobody prepares, such as those of a migration.
    pub(super) async fn script(&mut self, sql: &str) -> Result<(), CallFailure> {
        self.client.batch_execute(sql).await.map_err(|error| CallFailure::of(&error))
    }

    /// Makes all calls in one transaction and one round trip: the rows of each. All of it is queued before anything is
    /// awaited, so that whoever stops waiting leaves no transaction half sent.
    pub(super) async fn run(&mut self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        let deadline = Instant::now() + PATIENCE;
        let outcome = match timeout_at(deadline, self.exchange(frame, calls)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(CallFailure::Lost(format!("no answer within {} s", PATIENCE.as_secs()))),
        };
        if let Err(failed) = &outcome {
            self.is_over |= failed.ends_connection();
        }
        outcome
    }

    async fn exchange(&mut self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        self.prepare(&calls).await?;
        let (client, prepared) = (&self.client, &self.prepared);
        // A statement by itself is a transaction already, of one snapshot.
        let is_framed = calls.len() > 1;
        let mut replies: Vec<Reply<'_>> = Vec::with_capacity(calls.len() + 2);
        if is_framed {
            replies.push(Reply::Waiting(Box::pin(simple(client, frame.begin()))));
        }
        for call in &calls {
            replies.push(Reply::Waiting(Box::pin(query(client, prepared.get(&call.sql), &call.params))));
        }
        if is_framed {
            replies.push(Reply::Waiting(Box::pin(simple(client, "COMMIT"))));
        }
        let replies = all(replies).await;
        // The first that failed is the cause: what comes after it only says that the transaction has failed. A COMMIT
        // that rolls such a transaction back says that it is fine.
        let mut rows = Vec::with_capacity(replies.len());
        for reply in replies {
            rows.push(reply.map_err(|error| CallFailure::of(&error))?);
        }
        if is_framed {
            rows.pop();
            rows.remove(0);
        }
        Ok(rows)
    }

    /// Prepares what is not yet, all of it in one round trip.
    async fn prepare(&mut self, calls: &[SqlCall]) -> Result<(), CallFailure> {
        if self.prepared.len() > MOST_PREPARED {
            // Those that are needed are soon there again.
            self.prepared.clear();
        }
        let mut missing: Vec<&str> = calls.iter().map(|call| call.sql.as_str()).collect();
        missing.retain(|sql| !self.prepared.contains_key(*sql));
        missing.sort_unstable();
        missing.dedup();
        let client = &self.client;
        let preparing = missing.iter().map(|sql| client.prepare(sql));
        let statements =
            futures_util::future::try_join_all(preparing).await.map_err(|error| CallFailure::of(&error))?;
        let known: Vec<(String, Statement)> = missing.into_iter().map(str::to_owned).zip(statements).collect();
        self.prepared.extend(known);
        Ok(())
    }
}

type Replied = Result<Vec<Row>, tokio_postgres::Error>;

enum Reply<'a> {
    Waiting(Pin<Box<dyn Future<Output = Replied> + Send + 'a>>),
    There(Option<Replied>),
}

async fn simple(client: &Client, sql: &str) -> Replied {
    client.batch_execute(sql).await.map(|()| Vec::new())
}

async fn query(client: &Client, statement: Option<&Statement>, params: &[Param]) -> Replied {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    match statement {
        Some(statement) => client.query(statement, &params).await,
        // Every call was prepared.
        None => Ok(Vec::new()),
    }
}

/// All replies, in order. Each is polled once, in order, before any is waited for: that sends them.
async fn all(mut replies: Vec<Reply<'_>>) -> Vec<Replied> {
    std::future::poll_fn(|context| {
        let mut is_waiting = false;
        for reply in &mut replies {
            if let Reply::Waiting(waiting) = reply {
                match waiting.as_mut().poll(context) {
                    Poll::Ready(replied) => *reply = Reply::There(Some(replied)),
                    Poll::Pending => is_waiting = true,
                }
            }
        }
        if is_waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let there = |reply| match reply {
        Reply::There(replied) => replied,
        Reply::Waiting(_) => None,
    };
    replies.into_iter().filter_map(there).collect()
}
