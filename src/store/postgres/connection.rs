//! One connection: statements that go out together, and what comes back.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select, try_join_all};
use futures_util::join;
use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::address::PgAddress;
use super::param::Param;
use crate::domain::Error;

/// How long a batch may take. What has not been answered by then has an outcome that nobody knows.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How many statements a connection keeps prepared. Those of lists have a form for each combination of filters.
const MOST_PREPARED: usize = 512;

/// Each statement that is prepared is planned once, not for its parameters each time: the database takes arrays of one row for
/// cheaper than those of which it knows nothing, and would plan much of what a commit writes anew for ever. Such a plan stays
/// until the table is analysed, and one that was made while the table was small must not look at all of it until then. What
/// has no index counts as very dear thereby, which is no reason to compile it.
pub(super) const PLANNED_ONCE: &str =
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";
/// The limits of every transaction of a connection; see [`Frame::begin`].
const LIMITED: &str = "SET lock_timeout = 2000; SET idle_in_transaction_session_timeout = 4500";

/// A statement with its parameters.
pub(super) struct SqlCall {
    sql: String,
    params: Vec<Param>,
}

impl SqlCall {
    pub(super) fn new(sql: impl Into<String>, params: Vec<Param>) -> Self {
        Self { sql: sql.into(), params }
    }

    /// Its text.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    pub(super) fn into_params(self) -> Vec<Param> {
        self.params
    }
}

/// In which transaction calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// One snapshot for all of them.
    Snapshot,
    /// All or nothing.
    Commit,
    /// A commit of which nothing is lost but the word that somebody lives: it waits for no disk.
    Beat,
}

impl Frame {
    /// Whatever the server's own defaults are. What is cut off in the middle is over for the database before it is for anybody
    /// who waits for its rows; nobody waits for a lock, nor reads, longer than whoever asked for it does. A commit that has what
    /// it needs is given its time. Behind a pooler these limits are the transaction's own, each time.
    fn begin(self, is_pooled: bool) -> &'static str {
        match (self, is_pooled) {
            (Self::Snapshot, false) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 4500"
            }
            (Self::Commit, false) => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            (Self::Snapshot, true) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 4500; \
                 SET LOCAL idle_in_transaction_session_timeout = 4500"
            }
            (Self::Commit, true) => {
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 2000; \
                 SET LOCAL idle_in_transaction_session_timeout = 4500"
            }
            (Self::Beat, _) => {
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = 1000; \
                 SET LOCAL synchronous_commit = off; SET LOCAL idle_in_transaction_session_timeout = 4500"
            }
        }
    }

    /// Of which kind a connection is that is kept for it.
    fn kept(self) -> Self {
        match self {
            Self::Snapshot => Self::Snapshot,
            Self::Commit | Self::Beat => Self::Commit,
        }
    }

    /// What makes each statement of a connection a transaction like those of [`Frame::begin`], without one around it.
    fn settings(self) -> &'static str {
        match self.kept() {
            Self::Snapshot => {
                "SET default_transaction_isolation = 'repeatable read'; SET default_transaction_read_only = on; \
                 SET statement_timeout = 4500"
            }
            Self::Commit | Self::Beat => {
                "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off"
            }
        }
    }
}

/// Why calls came to nothing.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The database refused one of them: nothing has changed.
    Refused(SqlState, String),
    /// One of them could not be sent: nothing has changed.
    Unsendable(String),
    /// The connection is gone, or too slow: nobody knows.
    Lost(String),
}

impl CallFailure {
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
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

    /// Whether it is for that the server is dead, by its row, that nothing has changed.
    fn is_fenced(&self) -> bool {
        matches!(self, Self::Refused(code, _) if *code == SqlState::INVALID_ARGUMENT_FOR_LOG)
    }

    /// Whether another connection may do better.
    fn ends_connection(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Unsendable(_) => false,
            // The server goes down or over to another one, where this session may not write; or it does not know, or not as
            // they are now, the statements that were prepared.
            Self::Refused(code, _) => {
                ["57P", "25006", "26", "0A000", "08", "XX"].iter().any(|class| code.code().starts_with(class))
            }
        }
    }
}

