//! Sessions: made, read, waited for, cancelled, deleted.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::access::Actor;
use crate::domain::audit::{Action, Deed};
use crate::domain::interrupt::Interrupt;
use crate::domain::journal::{Ending, Entry};
use crate::domain::message::ChatMessage;
use crate::domain::naming;
use crate::domain::session::{self, Failure, Session};
use crate::domain::status::Status;
use crate::domain::{Error, InterruptId, SessionId, Timestamp};
use crate::engine::journal::messages::{keep_reply, stored_reply};
use crate::engine::journal::runs::note_left;
use crate::engine::telling::bells::{Listener, SessionSnapshot};
use crate::engine::telling::view::{IdempotencyKey, NewSession, SessionView, Subscription, view, view_and_newest};
use crate::engine::{Engine, clock, detached};
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::query::{InterruptQuery, Page, SessionQuery, TitledSession};
use crate::store::{Reader, StoreExt, Transaction};

/// Where the replies to those are kept who ask for a new session of `agent`: each name has keys of its own, and whoever gets a
/// new key of a name goes on with them.
pub(in crate::engine) fn making_scope(agent: &str, actor: &Actor) -> String {
    // What stands between colons may be the id of a session.
    let agent = agent.replace(':', ".");
    match actor.name() {
        Some(name) => format!("sessions/{agent}/{name}"),
        None => format!("sessions/{agent}"),
    }
}

/// What is kept of the reply to a request for a new session.
#[derive(Deserialize)]
pub(in crate::engine) struct MadeSession {
    session_id: SessionId,
    /// When it was made.
    pub(in crate::engine) at: Timestamp,
}

impl MadeSession {
    /// What was kept.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub(in crate::engine) fn read(reply: Value) -> Result<Self, Error> {
        serde_json::from_value(reply).map_err(|error| Error::Unreadable(format!("a reply that was kept: {error}")))
    }
}

/// Whether there is room for one more session.
///
/// # Errors
/// [`Error::TooManySessions`].
pub(in crate::engine) fn check_room(tx: &dyn Transaction, max_sessions: Option<usize>) -> Result<(), Error> {
    match max_sessions {
        Some(limit) if tx.count_sessions()? >= limit => Err(Error::TooManySessions),
        _ => Ok(()),
    }
}

impl Engine {
    /// A new session for `actor`; with a `key` that it used before for the same request, what that came to.
    ///
    /// # Errors
    /// [`Error::TooManySessions`], [`Error::WebhookRefused`], [`Error::IdempotencyKeyReused`], [`Error::ShuttingDown`].
    pub async fn create_session(
        &self,
        new: NewSession,
        key: Option<IdempotencyKey>,
        actor: &Actor,
    ) -> Result<SessionView, Error> {
        let scope = making_scope(&self.settings.agent, actor);
        let id = match &key {
            Some(key) => {
                let store = self.store.query(|reader| reader.store_id()).await?;
                clock::session_id_for(store, &scope, &key.key, self.now())
            }
            None => clock::session_id(),
        };
        self.insert_session(id, new, scope, key).await
    }

    /// The same with the client's own id, as it wrote it. Whether ids may be chosen is looked at first, then the id,
    /// whether it is taken, and the room.
    ///
    /// # Errors
    /// [`Error::CustomIdsDisabled`], [`Error::InvalidSessionId`], [`Error::SessionExists`], then those of
    /// [`Engine::create_session`].
    pub async fn create_session_with_id(&self, id: &str, new: NewSession) -> Result<SessionView, Error> {
        if !self.settings.allow_custom_ids {
            return Err(Error::CustomIdsDisabled);
        }
        let id = id.parse().map_err(|_| Error::InvalidSessionId)?;
        self.insert_session(id, new, String::new(), None).await
    }

    async fn insert_session(
        &self,
        id: SessionId,
        new: NewSession,
        scope: String,
        key: Option<IdempotencyKey>,
    ) -> Result<SessionView, Error> {
        if self.is_stopping() {
            return Err(Error::ShuttingDown);
        }
        let NewSession { state, rules, webhook } = new;
        if let Some(webhook) = &webhook {
            webhook.check(self.settings.webhook_allow_private)?;
        }
        let session = Session { rules, webhook, ..Session::new(id, &self.settings.agent, state.len(), self.now()) };
        let max_sessions = self.settings.max_sessions;
        self.store
            .transact(About::Session(id), move |tx| {
                let created = |session| SessionView { session, interrupts: Vec::new(), replay: None };
                if let Some(reply) = stored_reply(tx, &scope, key.as_ref())? {
                    let MadeSession { session_id: id, at } = MadeSession::read(reply)?;
                    // As it was then: what has become of it since is not for everybody who may make one.
                    return Ok(created(Session { id, created_at: at, updated_at: at, ..session.clone() }));
                }
                if tx.session(id)?.is_some() {
                    return Err(Error::SessionExists);
                }
                check_room(tx, max_sessions)?;
                tx.insert_session(&session, &state)?;
                let made = json!({"session_id": session.id, "at": session.created_at});
                keep_reply(tx, &scope, key.as_ref(), made, session.created_at)?;
                Ok(created(session.clone()))
            })
            .await
    }

