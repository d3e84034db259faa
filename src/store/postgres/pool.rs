//! A few connections, each at one batch at a time.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Row;
use uuid::Uuid;

use super::address::PgAddress;
use super::asking::params;
use super::connection::{CallFailure, Connection, Frame, PATIENCE, SqlCall};
use super::{opening, sql};
use crate::domain::Error;
use crate::store::open_error::OpenError;
use crate::store::shared::servers::ServerId;

/// How many connections a server has at most.
pub const CONNECTIONS: usize = COMMITTING + READING + APART;
/// How many of them are for commits. Each is a process of the database; a batch takes one for a round
/// trip, so that a few serve thousands of batches a second.
pub(super) const COMMITTING: usize = 4;
/// How many are for what is read: however slow a list is, commits do not wait for it.
const READING: usize = 4;

/// How many are for keys, sign-ins and the policy, and for whether they have changed: what holds up all reading of turns does
/// not keep a key that was revoked good.
const APART: usize = 1;

/// How long a batch waits for a connection.
const QUEUED: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct ConnectionPool {
    address: PgAddress,
    /// Who commits; where that is said, nothing does whose row is gone.
    member: OnceLock<ServerId>,
    committing: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    apart: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl ConnectionPool {
    /// Beside `first`, which is there already, none is opened before it is needed.
    pub(super) fn new(address: PgAddress, first: Connection) -> Self {
        let [committing, reading, apart] =
            [COMMITTING, READING, APART].map(|connections| Arc::new(Semaphore::new(connections)));
        Self { address, member: OnceLock::new(), committing, reading, apart, idle: Mutex::new(vec![first]) }
    }

    /// Says for whom it commits from now on; once.
    pub(super) fn commits_for(&self, member: ServerId) {
        // A second one would be the same.
        self.member.get_or_init(|| member);
    }

    /// For whom it commits.
    pub(super) fn member(&self) -> Option<Uuid> {
        self.member.get().map(|member| member.0)
    }

    /// Makes calls in one transaction and one round trip. They are made also where nobody waits for the outcome any more.
    pub(super) async fn run(self: &Arc<Self>, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        match self.member.get().filter(|_| frame == Frame::Commit) {
            None => self.make(frame, calls).await,
            Some(member) => {
                let lives = SqlCall::new(sql!("servers/lives"), params![member.0]);
                let mut replies = self.make(frame, std::iter::once(lives).chain(calls).collect()).await?;
                drop(replies.remove(0));
                Ok(replies)
            }
        }
    }

    /// Makes a commit of calls that look themselves whether whoever commits is alive.
    pub(super) async fn run_guarded(self: &Arc<Self>, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        self.make(Frame::Commit, calls).await
    }

    /// Reads on the connection that is kept for that ([`APART`]).
    pub(super) async fn look_apart(self: &Arc<Self>, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        self.make_at(&self.apart, Frame::Snapshot, calls).await
    }

    async fn make(self: &Arc<Self>, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        self.make_at(self.places(frame), frame, calls).await
    }

    async fn make_at(
        self: &Arc<Self>,
        places: &Arc<Semaphore>,
        frame: Frame,
        calls: Vec<SqlCall>,
    ) -> Result<Vec<Vec<Row>>, CallFailure> {
        let (pool, place) = (Arc::clone(self), Self::place(places).await?);
        let made = tokio::spawn(async move {
            let mut connection = pool.connection(frame).await?;
            let outcome = connection.run(frame, calls).await;
            if !connection.is_over() {
                pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(place);
            outcome
        });
        made.await.unwrap_or_else(|_| Err(CallFailure::Lost("what made the calls has ended".to_owned())))
    }

    fn places(&self, frame: Frame) -> &Arc<Semaphore> {
        match frame {
            Frame::Commit | Frame::Beat => &self.committing,
            Frame::Snapshot => &self.reading,
        }
    }

    /// How many batches could begin at once.
    #[cfg(test)]
    pub(super) fn free(&self, frame: Frame) -> usize {
        self.places(frame).available_permits()
    }

    async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, CallFailure> {
        match timeout(QUEUED, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(CallFailure::Lost("the store is closed".to_owned())),
            Err(_) => Err(CallFailure::Lost("every connection is busy".to_owned())),
        }
    }

    /// One for such transactions.
    async fn connection(&self, frame: Frame) -> Result<Connection, CallFailure> {
        let mut connection = match self.idle(frame) {
            Some(idle) => idle,
            None => self.new_connection().await?,
        };
        match timeout(PATIENCE, connection.keep_for(frame)).await {
            Ok(kept) => kept.map(|()| connection),
            Err(_) => Err(CallFailure::Lost(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    /// The one that was used last of those that are idle and still there.
    fn idle(&self, frame: Frame) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| !connection.is_over());
        let last = idle.iter().rposition(|connection| connection.serves(frame))?;
        Some(idle.remove(last))
    }

    async fn new_connection(&self) -> Result<Connection, CallFailure> {
        match timeout(PATIENCE, opening::connect(&self.address)).await {
            Ok(Ok((connection, _))) => Ok(connection),
            Ok(Err(OpenError::Server { trouble, .. })) => Err(CallFailure::Lost(trouble.to_string())),
            Ok(Err(refused)) => Err(CallFailure::Lost(refused.to_string())),
            Err(_) => Err(CallFailure::Lost(format!("no connection within {} s", PATIENCE.as_secs()))),
        }
    }

    /// Takes no more calls, and waits for those that were taken.
    pub(super) async fn close(&self) -> Result<(), Error> {
        for (places, all) in [(&self.committing, COMMITTING), (&self.reading, READING), (&self.apart, APART)] {
            // A second one finds it closed.
            let over = places.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
            places.close();
            drop(over);
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}
