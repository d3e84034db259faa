//! Events and deeds are numbered by the transaction that they are of, so that nobody has to count. What is numbered below
//! the oldest transaction that still runs is complete, and its order final; so far the feed tells, and the audit is linked.

use tokio_postgres::Row;

use super::asking::{Replies, head, params};
use super::backend::Inner;
use super::cells::PostgresCells;
use super::connection::{Frame, SqlCall};
use super::horizon::{Horizon, has_to_wait};
use super::sql;
use crate::domain::audit::{Action, AuditRow, Deed, Head};
use crate::domain::{Error, InterruptId, SessionId, Timestamp};
use crate::store::rows::{self, Cells};

/// How many rows are linked at once.
const LINKED_AT_ONCE: i64 = 1000;

impl Inner {
    /// Waits until the events that are there are complete for everybody who reads, as long as [`Horizon`] does: what is swept
    /// must not be what another server, which has not looked whose transactions are open, is told up to.
    pub(super) async fn complete_events(&self) -> Result<(), Error> {
        let mut horizon = Horizon::of_all(&self.in_the_way, self.patience);
        loop {
            let calls = vec![horizon.call(), SqlCall::new(sql!("events/horizon"), vec![])];
            let mut replies = Replies::new(self.pool.run(Frame::Snapshot, calls).await?);
            let look = replies.next();
            if !horizon.waits(&look, has_to_wait(&replies.next())?).await? {
                return Ok(());
            }
        }
    }

    /// Links what was committed before this was called, and is not linked yet: where the audit ends then. What is told
    /// meanwhile is left to the next one, however much it is.
    pub(super) async fn link_audit(&self) -> Result<Head, Error> {
        // Those of one server would only come before each other.
        let _turn = self.linking.lock().await;
        let mut horizon = Horizon::new(&self.in_the_way, self.patience);
        loop {
            let calls = vec![
                horizon.call(),
                SqlCall::new(sql!("audit_chain/head"), vec![]),
                SqlCall::new(sql!("deeds/unlinked"), params![LINKED_AT_ONCE]),
                SqlCall::new(sql!("deeds/horizon"), vec![]),
            ];
            let mut replies = Replies::new(self.pool.run(Frame::Snapshot, calls).await?);
            let look = replies.next();
            let head = head(&mut replies)?;
            let deeds = replies.next();
            let has_to_wait = has_to_wait(&replies.next())?;
            if deeds.is_empty() {
                if horizon.waits(&look, has_to_wait).await? {
                    continue;
                }
                return Ok(head);
            }
            let is_last = horizon.is_reached(&look, has_to_wait)? && (deeds.len() as i64) < LINKED_AT_ONCE;
            let LinkedDeeds { head, call, unreadable } = LinkedDeeds::after(head, &deeds);
            if let Some(call) = call {
                match self.pool.run(Frame::Commit, vec![call]).await {
                    // Another server was quicker, and has linked what this one would have.
                    Err(failed) if failed.is_moved() => continue,
                    outcome => drop(outcome?),
                }
            }
            match unreadable {
                Some(why) => return Err(why),
                None if is_last => return Ok(head),
                None => {}
            }
        }
    }
}

/// Deeds that are bound to the end of the chain.
struct LinkedDeeds {
    /// Where it ends then.
    head: Head,
    /// What binds them; `None` where there is none.
    call: Option<SqlCall>,
    /// Why the next one cannot be.
    unreadable: Option<Error>,
}

impl LinkedDeeds {
    /// As many as can be read, up to the first that cannot.
    fn after(mut head: Head, deeds: &[Row]) -> Self {
        let (mut seqs, mut numbers, mut prevs, mut hashes) = (vec![], vec![], vec![], vec![]);
        let mut unreadable = None;
        for row in deeds {
            let (number, at, deed) = match deed(&mut PostgresCells::new("deeds", row)) {
                Ok(read) => read,
                Err(why) => {
                    unreadable = Some(why);
                    break;
                }
            };
            let row = AuditRow::after(&head, deed, at);
            head = row.head();
            seqs.push(rows::integer(row.seq));
            numbers.push(number);
            prevs.push(row.prev);
            hashes.push(row.hash);
        }
        let is_any = !seqs.is_empty();
        let call = is_any.then(|| SqlCall::new(sql!("audit_chain/insert"), params![seqs, numbers, prevs, hashes]));
        Self { head, call, unreadable }
    }
}

fn deed(cells: &mut PostgresCells<'_>) -> Result<(i64, Timestamp, Deed), Error> {
    let (number, at) = (cells.plain()?, cells.time()?);
    let action: String = cells.plain()?;
    let action = Action::parse(&action).ok_or_else(|| cells.malformed(format!("unknown action {action:?}")))?;
    let session_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| SessionId(uuid::Uuid::from_bytes(id)));
    let interrupt_id = cells.plain::<Option<[u8; 16]>>()?.map(|id| InterruptId(uuid::Uuid::from_bytes(id)));
    let actor = cells.plain()?;
    let address = match cells.plain::<Option<String>>()? {
        Some(text) => Some(text.parse().map_err(|error| cells.malformed(error))?),
        None => None,
    };
    Ok((number, at, Deed { action, session_id, interrupt_id, actor, address, details: cells.json()? }))
}