    /// Sessions in the order of their making, with their titles.
    ///
    /// # Errors
    /// The store's.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Page<TitledSession>, Error> {
        self.search(query.search.is_some(), move |reader| reader.sessions(&query)).await
    }

    /// What people call the agent of a session: what the one that is served here calls itself, or what its path says.
    pub fn agent_name(&self, agent: &str) -> String {
        let served = if agent == self.settings.agent { self.placement.runtime().ok() } else { None };
        let own = served.and_then(|runtime| runtime.agent);
        naming::agent_name(own.as_deref(), agent).to_owned()
    }

    /// One session.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn session(&self, id: SessionId) -> Result<SessionView, Error> {
        let view = self.store.query(move |reader| view(reader, id)).await?;
        Ok(self.placement.with_waits(view))
    }

    /// One session, once it does not run: at once where it does not, else when something happens, at `timeout`, or
    /// when the server stops.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], and [`Error::SessionDeleted`] when it went away meanwhile.
    pub async fn wait(&self, id: SessionId, timeout: Option<Duration>) -> Result<SessionView, Error> {
        let listener = self.listen(id);
        let known = self.session_at(id).await?;
        self.until_not_running(listener, known, timeout).await
    }

    /// Hears from now on what becomes of a session.
    pub fn listen(&self, id: SessionId) -> Listener<'_> {
        self.telling.listen(id)
    }

    /// As [`Engine::wait`], of a session that `listener` has heard since before a message made `sent` of it.
    ///
    /// # Errors
    /// Those of [`Engine::wait`].
    pub async fn wait_after(
        &self,
        listener: Listener<'_>,
        id: SessionId,
        sent: Option<SessionSnapshot>,
        timeout: Option<Duration>,
    ) -> Result<SessionView, Error> {
        let known = match sent {
            Some(SessionSnapshot { event, view, .. }) if event.get() > 0 => (view, event.get()),
            _ => self.session_at(id).await?,
        };
        self.until_not_running(listener, known, timeout).await
    }

    /// The session, which was `view` when `event` was its newest, once it does not run.
    async fn until_not_running(
        &self,
        mut listener: Listener<'_>,
        (mut view, mut event): (SessionView, u64),
        timeout: Option<Duration>,
    ) -> Result<SessionView, Error> {
        let id = view.session.id;
        let deadline = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        while view.session.status() == Status::Running {
            let shown = tokio::select! {
                shown = listener.heard() => shown,
                () = &mut deadline => break,
                () = self.stopping.cancelled() => break,
            };
            if let Some(shown) = shown.filter(|shown| shown.is_after(&view, event)) {
                (view, event) = (shown.view.clone(), shown.event.get());
                continue;
            }
            (view, event) = self.session_at(id).await.map_err(|error| match error {
                Error::SessionNotFound => Error::SessionDeleted,
                other => other,
            })?;
        }
        Ok(self.placement.with_waits(view))
    }

    /// One session, and the number of its newest event when it was read.
    async fn session_at(&self, id: SessionId) -> Result<(SessionView, u64), Error> {
        self.store.query(move |reader| view_and_newest(reader, id)).await
    }

    /// What a session remembers, without the first `after` messages: all of it, or up to `limit`.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn messages(
        &self,
        id: SessionId,
        after: usize,
        limit: Option<usize>,
    ) -> Result<Page<ChatMessage>, Error> {
        self.store
            .query(move |reader| {
                reader.session(id)?.ok_or(Error::SessionNotFound)?;
                let Some(limit) = limit else {
                    return Ok(Page { items: reader.messages_page(id, after, usize::MAX)?, next: None });
                };
                // One more tells whether there are any.
                let mut items = reader.messages_page(id, after, limit.saturating_add(1))?;
                let next = (items.len() > limit).then(|| after.saturating_add(limit) as u64);
                items.truncate(limit);
                Ok(Page { items, next })
            })
            .await
    }

    /// Removes a session and all it has, for `actor`; a turn at work is stopped. Of what cannot be read nobody is told: a worker
    /// that is at work for such a session hears it from the store, with the next that it says.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn delete_session(self: &Arc<Self>, id: SessionId, actor: Actor) -> Result<(), Error> {
        let owing = self.telling.owed_by(&actor);
        let deleted = self.store.transact(About::Session(id), move |tx| {
            let (mut after_commit, now) = (owing.clone(), tx.now());
            let session = match readable(tx.session(id))? {
                Some(None) => return Err(Error::SessionNotFound),
                read => read.flatten(),
            };
            after_commit.woken.push(id);
            let mut deed = Deed::new(Action::SessionDeleted).session(id);
            if let Some(session) = &session {
                let pending = readable(tx.pending(id))?.unwrap_or_default();
                for cancelled in pending.iter().filter_map(|interrupt| interrupt.cancel(now)) {
                    after_commit.tell_of(tx, session, &cancelled, now)?;
                }
                deed = deed.with("agent", session.agent.as_str()).with("status", session.status().as_str());
                readable(note_left(tx, session))?;
            }
            after_commit.record(tx, deed, now)?;
            tx.delete_session(id)?;
            Ok((session.and_then(|session| session.turn()), after_commit))
        });
        let engine = Arc::clone(self);
        detached(async move {
            let (turn, after_commit) = deleted.await?;
            tracing::info!(session = %id, by = actor.name(), "a session is deleted");
            engine.telling.run(after_commit);
            engine.telling.close(id);
            if let Some(turn) = turn {
                engine.forget(turn);
                engine.placement.stop_worker(turn, "Session deleted");
            }
            Ok(())
        })
        .await
    }

    /// Stops the session's turn for `actor`; its interrupts are cancelled. A parked turn is settled without being started.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::NothingToCancel`].
    pub async fn cancel(self: &Arc<Self>, id: SessionId, actor: Actor) -> Result<SessionView, Error> {
        let owing = self.telling.owed_by(&actor);
        let cancelled = self.store.transact(About::Session(id), move |tx| {
            let (mut after_commit, now) = (owing.clone(), tx.now());
            let session = tx.session(id)?.ok_or(Error::SessionNotFound)?;
            let turn = session.turn().ok_or(Error::NothingToCancel)?;
            let worked = Duration::from_millis(tx.turn(turn)?.ok_or(Error::NothingToCancel)?.life.worked_ms);
            let failure = Failure::cancelled();
            tx.append_foreign(turn, &Entry::Cancel {}, now)?;
            tx.append_foreign(turn, &Entry::End { ending: Ending::Failed(failure.message.clone()) }, now)?;
            after_commit.change(tx, &session, session::Event::TurnFailed { turn, failure }, now)?;
            tx.end_turn(turn, now)?;
            faults::at(Point::EngineCancelWritten);
            Ok(((turn, worked), view(tx, id)?, after_commit))
        });
        let engine = Arc::clone(self);
        detached(async move {
            let ((turn, worked), view, after_commit) = cancelled.await?;
            tracing::info!(session = %id, by = actor.name(), "a turn is cancelled");
            faults::at(Point::EngineCancelCommitted);
            engine.telling.run(after_commit);
            engine.telling.counters().turn_failed(engine.placement.worked(turn).unwrap_or(worked));
            engine.forget(turn);
            engine.placement.stop_worker(turn, "Turn cancelled");
            Ok(view)
        })
        .await
    }

    /// Interrupts over all sessions, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn interrupts(&self, query: InterruptQuery) -> Result<Page<Interrupt>, Error> {
        let mut page = self.search(query.is_search(), move |reader| reader.interrupts(&query)).await?;
        let now = self.now();
        page.items = page.items.into_iter().map(|interrupt| interrupt.as_of(now)).collect();
        Ok(page)
    }

    /// Reads what may look at every row: one at a time, so that it leaves the other readers to everybody else.
    pub(in crate::engine) async fn search<T: Send + 'static>(
        &self,
        is_search: bool,
        read: impl Fn(&dyn Reader) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let searching = if is_search { Some(Arc::clone(&self.journal.searching).lock_owned().await) } else { None };
        let search = self.store.query(move |reader| {
            // Until the search is over, even if whoever wanted it hangs up.
            let _searching = &searching;
            read(reader)
        });
        search.await
    }

    /// One interrupt, by its id as a client wrote it; nobody looks at it for that: see [`Engine::show_to`].
    ///
    /// # Errors
    /// [`Error::UnknownInterrupt`].
    pub async fn interrupt(&self, id: &str) -> Result<Interrupt, Error> {
        let unknown = Error::UnknownInterrupt(id.to_owned());
        let id: InterruptId = id.parse().map_err(|_| unknown.clone())?;
        let interrupt = self.store.query(move |reader| reader.interrupt(id)?.ok_or_else(|| unknown.clone())).await?;
        Ok(interrupt.as_of(self.now()))
    }

    /// Events from now on, or after number `after`, of one session or of all; ends at shutdown.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn subscribe(&self, session: Option<SessionId>, after: Option<u64>) -> Result<Subscription, Error> {
        let subscription = self.telling.subscribe(session, after).await?;
        if let Some(id) = session {
            // After listening has begun, so that a session that goes now is heard to go.
            self.store.query(move |reader| reader.session(id)?.ok_or(Error::SessionNotFound)).await?;
        }
        Ok(subscription)
    }
}

/// What was read; `None` where it cannot be.
fn readable<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(why @ Error::Unreadable(_)) => {
            tracing::warn!(error = %why, "what cannot be read is deleted");
            Ok(None)
        }
        read => read.map(Some),
    }
}
