//! [`Backend`], on PostgreSQL.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::asking::{self, AskedCalls, Replies};
use super::cells::PostgresCells;
use super::connection::{Connection, Frame, SqlCall};
use super::horizon::{Horizon, InTheWay, has_to_wait};
use super::pool::{COMMITTING, ConnectionPool};
use super::writing::CommitCalls;
use super::{PgAddress, lists, opening, sql, writing};
use crate::domain::Error;
use crate::domain::audit::Head;
use crate::domain::search::Needle;
use crate::store::BoxFuture;
use crate::store::clock::Clock;
use crate::store::kept::KeptForms;
use crate::store::open_error::{OpenError, ServerTrouble};
use crate::store::query::{InterruptQuery, Page, SessionQuery, SessionSearch, TitledSession};
use crate::store::rows;
use crate::store::shared::backend::{Backend, Committed};
use crate::store::shared::changes::Changes;
use crate::store::shared::database_clock::{ClockNews, DatabaseClock};
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::shared::servers::ServerId;

/// How long what is read of everybody waits for transactions that have begun before. Ours take a round trip.
const HORIZON_PATIENCE: Duration = Duration::from_millis(250);
/// How long it is between two looks at the database's clock.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(10);
/// How long a deed may stand in the audit before it is linked, where nobody looks.
const LINK_AUDIT: Duration = Duration::from_secs(1);
/// How many rows a search looks at in one round trip.
const SEARCHED_AT_ONCE: usize = 256;

/// A Postgres database that is a store.
#[derive(Clone)]
pub struct PostgresBackend(Arc<Inner>);

pub(super) struct Inner {
    pub(super) pool: Arc<ConnectionPool>,
    pub(super) patience: Duration,
    pub(super) in_the_way: InTheWay,
    /// Whoever links the audit.
    pub(super) linking: tokio::sync::Mutex<()>,
    forms: KeptForms,
    clock: Arc<DatabaseClock>,
    /// Whether what is told is linked here; whoever only reads leaves that to others.
    links: bool,
}

impl PostgresBackend {
    /// Connects to a database for somebody who will change what is there, and makes the schema in it where there is none.
    ///
    /// # Errors
    /// [`OpenError::Server`].
    pub async fn connect(address: &PgAddress) -> Result<Self, OpenError> {
        let first = opening::told(address, opening::open(address)).await?;
        let backend = Self::of(address, first, HORIZON_PATIENCE, true).started(address).await?;
        tokio::spawn(keep_linking(Arc::downgrade(&backend.0)));
        Ok(backend)
    }

    /// Connects to a database for somebody who only reads; it may be a standby.
    ///
    /// # Errors
    /// [`OpenError::Server`].
    pub async fn connect_to_read(address: &PgAddress) -> Result<Self, OpenError> {
        let first = opening::told(address, opening::open_to_read(address)).await?;
        Self::of(address, first, HORIZON_PATIENCE, false).started(address).await
    }

    /// The same, with the time.
    async fn started(self, address: &PgAddress) -> Result<Self, OpenError> {
        self.0.look_at_clock().await.map_err(|error| {
            let trouble = ServerTrouble::Unreachable(error.to_string());
            OpenError::Server { address: address.to_string(), trouble }
        })?;
        tokio::spawn(follow_clock(Arc::downgrade(&self.0)));
        Ok(self)
    }

    /// The time, by the database.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock) as _
    }

    /// Says for whom it commits: nothing does any more once the row of that one is gone.
    pub fn commits_for(&self, member: ServerId) {
        self.0.pool.commits_for(member);
    }

    /// Over a connection that is there, to the newest schema; what is read of everybody waits as long as `patience`.
    pub(super) fn over(address: &PgAddress, first: Connection, patience: Duration) -> Self {
        Self::of(address, first, patience, true)
    }

    fn of(address: &PgAddress, first: Connection, patience: Duration, links: bool) -> Self {
        let pool = Arc::new(ConnectionPool::new(address.clone(), first));
        let (in_the_way, linking, forms, clock) = Default::default();
        Self(Arc::new(Inner { pool, patience, in_the_way, linking, forms, clock, links }))
    }

    /// Binds the deeds that were told since to the end of the audit: where it ends then.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`], [`Error::Unreadable`].
    pub fn link_audit(&self) -> BoxFuture<'static, Result<Head, Error>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.link_audit().await })
    }

    pub(super) fn pool(&self) -> Arc<ConnectionPool> {
        Arc::clone(&self.0.pool)
    }

    pub(super) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.0)
    }

    pub(super) fn ask(
        &self,
        questions: Vec<StoreQuestion>,
    ) -> BoxFuture<'static, Result<Vec<Result<Answer, Error>>, Error>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.answer(questions).await })
    }
}

