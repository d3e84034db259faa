//! The audit: who did what, written in the transaction that did it.

use crate::domain::access::Actor;
use crate::domain::audit::{Action, AuditRow, Deed, Head};
use crate::domain::interrupt::Interrupt;
use crate::domain::scope::Scope;
use crate::domain::{Error, InterruptId, Timestamp};
use crate::engine::Engine;
use crate::store::about::About;
use crate::store::query::{AuditQuery, Page};
use crate::store::{StoreExt, Transaction};

impl Engine {
    /// Rows of the audit, oldest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn audit(&self, query: AuditQuery) -> Result<Page<AuditRow>, Error> {
        self.search(query.is_search(), move |reader| reader.audit(&query)).await
    }

    /// Where the audit ends.
    ///
    /// # Errors
    /// The store's.
    pub async fn audit_head(&self) -> Result<Head, Error> {
        self.store.query(|reader| reader.audit_head()).await
    }

    /// One interrupt, by its id as a client wrote it. Where `actor` has a name and may answer, the audit tells when he
    /// first looked at it while it was pending.
    ///
    /// # Errors
    /// [`Error::UnknownInterrupt`].
    pub async fn show_to(&self, id: &str, actor: &Actor) -> Result<Interrupt, Error> {
        let unknown = Error::UnknownInterrupt(id.to_owned());
        let id: InterruptId = id.parse().map_err(|_| unknown.clone())?;
        let name = actor.name().filter(|_| actor.may(Scope::Answer)).map(str::to_owned);
        let (interrupt, is_new) = self
            .store
            .query(move |reader| {
                let interrupt = reader.interrupt(id)?.ok_or_else(|| unknown.clone())?;
                let is_new = match &name {
                    Some(name) if interrupt.is_pending() => !reader.has_seen(id, name)?,
                    _ => false,
                };
                Ok((interrupt, is_new))
            })
            .await?;
        if is_new {
            let actor = actor.clone();
            // Two looks at once are one.
            let seen = self.store.transact(About::Session(interrupt.session_id), move |tx| match tx.interrupt(id)? {
                Some(interrupt) => {
                    let now = tx.now();
                    see(tx, &interrupt, &actor, now)
                }
                None => Ok(()),
            });
            seen.await?;
        }
        Ok(interrupt.as_of(self.now()))
    }
}

/// Has the audit tell that `actor` is shown an interrupt, where that is the first time. Nobody sees what is settled, and
/// nobody without a name or who may not answer is told of.
pub(in crate::engine) fn see(
    tx: &mut dyn Transaction,
    interrupt: &Interrupt,
    actor: &Actor,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(name) = actor.name().filter(|_| actor.may(Scope::Answer) && interrupt.is_pending()) else { return Ok(()) };
    if !tx.has_seen(interrupt.interrupt_id, name)? {
        let deed = Deed::new(Action::Seen).about(interrupt).by(Some(name), actor.address);
        tx.append_audit(deed, now)?;
    }
    Ok(())
}
