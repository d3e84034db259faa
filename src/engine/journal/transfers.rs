//! Run states over HTTP: a run moves from a process to a server, from there to another one, or back.
//!
//! A journal says what was approved and what ran; whoever writes one can say anything. So a state counts in full only
//! where its signature under the server's key verifies, and else as far as it harms nobody.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::domain::access::Actor;
use crate::domain::audit::{Action, Deed};
use crate::domain::journal::Entry;
use crate::domain::run_state::RunState;
use crate::domain::{Error, SessionId, Timestamp, digest};
use crate::engine::journal::messages::{keep_reply, stored_reply};
use crate::engine::journal::runs::{export, insert, record_imported, session_of};
use crate::engine::journal::sessions::{MadeSession, check_room, making_scope};
use crate::engine::journal::turn_claims::WakeOutcome;
use crate::engine::telling::after_commit::AfterCommit;
use crate::engine::telling::view::{IdempotencyKey, SessionView, view, view_of};
use crate::engine::{Engine, detached};
use crate::store::about::About;
use crate::store::carried::Carried;
use crate::store::{StoreExt, Transaction, each_interrupt};

/// What an import's transaction came to.
struct Imported {
    view: SessionView,
    woken: Option<WakeOutcome>,
    after_commit: AfterCommit,
}

impl Engine {
    /// The state of a session's turn for `actor`, signed where the server has a key.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::NothingToExport`].
    pub async fn export_run(self: &Arc<Self>, id: SessionId, actor: Actor) -> Result<Value, Error> {
        let runtime = self.placement.runtime()?;
        let (agent, code) = (self.settings.agent.clone(), runtime.code);
        let state = self.store.query(move |reader| export(reader, id, &agent, &code)).await?;
        // A copy that somebody takes out to go on elsewhere: it is not tied to the server's store.
        let state = RunState { store: None, agent_name: runtime.agent, ..state.ok_or(Error::NothingToExport)? };
        let (turn, is_signed) = (state.turn, self.state_key().is_some());
        // Apart from the transaction: a journal may be long.
        let document = state.write_signed(self.state_key())?;
        let deed = Deed::new(Action::RunExported)
            .session(id)
            .with("agent", state.agent.as_str())
            .with("turn_id", turn.to_string())
            .with("entries", state.journal.len())
            .with("signed", is_signed)
            .with("digest", digest::of(&document));
        let engine = Arc::clone(self);
        let noted = self.store.transact(About::Session(id), move |tx| {
            tx.turn(turn)?.ok_or(Error::SessionNotFound)?;
            if is_signed {
                tx.note_carried(turn, &Carried { left_at: None })?;
            }
            let now = tx.now();
            engine.telling.owed_by(&actor).record(tx, deed.clone(), now)
        });
        noted.await?;
        Ok(document)
    }

    /// Takes in the state of a run for `actor`: a new session, under the id that it had. With a `key` that was used before
    /// for the same request, the session as it is; once it is deleted, as it was taken in.
    ///
    /// # Errors
    /// [`Error::ImportDisabled`], [`Error::RunStateNewer`], [`Error::RunStateInvalid`], [`Error::RunStateOtherAgent`],
    /// [`Error::RunStateUsed`], [`Error::RunStateKnown`], [`Error::SessionExists`], [`Error::TooManySessions`],
    /// [`Error::IdempotencyKeyReused`], [`Error::ShuttingDown`].
    pub async fn import_run(
        self: &Arc<Self>,
        document: Value,
        key: Option<IdempotencyKey>,
        actor: Actor,
    ) -> Result<SessionView, Error> {
        if !self.settings.allow_import {
            return Err(Error::ImportDisabled);
        }
        if self.is_stopping() {
            return Err(Error::ShuttingDown);
        }
        let taken = digest::of(&document);
        let (state, is_ours) = RunState::read_signed(document, self.state_key())?;
        self.check_is_served(&state)?;
        let state = if is_ours { state } else { state.disbelieved() };
        tracing::info!(session = %state.session, believed = is_ours, "a run is imported");
        let deed = Deed::new(Action::RunImported)
            .session(state.session)
            .with("agent", state.agent.as_str())
            .with("turn_id", state.turn.to_string())
            .with("entries", state.journal.len())
            .with("believed", is_ours)
            .with("digest", taken);
        let engine = Arc::clone(self);
        let about = About::Session(state.session);
        let imported = self
            .store
            .transact(about, move |tx| engine.write_import(tx, &state, is_ours, deed.clone(), key.as_ref(), &actor));
        let engine = Arc::clone(self);
        detached(async move {
            let Imported { view, woken, after_commit } = imported.await?;
            engine.telling.run(after_commit);
            if let Some(woken) = woken {
                engine.start_woken(woken);
            }
            // Its timers and interrupts are the store's now, and may be due.
            engine.journal.alarm.set(Timestamp::from_millis(0));
            Ok(view)
        })
        .await
    }

