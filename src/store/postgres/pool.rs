//! A few connections, each at one batch at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_postgres::Row;

use super::address::PgAddress;
use super::connection::{CallFailure, Connection, Frame, PATIENCE, SqlCall, described};
use crate::domain::Error;

/// How many connections a server has at most. Each is a process of the database; a batch takes one for a round trip, so
/// that a few serve thousands of batches a second.
pub const CONNECTIONS: usize = 8;

/// How long a batch waits for a connection.
const QUEUED: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct ConnectionPool {
    address: PgAddress,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl ConnectionPool {
    /// Beside `first`, which is there already, none is opened before it is needed.
    pub(super) fn new(address: PgAddress, first: Connection) -> Self {
        Self { address, places: Arc::new(Semaphore::new(CONNECTIONS)), idle: Mutex::new(vec![first]) }
    }

    /// Makes calls in one transaction and one round trip. They are made also where nobody waits for the outcome any more.
    pub(super) async fn run(self: &Arc<Self>, frame: Frame, calls: Vec<SqlCall>) -> Result<Vec<Vec<Row>>, CallFailure> {
        let (pool, place) = (Arc::clone(self), self.place().await?);
        let made = tokio::spawn(async move {
            let mut connection = pool.connection().await?;
            let outcome = connection.run(frame, calls).await;
            if !connection.is_over() {
                pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            drop(place);
            outcome
        });
        made.await.unwrap_or_else(|_| Err(CallFailure::Lost("what made the calls has ended".to_owned())))
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, CallFailure> {
        match timeout(QUEUED, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(CallFailure::Lost("the store is closed".to_owned())),
            Err(_) => Err(CallFailure::Lost("every connection is busy".to_owned())),
        }
    }

    /// One that is idle and still there, or a new one.
    async fn connection(&self) -> Result<Connection, CallFailure> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                Some(connection) if connection.is_over() => {}
                Some(connection) => return Ok(connection),
                None => break,
            }
        }
        match timeout(PATIENCE, Connection::open(&self.address)).await {
            Ok(opened) => opened.map_err(|error| CallFailure::Lost(described(&error))),
            Err(_) => Err(CallFailure::Lost(format!("no connection within {} s", PATIENCE.as_secs()))),
        }
    }

    /// Takes no more calls, and waits for those that were taken.
    pub(super) async fn close(&self) -> Result<(), Error> {
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        // A second one finds it closed.
        let over = self.places.acquire_many(all).await;
        self.places.close();
        drop(over);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}
