//! `hitl store copy`: all that a store holds, into another one.
//!
//! Rows go from one store to the other in batches, out of one snapshot and into one transaction: whatever breaks a copy off,
//! its target is as empty as it was before. Nobody else has either of the two meanwhile.

use tokio::sync::mpsc;

use super::copying::batches::{AHEAD, RowBatch, RowBatches, RowCounts, StoreHead, no_rows, take_all};
use super::open::Address;
use super::open_error::OpenError;
use super::postgres::copying::{PostgresSource, PostgresTarget};
use super::sqlite::copying::{SqliteSource, SqliteTarget};

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// How many rows of each table, in the order in which they were copied.
    pub rows: RowCounts,
    /// How many of the sessions wait for somebody.
    pub waiting: u64,
}

/// Copies the store at `from` into the empty or missing one at `to`.
///
/// # Errors
/// [`OpenError`]: that of either store; [`OpenError::Locked`] and [`ServerTrouble::InUse`](super::open_error::ServerTrouble)
/// while somebody has it; [`OpenError::NotEmpty`], [`OpenError::SameStore`]. The target is as it was then, but that an empty
/// store may have been made.
pub async fn copy(from: &str, to: &str) -> Result<Copied, OpenError> {
    let (from, to) = (Address::parse(from)?, Address::parse(to)?);
    if from.whole() == to.whole() {
        return Err(OpenError::SameStore);
    }
    let (batches, given) = mpsc::channel(AHEAD);
    match from {
        Address::Memory => Err(memory()),
        Address::Sqlite(path) => {
            let source = SqliteSource::open(&path)?;
            let head = source.head()?;
            let reading = source.read(batches);
            let copied = write(&to, head, given).await;
            // Nobody has the file before this is over.
            drop(reading.join());
            copied
        }
        Address::Postgres(address) => {
            let source = PostgresSource::open(&address).await?;
            let head = source.head().await?;
            let reading = tokio::spawn(source.read(batches));
            let copied = write(&to, head, given).await;
            reading.abort();
            drop(reading.await);
            copied
        }
    }
}

fn memory() -> OpenError {
    OpenError::InvalidAddress("memory is gone with its process: name a file or a database".to_owned())
}

/// Writes all that comes into the store at `to`.
async fn write(to: &Address, head: StoreHead, batches: RowBatches) -> Result<Copied, OpenError> {
    let mut target = Target::open(to, &head).await?;
    let mut rows = no_rows();
    take_all(batches, &mut rows, async |batch| target.write(batch).await).await?;
    let waiting = target.finish(head).await?;
    Ok(Copied { rows, waiting })
}

enum Target {
    Sqlite(SqliteTarget),
    Postgres(Box<PostgresTarget>),
}

impl Target {
    async fn open(address: &Address, head: &StoreHead) -> Result<Self, OpenError> {
        match address {
            Address::Memory => Err(memory()),
            Address::Sqlite(path) => SqliteTarget::open(path, head).map(Self::Sqlite),
            Address::Postgres(address) => Ok(Self::Postgres(Box::new(PostgresTarget::open(address, head).await?))),
        }
    }

    async fn write(&mut self, batch: RowBatch) -> Result<(), OpenError> {
        match self {
            Self::Sqlite(target) => target.write(&batch),
            Self::Postgres(target) => target.write(batch).await,
        }
    }

    /// Keeps all of it: how many sessions wait.
    async fn finish(self, head: StoreHead) -> Result<u64, OpenError> {
        match self {
            Self::Sqlite(target) => target.finish(head),
            Self::Postgres(target) => target.finish(head).await,
        }
    }
}
