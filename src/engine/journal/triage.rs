//! Claims and snoozes of interrupts: who works on what, and what is put off.

use std::sync::Arc;

use crate::domain::access::Actor;
use crate::domain::audit::Deed;
use crate::domain::event::{StoredEvent, Triage};
use crate::domain::interrupt::Interrupt;
use crate::domain::scope::Scope;
use crate::domain::standing::check_standing;
use crate::domain::{Error, FieldError, InterruptId, Timestamp};
use crate::engine::journal::audit::see;
use crate::engine::{Engine, detached};
use crate::store::StoreExt;
use crate::store::about::About;

/// Who triages an interrupt, and when.
struct TriagedBy<'a> {
    actor: &'a Actor,
    /// What he calls himself.
    said: Option<&'a str>,
    now: Timestamp,
    prevents_self_approval: bool,
}

impl TriagedBy<'_> {
    fn claimer(&self) -> Option<&str> {
        claimer(self.actor, self.said)
    }

    /// See [`check_standing`].
    fn check_standing(&self, interrupt: &Interrupt) -> Result<(), Error> {
        check_standing(interrupt, self.actor, self.prevents_self_approval)
    }
}

/// The name that a claim is under: that of the key, and what somebody calls himself only where there are no keys.
pub(in crate::engine) fn claimer<'a>(actor: &'a Actor, said: Option<&'a str>) -> Option<&'a str> {
    actor.name().or(said)
}

fn unnamed() -> Error {
    let msg = "is required: this server has no keys that tell who claims it";
    Error::InvalidRequest(vec![FieldError::new(["body", "as"], "missing", msg)])
}

impl Engine {
    /// Makes an interrupt `actor`'s for `seconds`; `said` is what he calls himself where there are no keys. Only who may
    /// answer it can: a claim keeps everybody else from answering.
    ///
    /// # Errors
    /// [`Error::UnknownInterrupt`], [`Error::InterruptClaimed`], [`Error::AlreadyResolved`],
    /// [`Error::InterruptExpired`], [`Error::InterruptCancelled`], [`Error::SelfApproval`], [`Error::NotAnApprover`],
    /// [`Error::MissingScope`], and [`Error::InvalidRequest`] where nobody says who.
    pub async fn claim_interrupt(
        self: &Arc<Self>,
        id: &str,
        actor: Actor,
        said: Option<String>,
        seconds: f64,
    ) -> Result<Interrupt, Error> {
        self.triage(id, actor, said, move |interrupt, by| {
            let who = by.claimer().ok_or_else(unnamed)?;
            by.check_standing(interrupt)?;
            Ok(Some((interrupt.claim(who, seconds, by.now)?, Triage::Claimed)))
        })
        .await
    }

    /// Makes an interrupt nobody's: by whoever has it and may answer it, or by an admin. Nothing happens where it is that
    /// already.
    ///
    /// # Errors
    /// Those of [`Engine::claim_interrupt`], except [`Error::InvalidRequest`].
    pub async fn release_interrupt(
        self: &Arc<Self>,
        id: &str,
        actor: Actor,
        said: Option<String>,
    ) -> Result<Interrupt, Error> {
        self.triage(id, actor, said, |interrupt, by| {
            // Without keys everybody has every scope, and nobody is an admin for that.
            let for_others = by.actor.name.is_some() && by.actor.may(Scope::Admin);
            if !for_others {
                by.check_standing(interrupt)?;
            }
            let released = interrupt.release(by.claimer(), for_others, by.now)?;
            Ok(released.map(|released| (released, Triage::Released)))
        })
        .await
    }

    /// Puts an interrupt off for `seconds`. It is pending all the same. Only who may answer it can: it leaves the list of
    /// what waits, and is not reminded of.
    ///
    /// # Errors
    /// Those of [`Engine::claim_interrupt`], except [`Error::InterruptClaimed`] and [`Error::InvalidRequest`].
    pub async fn snooze_interrupt(
        self: &Arc<Self>,
        id: &str,
        actor: Actor,
        said: Option<String>,
        seconds: f64,
    ) -> Result<Interrupt, Error> {
        self.triage(id, actor, said, move |interrupt, by| {
            by.check_standing(interrupt)?;
            Ok(Some((interrupt.snooze(by.claimer(), seconds, by.now)?, Triage::Snoozed)))
        })
        .await
    }

    /// Puts an interrupt off no longer, for who may put it off. Nothing happens where it is not put off.
    ///
    /// # Errors
    /// Those of [`Engine::snooze_interrupt`].
    pub async fn unsnooze_interrupt(self: &Arc<Self>, id: &str, actor: Actor) -> Result<Interrupt, Error> {
        self.triage(id, actor, None, |interrupt, by| {
            by.check_standing(interrupt)?;
            Ok(interrupt.unsnooze(by.now)?.map(|interrupt| (interrupt, Triage::Unsnoozed)))
        })
        .await
    }

    /// Changes an interrupt short of settling it; listeners are told, and the audit. Whoever did it is shown the whole
    /// record, so that they have seen it, also where nothing changes.
    async fn triage(
        self: &Arc<Self>,
        id: &str,
        actor: Actor,
        said: Option<String>,
        change: impl Fn(&Interrupt, &TriagedBy<'_>) -> Result<Option<(Interrupt, Triage)>, Error> + Send + 'static,
    ) -> Result<Interrupt, Error> {
        let unknown = Error::UnknownInterrupt(id.to_owned());
        let id: InterruptId = id.parse().map_err(|_| unknown.clone())?;
        let (owing, prevents_self_approval) = (self.telling.owed_by(&actor), self.settings.prevent_self_approval);
        let triaged = self.store.transact(About::Interrupt(id), move |tx| {
            let (mut after_commit, now) = (owing.clone(), tx.now());
            let interrupt = tx.interrupt(id)?.ok_or_else(|| unknown.clone())?;
            let by = TriagedBy { actor: &actor, said: said.as_deref(), now, prevents_self_approval };
            let changed = change(&interrupt, &by)?;
            see(tx, &interrupt, &actor, now)?;
            let Some((triaged, triage)) = changed else { return Ok((interrupt.as_of(now), after_commit)) };
            tx.update_outcome(&triaged)?;
            let deed = Deed::triaged(&interrupt, &triaged, triage);
            // What somebody calls himself is no proof, and stands apart from who it was.
            after_commit.record(tx, if actor.name.is_none() { deed.with("as", said.as_deref()) } else { deed }, now)?;
            after_commit.tell(tx, &StoredEvent::triage(&triaged, triage), now)?;
            Ok((triaged.as_of(now), after_commit))
        });
        let engine = Arc::clone(self);
        detached(async move {
            let (interrupt, after_commit) = match triaged.await {
                Err(late @ Error::InterruptExpired(_)) => {
                    engine.expire_overdue(vec![id]).await;
                    return Err(late);
                }
                triaged => triaged?,
            };
            engine.telling.run(after_commit);
            Ok(interrupt)
        })
        .await
    }
}
