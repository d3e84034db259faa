//! Commits of which nobody tells what came of them.
//!
//! A connection may break between a commit and its reply. Whether it happened is in the rows: a session bears the token of
//! its last commit. Where it did not happen, it is sent again: its guard lets one of the two through at most, however late
//! the first one arrives. A session that is not there looks the same before it is made and after it was deleted; the audit
//! tells of the latter.

use std::sync::Arc;

use super::backend::{Backend, Committed};
use super::changes::{Changes, RowChange, SessionChange};
use super::grouping::CommitQueue;
use super::question::{Answer, StoreQuestion, Version};
use crate::domain::audit::Action;
use crate::domain::{Error, SessionId, Timestamp};
use crate::store::query::AuditQuery;

/// How often what came of a commit is looked up before nobody is said to know.
const LOOKS: u32 = 6;

/// What a session's rows tell of a commit.
enum Resolved {
    /// It happened, or was undone by somebody who came after it.
    Applied,
    /// It has not happened: the session is as it was read for it.
    NotApplied,
    /// Others have changed the session, before it or after it.
    Unknown,
}

/// Commits, and finds out what came of it where nobody tells.
///
/// # Errors
/// As [`Backend::commit`]; [`Error::StoreUnavailable`] where it cannot be found out.
pub async fn commit(backend: &impl Backend, commits: &Arc<CommitQueue>, changes: Changes) -> Result<Committed, Error> {
    // What changes no session bears no token.
    let Some(change) = changes.sessions.first().cloned() else { return commits.commit(backend, changes, true).await };
    let counted = changes.events.len();
    let mut lost = None;
    let mut is_sent = true;
    for look in 0..LOOKS {
        if is_sent {
            // What was lost goes by itself from then on: it may have been for another one of its group, which would go with it again.
            match commits.commit(backend, changes.clone(), lost.is_none()).await {
                // The one that was sent before may have been first, or others after it: then nobody knows.
                Ok(Committed::Moved) if lost.is_some() => {}
                Err(error @ Error::StoreUnavailable(_)) => lost = Some(error),
                outcome => return outcome,
            }
        }
        match resolve(backend, &change).await {
            Ok(Resolved::Applied) => return found(backend, change.id, counted).await,
            Ok(Resolved::NotApplied) => is_sent = true,
            Ok(Resolved::Unknown) => break,
            Err(Error::StoreUnavailable(_)) => {
                // No guard keeps what is new from being made once more where it was deleted meanwhile: that is looked up first.
                is_sent = change.seen.is_some();
                backend.wait(look).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(lost.unwrap_or_else(|| Error::StoreUnavailable("nobody knows what came of a commit".to_owned())))
}

async fn resolve(backend: &impl Backend, change: &SessionChange) -> Result<Resolved, Error> {
    let (id, left) = change.left();
    let there = version_of(backend, id).await?;
    Ok(match there {
        there if there == left => Resolved::Applied,
        None if change.seen.is_none() && was_deleted(backend, change).await? => Resolved::Unknown,
        there if there == change.seen => Resolved::NotApplied,
        _ => Resolved::Unknown,
    })
}

/// Whether somebody has deleted the session since it was to be made; by the clocks of two servers, where that was another
/// one of its id. What cannot be read may say so.
async fn was_deleted(backend: &impl Backend, change: &SessionChange) -> Result<bool, Error> {
    let RowChange::Written(made) = &change.row else { return Ok(false) };
    let query = AuditQuery {
        session_id: Some(change.id),
        action: Some(Action::SessionDeleted),
        // In the same millisecond, too.
        after: Some(Timestamp::from_millis(made.created_at.millis() - 1)),
        limit: 1,
        ..AuditQuery::default()
    };
    match backend.answer(vec![StoreQuestion::Audit(query)]).await?.pop() {
        Some(Ok(Answer::Audit(page))) => Ok(!page.items.is_empty()),
        Some(Err(Error::Unreadable(_))) => Ok(true),
        Some(Err(error)) => Err(error),
        _ => Err(Error::Internal("what the audit tells of a session was not answered".to_owned())),
    }
}

async fn version_of(backend: &impl Backend, session: SessionId) -> Result<Option<Version>, Error> {
    match backend.answer(vec![StoreQuestion::Session(session)]).await?.pop() {
        Some(Ok(Answer::Session { slice, .. })) => Ok(slice.map(|slice| slice.version)),
        Some(Err(error)) => Err(error),
        _ => Err(Error::Internal("a session's version was not answered".to_owned())),
    }
}

/// It happened: its last event is the session's newest, unless somebody came after it.
async fn found(backend: &impl Backend, session: SessionId, events: usize) -> Result<Committed, Error> {
    if events == 0 {
        return Ok(Committed::Yes { events: Vec::new() });
    }
    match backend.answer(vec![StoreQuestion::LastEventOf(session)]).await?.pop() {
        Some(Ok(Answer::Number(newest))) => Ok(Committed::Yes { events: vec![newest; events] }),
        Some(Err(error)) => Err(error),
        _ => Err(Error::Internal("the number of the newest event was not answered".to_owned())),
    }
}

#[cfg(test)]
mod tests;
