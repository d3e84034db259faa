//! `hitl store check`: whether what a store holds fits together.
//!
//! All of it is read once, out of one snapshot, whoever has the store meanwhile; nothing is changed. What is looked for is in
//! [`super::checking`].

use tokio::sync::mpsc;

use super::checking::Checker;
pub use super::checking::problem::{ProblemKind, StoreProblem, StoreProblems};
use super::copying::batches::{AHEAD, RowBatches, RowCounts, no_rows, take_all};
use super::open::Address;
use super::open_error::{OpenError, ServerTrouble};
use super::postgres::copying::PostgresSource;
use super::sqlite::copying::SqliteSource;

/// What was looked at, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// How many rows of each table.
    pub rows: RowCounts,
    /// What does not fit.
    pub problems: StoreProblems,
}

/// Looks at the store at `address`.
///
/// # Errors
/// [`OpenError`]: it cannot be opened to be read, or not to its end.
pub async fn check(address: &str) -> Result<Checked, OpenError> {
    let (batches, given) = mpsc::channel(AHEAD);
    let mut checker = Checker::new();
    match Address::parse(address)? {
        Address::Memory => {
            Err(OpenError::InvalidAddress("memory is gone with its process: name a file or a database".to_owned()))
        }
        Address::Sqlite(path) => {
            let source = SqliteSource::beside(&path)?;
            for what in source.damage() {
                checker.found(StoreProblem { kind: ProblemKind::File, session: None, what });
            }
            match source.left_alone() {
                Ok(turns) => {
                    for (session, what) in turns {
                        checker.found(StoreProblem { kind: ProblemKind::Asleep, session: Some(session), what });
                    }
                }
                Err(error) => checker.unreadable(&format!("turns that are under way: {error}")),
            }
            checker.counted(source.head());
            let reading = source.read(batches);
            let checked = look(checker, given).await;
            drop(reading.join());
            checked
        }
        Address::Postgres(address) => {
            let source = PostgresSource::beside(&address).await?;
            if let Some(seq) = source.untold().await? {
                let what = format!("row {seq} is missing, and what comes after it is bound to it");
                checker.found(StoreProblem { kind: ProblemKind::Audit, session: None, what });
            }
            // A statement that is refused would end the snapshot.
            if source.may_count().await? {
                checker.counted(source.head().await);
            }
            let reading = tokio::spawn(source.read(batches));
            let checked = look(checker, given).await;
            reading.abort();
            drop(reading.await);
            checked
        }
    }
}

async fn look(mut checker: Checker, batches: RowBatches) -> Result<Checked, OpenError> {
    let mut rows = no_rows();
    let read = take_all(batches, &mut rows, async |batch| {
        checker.take(&batch);
        Ok(())
    });
    let problems = match read.await {
        Ok(()) => checker.finish(),
        // It could be opened: what cannot be read in it is what was to be found.
        Err(OpenError::Failed { reason, .. }) => checker.broken_off(&reason),
        Err(OpenError::Server { trouble: ServerTrouble::Refused(reason), .. }) => checker.broken_off(&reason),
        Err(error) => return Err(error),
    };
    Ok(Checked { rows, problems })
}
