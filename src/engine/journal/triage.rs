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
        let prevents = self.settings.prevent_self_approval;
        self.triage(id, actor, said, move |interrupt, actor, said, now| {
            let who = claimer(actor, said).ok_or_else(unnamed)?;
            check_standing(interrupt, actor, prevents)?;
            Ok(Some((interrupt.claim(who, seconds, now)?, Triage::Claimed)))
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
        let prevents = self.settings.prevent_self_approval;
        self.triage(id, actor, said, move |interrupt, actor, said, now| {
            // Without keys everybody has every scope, and nobody is an admin for that.
            let for_others = actor.name.is_some() && actor.may(Scope::Admin);
            if !for_others {
                check_standing(interrupt, actor, prevents)?;
            }
            let released = interrupt.release(claimer(actor, said), for_others, now)?;
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
        let prevents = self.settings.prevent_self_approval;
        self.triage(id, actor, said, move |interrupt, actor, said, now| {
            check_standing(interrupt, actor, prevents)?;
            Ok(Some((interrupt.snooze(claimer(actor, said), seconds, now)?, Triage::Snoozed)))
        })
        .await
    }

    /// Puts an interrupt off no longer, for who may put it off. Nothing happens where it is not put off.
    ///
    /// # Errors
    /// Those of [`Engine::snooze_interrupt`].
    pub async fn unsnooze_interrupt(self: &Arc<Self>, id: &str, actor: Actor) -> Result<Interrupt, Error> {
        let prevents = self.settings.prevent_self_approval;
        let wake = move |interrupt: &Interrupt, actor: &Actor, _: Option<&str>, now| {
            check_standing(interrupt, actor, prevents)?;
            Ok(interrupt.unsnooze(now)?.map(|interrupt| (interrupt, Triage::Unsnoozed)))
        };
        self.triage(id, actor, None, wake).await
    }

    /// Changes an interrupt short of settling it; listeners are told, and the audit. Whoever did it is shown the whole
    /// record, so that they have seen it, also where nothing changes.
    async fn triage(
        self: &Arc<Self>,
        id: &str,
        actor: Actor,
        said: Option<String>,
        change: impl Fn(&Interrupt, &Actor, Option<&str>, Timestamp) -> Result<Option<(Interrupt, Triage)>, Error>
        + Send
        + 'static,
    ) -> Result<Interrupt, Error> {
        let unknown = Error::UnknownInterrupt(id.to_owned());
        let id: InterruptId = id.parse().map_err(|_| unknown.clone())?;
        let owing = self.telling.owed_by(&actor);
        let triaged = self.store.transact(About::Interrupt(id), move |tx| {
            let (mut after_commit, now) = (owing.clone(), tx.now());
            let interrupt = tx.interrupt(id)?.ok_or_else(|| unknown.clone())?;
            let changed = change(&interrupt, &actor, said.as_deref(), now)?;
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