/// Looks at the database's clock for as long as there is somebody who asks.
async fn follow_clock(inner: Weak<Inner>) {
    loop {
        sleep(LOOK_AT_CLOCK).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.look_at_clock().await {
            tracing::debug!(%error, "the database does not tell the time");
        }
    }
}

/// Links the audit for as long as there is somebody who asks, so that nobody has to wait for much of it.
async fn keep_linking(inner: Weak<Inner>) {
    loop {
        sleep(LINK_AUDIT).await;
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.link_audit().await {
            // Whoever looks at the audit is told.
            tracing::debug!(%error, "the audit is not linked");
        }
    }
}

impl Inner {
    async fn look_at_clock(&self) -> Result<(), Error> {
        if self.look_once().await? {
            self.look_once().await?;
        }
        match self.clock.news() {
            Some(ClockNews::Set) => tracing::warn!(
                "the database's clock was set, or another database is there: it is as late as that one says"
            ),
            Some(ClockNews::Unsteady { millis, seconds }) => tracing::warn!(
                millis,
                seconds,
                "the database's clock goes faster or slower than this machine's: it is slewed, or one of them is wrong"
            ),
            Some(ClockNews::Steady) => tracing::info!("the database's clock goes as this machine's again"),
            None => {}
        }
        Ok(())
    }

    /// Whether it is to be looked again at once.
    async fn look_once(&self) -> Result<bool, Error> {
        let asked = self.clock.moment();
        let replies = self.pool.run(Frame::Snapshot, vec![SqlCall::new(sql!("store/time"), vec![])]).await?;
        let replied = self.clock.moment();
        let Some(row) = replies.first().and_then(|rows| rows.first()) else { return Ok(false) };
        Ok(self.clock.looked(asked, replied, rows::Cells::plain(&mut PostgresCells::new("clock", row))?))
    }

    async fn answer(&self, questions: Vec<StoreQuestion>) -> Result<Vec<Result<Answer, Error>>, Error> {
        let is_of_audit =
            |question: &StoreQuestion| matches!(question, StoreQuestion::Audit(_) | StoreQuestion::AuditHead);
        if self.links && questions.iter().any(is_of_audit) {
            // Where a row cannot be read, those before it can be: the answer below tells them.
            match self.link_audit().await {
                Err(Error::Unreadable(why)) => tracing::error!(why, "the audit cannot be linked any further"),
                linked => drop(linked?),
            }
        }
        let is_of_all = |question: &StoreQuestion| {
            matches!(question, StoreQuestion::LastEvent | StoreQuestion::EventsAfter { session: None, .. })
        };
        let is_any_of_all = questions.iter().any(is_of_all);
        let is_of_access = |question: &StoreQuestion| {
            matches!(question, StoreQuestion::Keys | StoreQuestion::SignIns | StoreQuestion::PushedPolicy)
        };
        let is_apart = !questions.is_empty() && questions.iter().all(is_of_access);
        let mut horizon = Horizon::new(&self.in_the_way, self.patience);
        let (slices, mut replies) = loop {
            let AskedCalls { mut calls, slices } = AskedCalls::of(&questions);
            if is_any_of_all {
                calls.splice(0..0, [horizon.call(), SqlCall::new(sql!("events/horizon"), vec![])]);
            }
            let made = if is_apart {
                self.pool.look_apart(calls).await?
            } else {
                self.pool.run(Frame::Snapshot, calls).await?
            };
            let mut replies = Replies::new(made);
            if !is_any_of_all {
                break (slices, replies);
            }
            let look = replies.next();
            if !horizon.waits(&look, has_to_wait(&replies.next())?).await? {
                break (slices, replies);
            }
        };
        let last_events = replies.last_events(&slices)?;
        let mut answers = Vec::with_capacity(questions.len());
        for question in questions {
            if let StoreQuestion::LastEventOf(id) = question
                && let Some((_, number)) = last_events.iter().find(|told| told.0 == id)
            {
                answers.push(Ok(Answer::Number(*number)));
                continue;
            }
            answers.push(match question {
                StoreQuestion::Interrupts(query) if query.says.is_some() => {
                    drop(replies.next());
                    self.search(query).await.map(Answer::Interrupts)
                }
                StoreQuestion::Sessions(mut query) if query.search.is_some() => {
                    drop(replies.next());
                    let search = query.search.take();
                    self.search_sessions(query, search).await.map(Answer::Sessions)
                }
                question => asking::answer(question, &mut replies, &self.forms),
            });
        }
        Ok(answers)
    }

