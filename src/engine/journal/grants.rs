//! Decisions for the rest of a session: made by an answer, looked up by what is asked later, taken back on request.

use std::sync::Arc;

use crate::domain::access::Actor;
use crate::domain::audit::Deed;
use crate::domain::decision::Decision;
use crate::domain::grant::Grant;
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::Entry;
use crate::domain::session::Session;
use crate::domain::{Error, GrantId, SessionId, Timestamp, answer};
use crate::engine::journal::closing::close;
use crate::engine::ports::dispatch::Delivery;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::metrics::DecisionSample;
use crate::engine::{Engine, clock};
use crate::store::about::About;
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// The grants of a session, oldest first.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn grants(&self, id: SessionId) -> Result<Vec<Grant>, Error> {
        self.store.query(move |reader| Ok(reader.session(id)?.ok_or(Error::SessionNotFound)?.grants)).await
    }

    /// Takes a grant back: later calls ask again. `grant` is its id as the client wrote it, `actor` whoever does it.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::UnknownGrant`].
    pub async fn revoke_grant(self: &Arc<Self>, id: SessionId, grant: &str, actor: &Actor) -> Result<(), Error> {
        let unknown = Error::UnknownGrant(grant.to_owned());
        let parsed: Option<GrantId> = grant.parse().ok();
        let after_commit = self.telling.owed_by(actor);
        self.store
            .transact(About::Session(id), move |tx| {
                let now = tx.now();
                let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
                let parsed = parsed.ok_or_else(|| unknown.clone())?;
                let next = session.revoked(parsed, now)?;
                let revoked = session.grants.iter().find(|grant| grant.grant_id == parsed);
                if let Some(grant) = revoked {
                    after_commit.record(tx, Deed::grant_revoked(grant, id), now)?;
                }
                tx.update_session(&next)
            })
            .await?;
        tracing::info!(session = %id, grant, by = actor.name(), "a grant is revoked");
        Ok(())
    }
}

/// What the answer to `answered` decides for the rest of its session, if anything.
pub(in crate::engine) fn granted_by(answered: &Interrupt, by: Option<&str>, now: Timestamp) -> Option<Grant> {
    let value = answered.value.as_ref()?;
    let decision = answer::decision(answered.into(), value).filter(Decision::is_sticky)?;
    Grant::new(clock::grant_id(), answered.scope(), &decision, by, &answered.approvers, now)
}

/// Whether what is asked is one of the calls that a grant is for, where only others may not answer that.
pub(in crate::engine) fn may_settle(grant: &Grant, asked: &Interrupt, now: Timestamp) -> bool {
    !asked.is_due(now)
        && grant.is_open_to(&asked.approvers)
        && asked.scope() == Some(grant.scope())
        && answer::terms(asked.into()).allowed.contains(&grant.decision().kind())
}

/// What a grant makes of what is asked.
pub(in crate::engine) fn settled_by(grant: &Grant, asked: &Interrupt, now: Timestamp) -> Interrupt {
    asked.clone().decided(&grant.decision(), grant.rule(), grant.created_by.clone(), now)
}

/// Stores a grant and answers with it whatever else the session asks that it is for and `lets` says so of. What is stored
/// in the same request with an answer of its own is not asked any more by then. What becomes of `session` is there, too.
pub(in crate::engine) fn store(
    tx: &mut dyn Transaction,
    session: &Session,
    grant: Grant,
    lets: &dyn Fn(&Interrupt, &Grant) -> bool,
    after_commit: &mut AfterCommit,
    outcomes: &mut Vec<DecisionSample>,
    now: Timestamp,
) -> Result<(Vec<Delivery>, Session), Error> {
    let (id, decision) = (session.id, grant.decision());
    let mut session = session.granted(grant.clone(), now);
    tx.update_session(&session)?;
    after_commit.record(tx, Deed::granted(&grant, id), now)?;
    let mut deliveries = Vec::new();
    for asked in tx.pending(id)? {
        if !may_settle(&grant, &asked, now) || !lets(&asked, &grant) {
            continue;
        }
        let settled = settled_by(&grant, &asked, now);
        outcomes.push(DecisionSample::of(&settled));
        let (interrupt, value) = (settled.interrupt_id, decision.to_value());
        let entry = Entry::Answer { interrupt_id: interrupt, value: value.clone() };
        let (index, next) = close(tx, &session, &settled, &entry, after_commit, now)?;
        session = next;
        deliveries.push(Delivery::Answer { index, at: now, interrupt, value, by: settled.resolved_by });
    }
    Ok((deliveries, session))
}
