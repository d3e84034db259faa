//! A database that was restored or copied elsewhere, and is to be the one that is served: `hitl store adopt`.

use super::cells::PostgresCells;
use super::connection::{Frame, SqlCall};
use super::{PgAddress, opening, sql};
use crate::domain::{Error, Timestamp};
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::rows::Cells;

/// What an adopted database had, and may do a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adoption {
    /// Whether it was another one's until now; otherwise nothing was changed.
    pub was_restored: bool,
    /// Notices that go out from now on.
    pub notices: u64,
    /// When the first of them was written.
    pub oldest_notice: Option<Timestamp>,
    /// Turns that were at work: what they did after the backup they do again.
    pub under_way: u64,
    /// Sessions that wait for somebody, who may have answered after the backup.
    pub waiting: u64,
}

/// Lets servers send the notices of the store at `address`, wherever it came from.
///
/// # Errors
/// [`OpenError::Server`], also where it has no store.
pub async fn adopt(address: &PgAddress) -> Result<Adoption, OpenError> {
    // None is made: whoever names the wrong database is told.
    opening::open_to_read(address).await?;
    let mut connection = opening::open(address).await?;
    let calls = vec![SqlCall::new(sql!("store/restored"), vec![]), SqlCall::new(sql!("store/adopt"), vec![])];
    let replies = connection.run(Frame::Commit, calls).await;
    let replies = replies.map_err(|failed| opening::failed_text(address, &failed))?;
    let row = replies.first().and_then(|rows| rows.first());
    let read = row.map(|row| adoption(&mut PostgresCells::new("meta", row))).transpose().map_err(|error| {
        OpenError::Server { address: address.to_string(), trouble: ServerTrouble::Refused(error.to_string()) }
    })?;
    read.ok_or_else(|| OpenError::Server { address: address.to_string(), trouble: ServerTrouble::NoSchema })
}

fn adoption(cells: &mut PostgresCells<'_>) -> Result<Adoption, Error> {
    Ok(Adoption {
        was_restored: cells.plain()?,
        notices: cells.number()?,
        oldest_notice: cells.time_or_none()?,
        under_way: cells.number()?,
        waiting: cells.number()?,
    })
}