    /// A page of the interrupts that say something. Case is folded here as it is everywhere else, which no database does.
    async fn search(&self, query: InterruptQuery) -> Result<Page<crate::domain::interrupt::Interrupt>, Error> {
        let needle: Option<Needle> = query.says.clone();
        let limit = query.limit.max(1);
        let mut found = Vec::new();
        let mut rest = InterruptQuery { limit: SEARCHED_AT_ONCE, ..query };
        loop {
            let rows = self.pool.run(Frame::Snapshot, vec![lists::interrupts(&rest)]).await?;
            let read = |cells: &mut PostgresCells<'_>| {
                let (place, interrupt) = rows::interrupt(cells, &self.forms)?;
                Ok((place, (place, interrupt)))
            };
            let rows = rows.first().map(Vec::as_slice).unwrap_or_default();
            let page = lists::page("interrupts", rows, SEARCHED_AT_ONCE, read)?;
            let says = |row: &(u64, _)| needle.as_ref().is_none_or(|needle| lists::says(&row.1, needle));
            found.extend(page.items.into_iter().filter(says));
            if found.len() > limit || page.next.is_none() {
                break;
            }
            rest.cursor = page.next;
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let next = if more { found.last().map(|(place, _)| *place) } else { None };
        Ok(Page { items: found.into_iter().map(|(_, interrupt)| interrupt).collect(), next })
    }

    /// A page of the sessions that a search finds among the next ones, as many as it may look at.
    async fn search_sessions(
        &self,
        query: SessionQuery,
        search: Option<SessionSearch>,
    ) -> Result<Page<TitledSession>, Error> {
        let limit = query.limit.max(1);
        let mut left = search.as_ref().map_or(usize::MAX, |search| search.within.max(1));
        let mut found = Vec::new();
        let mut rest = query;
        let end = loop {
            rest.limit = left.min(SEARCHED_AT_ONCE);
            let rows = self.pool.run(Frame::Snapshot, vec![lists::sessions(&rest)]).await?;
            let rows = rows.first().map(Vec::as_slice).unwrap_or_default();
            let read = |cells: &mut PostgresCells<'_>| {
                let (place, titled) = rows::titled_session(cells)?;
                Ok((place, (place, titled)))
            };
            let page = lists::page("sessions", rows, rest.limit, read)?;
            let finds = |(_, it): &(u64, TitledSession)| {
                search.as_ref().is_none_or(|search| search.finds(it.id, it.title.as_deref()))
            };
            found.extend(page.items.into_iter().filter(finds));
            left -= rest.limit;
            rest.cursor = page.next;
            if found.len() > limit || page.next.is_none() || left == 0 {
                break page.next;
            }
        };
        let more = found.len() > limit;
        found.truncate(limit);
        let next = if more { found.last().map(|(place, _)| *place) } else { end };
        Ok(Page { items: found.into_iter().map(|(_, titled)| titled).collect(), next })
    }

    async fn commit(&self, changes: Changes) -> Result<Committed, Error> {
        if changes.is_empty() {
            return Ok(Committed::Yes { events: Vec::new() });
        }
        let CommitCalls { calls, events } = writing::calls(&changes, &self.forms, self.pool.member())?;
        match self.pool.run_guarded(calls).await {
            Ok(replies) => {
                let mut events = events.map_or_else(|| Ok(Vec::new()), |at| at.of(&replies))?;
                events.sort_unstable();
                Ok(Committed::Yes { events })
            }
            Err(failed) if failed.is_moved() => Ok(Committed::Moved),
            Err(failed) => Err(failed.into()),
        }
    }
}

impl Backend for PostgresBackend {
    fn answer(&self, questions: Vec<StoreQuestion>) -> BoxFuture<'static, Result<Vec<Result<Answer, Error>>, Error>> {
        self.ask(questions)
    }

    fn commit(&self, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.commit(changes).await })
    }

    fn commits_at_once(&self) -> usize {
        COMMITTING
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        let inner = self.inner();
        Box::pin(async move {
            if inner.links
                && let Err(error) = inner.link_audit().await
            {
                // The next one does.
                tracing::debug!(%error, "the last of the audit is not linked");
            }
            inner.pool.close().await
        })
    }
}
