//! A database that is none: what [`Backend`] asks for, over a memory store's rows. It shows what a real one has to do, and
//! stands in for one where tests want to lose, delay and repeat what goes between it and its servers.

mod answering;
pub mod apart;
mod committing;
pub mod entropy;
mod graphs;
pub mod history;
pub mod members;
pub mod network;
mod properties;
mod upkeep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::domain::{Error, SessionId, StoreId, Timestamp};
use crate::store::BoxFuture;
use crate::store::Reader;
use crate::store::clock::Clock;
use crate::store::memory::state::MemoryState;
use crate::store::shared::backend::{Backend, Committed};
use crate::store::shared::changes::Changes;
use crate::store::shared::question::{Answer, StoreQuestion, Version};
use crate::store::shared::servers::ServerId;
use members::{BellListeners, MemberRows};

/// See the module. A clone is another connection to the same.
#[derive(Clone)]
pub struct SimulatedDatabase {
    rows: Arc<Mutex<Rows>>,
    /// Who hears of what others commit.
    listeners: BellListeners,
}

/// What a database does not look at: each of them is needed, or nothing would go wrong without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// What was drawn when a session was written last.
    Token,
    /// That, and how often it was written.
    Version,
    /// What others have left and done: looks find nothing.
    Looks,
    /// How turns that nobody has stand: whoever asks for it waits.
    Left,
    /// How late it was when a session was written last.
    Latest,
    /// How often another one has taken its place.
    Promotions,
    /// Whether whoever commits is still there.
    Rows,
    /// How late it is: servers go by the clocks on their walls.
    Time,
}

/// Everything there is.
#[derive(Clone)]
pub(crate) struct Rows {
    state: MemoryState,
    versions: HashMap<SessionId, Version>,
    members: MemberRows,
    left_out: Option<LeftOut>,
    /// How often another database has taken the place of this one.
    promotions: u64,
    is_closed: bool,
    /// How far ahead of its own clock what was written is, in milliseconds.
    ahead: i64,
    /// How often it was asked, and how often something was committed.
    calls: (u64, u64),
}

impl SimulatedDatabase {
    /// An empty one, at the time of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = MemoryState::new(StoreId(Uuid::new_v4()), clock);
        Self {
            rows: Arc::new(Mutex::new(Rows {
                state,
                versions: HashMap::new(),
                members: MemberRows::default(),
                left_out: None,
                // As of a database that no standby has taken the place of: its first timeline is the first.
                promotions: 1,
                is_closed: false,
                ahead: i64::MIN,
                calls: (0, 0),
            })),
            listeners: BellListeners::default(),
        }
    }

    /// The same without one of its rules.
    pub fn without(self, rule: Option<LeftOut>) -> Self {
        self.lock().left_out = rule;
        self
    }

    /// How often it was asked and how often something was committed, since this was called last.
    pub fn calls(&self) -> (u64, u64) {
        std::mem::take(&mut self.lock().calls)
    }

    /// How late it is.
    pub(super) fn now(&self) -> BoxFuture<'static, Result<Timestamp, Error>> {
        self.with(|rows| Ok(rows.state.now()))
    }

    /// How far ahead of its own clock the latest of all times that were ever written is, in milliseconds.
    pub fn ahead(&self) -> i64 {
        self.lock().ahead
    }

    /// What is there now, for [`SimulatedDatabase::fail_over`].
    pub fn standby(&self) -> Rows {
        self.lock().clone()
    }

    /// It is lost, and one takes its place that was behind: what was committed since is gone.
    pub fn fail_over(&self, standby: Rows) {
        let mut rows = self.lock();
        let promotions = rows.promotions + 1;
        *rows = Rows { promotions, ..standby };
    }

    /// Commits for a server, unless that was buried.
    fn commit_for(&self, member: Option<ServerId>, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>> {
        self.with(move |rows| {
            rows.calls.1 += 1;
            if member.is_some_and(|member| !rows.may_commit(member)) {
                return Err(Error::StoreUnavailable("another server has taken the place of this one".to_owned()));
            }
            let committed = rows.commit(changes)?;
            if let (Some(member), Committed::Yes { .. }) = (member, &committed) {
                rows.has_committed(member);
            }
            Ok(committed)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with all rows at once.
    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Rows) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let database = self.clone();
        Box::pin(async move {
            let mut rows = database.lock();
            if rows.is_closed {
                return Err(Error::StoreUnavailable("the store is closed".to_owned()));
            }
            act(&mut rows)
        })
    }
}

impl Backend for SimulatedDatabase {
    fn answer(&self, questions: Vec<StoreQuestion>) -> BoxFuture<'static, Result<Vec<Result<Answer, Error>>, Error>> {
        self.with(move |rows| {
            rows.calls.0 += 1;
            Ok(questions.iter().map(|question| rows.answer(question)).collect())
        })
    }

    fn commit(&self, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>> {
        self.commit_for(None, changes)
    }

    fn commits_at_once(&self) -> usize {
        usize::MAX
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.lock().is_closed = true;
        Box::pin(std::future::ready(Ok(())))
    }
}