    /// What was approved was approved for one agent.
    fn check_is_served(&self, state: &RunState) -> Result<(), Error> {
        let (served, name) = (&self.settings.agent, self.placement.runtime()?.agent);
        if state.is_of(served, name.as_deref()) {
            return Ok(());
        }
        Err(Error::RunStateOtherAgent { of: state.agent.clone(), served: served.clone() })
    }

    fn write_import(
        &self,
        tx: &mut dyn Transaction,
        state: &RunState,
        is_ours: bool,
        deed: Deed,
        key: Option<&IdempotencyKey>,
        actor: &Actor,
    ) -> Result<Imported, Error> {
        let now = tx.now();
        let scope = making_scope(&self.settings.agent, actor);
        if let Some(reply) = stored_reply(tx, &scope, key)? {
            let view = match tx.session(state.session)? {
                Some(session) => view_of(tx, session)?,
                // What became of the turn is gone with it, and is not to happen again.
                None => self.taken_in_at(MadeSession::read(reply)?.at, state),
            };
            return Ok(Imported { view, woken: None, after_commit: self.telling.after_commit() });
        }
        if tx.session(state.session)?.is_some() {
            return Err(Error::SessionExists);
        }
        let known = check_is_new(tx, state)?;
        if is_ours || known {
            tx.note_carried(state.turn, &Carried { left_at: None })?;
        }
        check_room(tx, self.settings.max_sessions)?;
        insert(tx, state, &self.settings.agent, now)?;
        let mut after_commit = self.telling.owed_by(actor);
        after_commit.woken.push(state.session);
        let session = tx.session(state.session)?.ok_or(Error::SessionNotFound)?;
        for asked in state.pending() {
            after_commit.tell_interrupt(tx, &session, asked, now)?;
        }
        after_commit.record(tx, deed, now)?;
        record_imported(tx, &after_commit, state, now)?;
        after_commit.tell_session(tx, &session, Some(state.turn), session.status(), now)?;
        let row = tx.turn(state.turn)?.ok_or(Error::TurnNotOpen(None))?;
        let woken = match state.journal.last().map(|last| &last.entry) {
            Some(Entry::Pause { timers, .. }) => {
                let epoch = tx.claim_turn(row.id, self.store.owner(), 0)?;
                tx.park_turn(row.id, epoch, timers.iter().map(|timer| timer.due).min(), 0)?;
                None
            }
            _ => Some(self.wake(tx, &row, &self.settings.agent, now)?),
        };
        keep_reply(tx, &scope, key, json!({"session_id": state.session, "at": now}), now)?;
        Ok(Imported { view: view(tx, state.session)?, woken, after_commit })
    }

    /// What was shown of the session of `state` when it was taken in.
    fn taken_in_at(&self, then: Timestamp, state: &RunState) -> SessionView {
        let interrupts = state.pending().map(|asked| asked.clone().as_of(then)).collect();
        SessionView { session: session_of(state, &self.settings.agent, then), interrupts, replay: None }
    }

    fn state_key(&self) -> Option<&[u8]> {
        self.settings.state_key.as_deref().map(str::as_bytes)
    }
}

/// Whether the turn of `state`, whose session is not here, was carried about before.
///
/// # Errors
/// [`Error::RunStateKnown`] where its ids are another session's, [`Error::RunStateUsed`] where the turn went on here from
/// where the state stands, or to its end: what is approved in the state would run again.
fn check_is_new(tx: &dyn Transaction, state: &RunState) -> Result<bool, Error> {
    if tx.turn(state.turn)?.is_some() {
        return Err(Error::RunStateKnown);
    }
    let asked = each_interrupt(tx, state.interrupts.iter().map(|asked| asked.interrupt_id))?;
    if asked.iter().any(Option::is_some) {
        return Err(Error::RunStateKnown);
    }
    match tx.carried(state.turn)? {
        None => Ok(false),
        Some(Carried { left_at: Some(stand) }) if state.goes_on_from(&stand)? => Ok(true),
        Some(_) => Err(Error::RunStateUsed),
    }
}