impl From<CallFailure> for Error {
    fn from(failed: CallFailure) -> Self {
        match failed {
            fenced if fenced.is_fenced() => {
                Self::StoreUnavailable("another server has taken the place of this one".to_owned())
            }
            // What does not fit into a row or an index will not the next time.
            CallFailure::Refused(code, why) if code.code().starts_with("22") || code.code().starts_with("54") => {
                Self::Internal(format!("the database cannot store it: {why}"))
            }
            CallFailure::Refused(code, why) => {
                Self::StoreUnavailable(format!("the database refused: {}", refusal(&code, &why)))
            }
            CallFailure::Unsendable(why) => Self::Internal(format!("the database cannot store it: {why}")),
            CallFailure::Lost(why) => Self::StoreUnavailable(format!("the database cannot be reached: {why}")),
        }
    }
}

/// What the database says of what it refuses, and what is to be done where the address is to blame.
pub(super) fn refusal(code: &SqlState, why: &str) -> String {
    let hint = match *code {
        SqlState::DUPLICATE_PSTATEMENT | SqlState::INVALID_SQL_STATEMENT_NAME => {
            "; where a pooler lends connections for a transaction, add pooler=transaction to the address"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "; give the role its rights: hitl migrate --grants ROLE, as the owner and after each upgrade"
        }
        _ => "",
    };
    format!("{why} ({}){hint}", code.code())
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
    address: PgAddress,
    prepared: HashMap<String, Statement>,
    /// See [`Connection::keep_for`].
    kept_for: Option<Frame>,
    is_over: bool,
}

impl Connection {
    /// Connects, within the patience of a batch.
    pub(super) async fn open(address: &PgAddress) -> Result<Self, tokio_postgres::Error> {
        let client = address.connect().await?;
        if !address.is_pooled() {
            client.batch_execute(&format!("{PLANNED_ONCE}; {LIMITED}")).await?;
        }
        Ok(Self { client, address: address.clone(), prepared: HashMap::new(), kept_for: None, is_over: false })
    }

    /// Whether it is kept for no other kind of transaction than `frame`.
    pub(super) fn serves(&self, frame: Frame) -> bool {
        self.kept_for.is_none_or(|kept| kept == frame.kept())
    }

    /// Keeps it for transactions like `frame` from now on: then a commit, or a look, of one statement goes without `BEGIN` and
    /// `COMMIT`. A pooler's connections are everybody's, and stay as they are.
    pub(super) async fn keep_for(&mut self, frame: Frame) -> Result<(), CallFailure> {
        if self.kept_for.is_none() && !self.address.is_pooled() {
            self.script(frame.settings()).await?;
            self.kept_for = Some(frame.kept());
        }
        Ok(())
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
    /// awaited, so that whoever stops waiting leaves no transaction half sent. It is over once the database is ready for the
    /// next one: a statement that is complete may still fail where it is committed.
    pub(super) async fn run(&mut self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        self.run_until(sleep(PATIENCE), frame, calls).await
    }

    /// As [`Self::run`], with patience until something happens.
    pub(super) async fn run_until(
        &mut self,
        over: impl Future<Output = ()>,
        frame: Frame,
        calls: Vec<SqlCall>,
    ) -> Result<Vec<Vec<Row>>, CallFailure> {
        let answered = match select(pin!(self.exchange(frame, calls)), pin!(over)).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        };
        let outcome = answered.unwrap_or_else(|| {
            // A database does not look whether anybody still listens while it reads. A commit is left to its end: one that
            // waits for another server to have it too would count at once, on this server alone, if it were cancelled.
            if frame == Frame::Snapshot {
                self.address.cancel(self.client.cancel_token());
            }
            Err(CallFailure::Lost(format!("no answer within {} s", PATIENCE.as_secs())))
        });
        if let Err(failed) = &outcome {
            self.is_over |= failed.ends_connection();
        }
        outcome
    }

    async fn exchange(&mut self, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        let is_pooled = self.address.is_pooled();
        if !is_pooled {
            self.prepare(frame, &calls).await?;
        }
        let (client, prepared) = (&self.client, &self.prepared);
        // The connection's settings are the frame's: a statement is a transaction by itself.
        let is_alone = calls.len() == 1 && self.kept_for == Some(frame);
        let mut replies: Vec<Reply<'_>> = Vec::with_capacity(calls.len() + 2);
        if !is_alone {
            replies.push(Reply::Waiting(Box::pin(simple(client, frame.begin(is_pooled)))));
        }
        for call in &calls {
            if is_pooled {
                replies.push(Reply::Waiting(Box::pin(query_unprepared(client, call))));
                continue;
            }
            let unprepared = || CallFailure::Unsendable("a statement was not prepared".to_owned());
            let statement = prepared.get(&call.sql).ok_or_else(unprepared)?;
            replies.push(Reply::Waiting(Box::pin(query(client, statement, &call.params))));
        }
        // One that cannot be sent says so at once, and the others are sent all the same: without it they must not count.
        send(&mut replies).await;
        let unsent = replies.iter().find_map(Reply::unsent);
        if !is_alone {
            let end = if unsent.is_none() { "COMMIT" } else { "ROLLBACK" };
            replies.push(Reply::Waiting(Box::pin(simple(client, end))));
        }
        let replies = all(replies).await;
        if let Some(unsent) = unsent {
            return Err(CallFailure::Unsendable(unsent));
        }
        // The first that failed is the cause: what comes after it only says that the transaction has failed. A COMMIT
        // that rolls such a transaction back says that it is fine.
        let mut rows = Vec::with_capacity(replies.len());
        for reply in replies {
            rows.push(reply.map_err(|error| CallFailure::of(&error))?);
        }
        if !is_alone {
            rows.pop();
            rows.remove(0);
        }
        Ok(rows)
    }

    /// Prepares what is not yet, all of it in one round trip, and in a transaction: a database reads a table's definition for
    /// it, which somebody may have locked.
    async fn prepare(&mut self, frame: Frame, calls: &[SqlCall]) -> Result<(), CallFailure> {
        if self.prepared.len() > MOST_PREPARED {
            // Those that are needed are soon there again.
            self.prepared.clear();
        }
        let mut missing: Vec<&str> = calls.iter().map(|call| call.sql.as_str()).collect();
        missing.retain(|sql| !self.prepared.contains_key(*sql));
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let client = &self.client;
        let preparing = missing.iter().map(|sql| client.prepare(sql));
        // Each is sent when it is looked at first, in this order.
        let (begun, statements, ended) =
            join!(simple(client, frame.begin(false)), try_join_all(preparing), simple(client, "COMMIT"));
        let statements = begun.and(statements).and_then(|statements| ended.map(|_| statements));
        let statements = statements.map_err(|error| CallFailure::of(&error))?;
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

async fn query(client: &Client, statement: &Statement, params: &[Param]) -> Replied {
    // So that whatever is prepared in a test could be sent without.
    debug_assert_eq!(statement.params(), params.iter().map(|param| param.sql_type()).collect::<Vec<_>>());
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param.value()).collect();
    client.query(statement, &params).await
}

/// As [`query`], of a statement that leaves nothing behind in its connection.
async fn query_unprepared(client: &Client, call: &SqlCall) -> Replied {
    let params: Vec<(&(dyn ToSql + Sync), Type)> =
        call.params.iter().map(|param| (param.value(), param.sql_type())).collect();
    client.query_typed(&call.sql, &params).await
}

impl Reply<'_> {
    /// Why it was not sent, where the connection is not to blame, and the database has not seen it.
    fn unsent(&self) -> Option<String> {
        match self {
            Self::There(Some(Err(error))) if !error.is_closed() && error.as_db_error().is_none() => {
                Some(described(error))
            }
            _ => None,
        }
    }

    /// Whether it is there.
    fn look(&mut self, context: &mut Context<'_>) -> bool {
        if let Self::Waiting(waiting) = self {
            match waiting.as_mut().poll(context) {
                Poll::Ready(replied) => *self = Self::There(Some(replied)),
                Poll::Pending => return false,
            }
        }
        true
    }
}

/// Sends all of them, in order: that is what looking for a reply does the first time.
async fn send(replies: &mut [Reply<'_>]) {
    std::future::poll_fn(|context| {
        for reply in &mut *replies {
            reply.look(context);
        }
        Poll::Ready(())
    })
    .await;
}

/// All replies, in order.
async fn all(mut replies: Vec<Reply<'_>>) -> Vec<Replied> {
    std::future::poll_fn(|context| {
        // Each is looked at, also where one before it is not there: that sends it.
        let waiting = replies.iter_mut().filter_map(|reply| (!reply.look(context)).then_some(())).count();
        if waiting > 0 { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let there = |reply| match reply {
        Reply::There(replied) => replied,
        Reply::Waiting(_) => None,
    };
    replies.into_iter().filter_map(there).collect()
}
