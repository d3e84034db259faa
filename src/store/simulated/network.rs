//! A network that loses and delays what is sent to a database, and delivers some of it too late; and a database that fails
//! over to one that is behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::SimulatedDatabase;
use crate::domain::audit::Deed;
use crate::domain::notice::Notice;
use crate::domain::seeds::Random;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::BoxFuture;
use crate::store::outbox::OutboxFigures;
use crate::store::record::{Due, PendingCount, RetriableTurn};
use crate::store::shared::backend::{Backend, Committed};
use crate::store::shared::changes::Changes;
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::shared::servers::ServerId;
use crate::store::signals::{AccessVersion, KnownTurn, OrphanedTurn, OthersSnapshot, TurnTaker};
use crate::store::upkeep::{LeftTurns, ReadyTurns, Receivers, Sweep, Totals, Upkeep};

/// How bad it is: chances of a hundred.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// That a request is lost before it arrives.
    pub lost: u64,
    /// That its reply is.
    pub unanswered: u64,
    /// That a commit arrives only when it was given up.
    pub late: u64,
    /// That a commit arrives twice, the second time much later.
    pub repeated: u64,
    /// That the database refuses a commit which crosses another one (a deadlock, a serialization failure), though nothing has moved.
    pub refused: u64,
    /// The most turns of the world that a message takes.
    pub slow: u64,
    /// The most milliseconds that it takes besides, for worlds that have a time of their own.
    pub slow_ms: u64,
}

/// How a server stands in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It reaches what it wants to.
    Open,
    /// It is stopped: nothing leaves it, and it hears of nothing, until it goes on.
    Frozen,
    /// Nothing goes through between it and the database.
    Cut,
    /// It is dead: what it was about to say is never said.
    Gone,
}

/// A server's end of the network.
#[derive(Debug)]
pub struct Link {
    state: watch::Sender<LinkState>,
    weather: Mutex<Weather>,
}

impl Link {
    /// One that is open.
    pub fn new(weather: Weather) -> Arc<Self> {
        Arc::new(Self { state: watch::Sender::new(LinkState::Open), weather: Mutex::new(weather) })
    }

    /// From now on.
    pub fn set(&self, state: LinkState) {
        // Nobody comes back to life.
        self.state.send_if_modified(|before| *before != LinkState::Gone && std::mem::replace(before, state) != state);
    }

    /// As it is now.
    pub fn state(&self) -> LinkState {
        *self.state.borrow()
    }

    /// Changes the weather.
    pub fn calm(&self, weather: Weather) {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = weather;
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves at once where the server goes on, else when it does.
    pub async fn goes_on(&self) {
        let goes_on = |state: &LinkState| matches!(state, LinkState::Open | LinkState::Cut);
        // The sender lives as long as this.
        drop(self.state.subscribe().wait_for(goes_on).await);
    }

    fn is_cut(&self) -> bool {
        self.state() == LinkState::Cut
    }
}

/// After how long whoever hears nothing takes a connection for broken.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server's connection to a database, through the network.
#[derive(Clone)]
pub struct SimulatedConnection {
    database: SimulatedDatabase,
    link: Arc<Link>,
    random: Arc<Mutex<Random>>,
    /// For whom it commits, where that is looked at.
    member: Arc<OnceLock<ServerId>>,
    /// Whether its last commit was refused because it crossed another one.
    crosses: Arc<AtomicBool>,
}

impl SimulatedConnection {
    /// To `database`, in that weather.
    pub fn new(database: SimulatedDatabase, weather: Weather, seed: u64) -> Self {
        Self::over(database, Link::new(weather), seed)
    }

    /// The same over a server's link.
    pub fn over(database: SimulatedDatabase, link: Arc<Link>, seed: u64) -> Self {
        Self {
            database,
            link,
            random: Arc::new(Mutex::new(Random(seed))),
            member: Arc::default(),
            crosses: Arc::default(),
        }
    }

    /// Says for whom it commits: nothing does any more once the row of that one is gone.
    pub fn commits_for(&self, member: ServerId) {
        self.member.set(member).unwrap_or_default();
    }

    pub(super) fn database(&self) -> &SimulatedDatabase {
        &self.database
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    fn member(&self) -> Option<ServerId> {
        self.member.get().copied()
    }

    pub(super) fn chance(&self, per_cent: impl Fn(Weather) -> u64) -> bool {
        let per_cent = per_cent(self.link.weather());
        self.random.lock().unwrap_or_else(PoisonError::into_inner).chance(per_cent)
    }

    pub(super) async fn travel(&self) {
        let weather = self.link.weather();
        let (turns, ms) = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            (
                random.within(0..weather.slow + 1),
                if weather.slow_ms > 0 { random.within(0..weather.slow_ms) } else { 0 },
            )
        };
        if ms > 0 {
            sleep(Duration::from_millis(ms)).await;
        }
        for _ in 0..turns {
            yield_now().await;
        }
    }

    /// A request and its reply.
    pub(super) fn send<T: Send + 'static>(
        &self,
        request: BoxFuture<'static, Result<T, Error>>,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let connection = self.clone();
        Box::pin(async move {
            connection.link.goes_on().await;
            connection.travel().await;
            if connection.link.is_cut() {
                return connection.hears_nothing().await;
            }
            if connection.chance(|weather| weather.lost) {
                return Err(broken());
            }
            let reply = request.await;
            connection.travel().await;
            if connection.link.is_cut() {
                return connection.hears_nothing().await;
            }
            connection.link.goes_on().await;
            if connection.chance(|weather| weather.unanswered) { Err(broken()) } else { reply }
        })
    }

    /// How late it is by the database's clock.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`].
    pub async fn now(&self) -> Result<Timestamp, Error> {
        self.send(self.database.now()).await
    }

    async fn hears_nothing<T>(&self) -> Result<T, Error> {
        sleep(PATIENCE).await;
        self.link.goes_on().await;
        Err(broken())
    }
}

fn broken() -> Error {
    Error::StoreUnavailable("the connection is broken".to_owned())
}

impl Backend for SimulatedConnection {
    fn answer(&self, questions: Vec<StoreQuestion>) -> BoxFuture<'static, Result<Vec<Result<Answer, Error>>, Error>> {
        self.send(self.database.answer(questions))
    }

    fn commit(&self, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>> {
        let connection = self.clone();
        if self.link.is_cut() && self.chance(|_| 50) {
            // What it has said into the dark may be heard when there is light again, however long it has given up by then.
            let late = self.database.commit_for(self.member(), changes.clone());
            drop(tokio::spawn(connection.clone().arrives_when_it_can(late)));
        }
        if !self.chance(|weather| weather.late) {
            return self.send(self.sent(changes));
        }
        Box::pin(async move {
            connection.link.goes_on().await;
            connection.travel().await;
            let late = connection.database.commit_for(connection.member(), changes);
            // Somebody on the way keeps it, and delivers it when nobody waits for it any more.
            drop(tokio::spawn(connection.arrives_late(late)));
            Err(broken())
        })
    }

    fn commits_at_once(&self) -> usize {
        2
    }

    fn wait(&self, _look: u32) -> BoxFuture<'static, ()> {
        let connection = self.clone();
        Box::pin(async move { connection.travel().await })
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl SimulatedConnection {
    /// A commit that arrives, and perhaps once more. Never before its first time: whoever waits hears of that one.
    fn sent(&self, changes: Changes) -> BoxFuture<'static, Result<Committed, Error>> {
        let again = self.chance(|weather| weather.repeated).then(|| {
            let again = self.database.commit_for(self.member(), changes.clone());
            self.clone().arrives_late(again)
        });
        // Often several times, as long as the two of them try again together.
        let is_refused = self.chance(|weather| if self.crosses.load(Ordering::SeqCst) { 50 } else { weather.refused });
        self.crosses.store(is_refused, Ordering::SeqCst);
        if is_refused {
            drop(again);
            return Box::pin(std::future::ready(Ok(Committed::Moved)));
        }
        let first = self.database.commit_for(self.member(), changes);
        Box::pin(async move {
            let reply = first.await;
            drop(again.map(tokio::spawn));
            reply
        })
    }

    async fn arrives_when_it_can(self, commit: BoxFuture<'static, Result<Committed, Error>>) {
        // The sender lives as long as this.
        drop(self.link.state.subscribe().wait_for(|state| *state == LinkState::Open).await);
        self.arrives_late(commit).await;
    }

    async fn arrives_late(self, commit: BoxFuture<'static, Result<Committed, Error>>) {
        self.link.goes_on().await;
        for _ in 0..5 {
            self.travel().await;
        }
        if !self.link.is_cut() {
            // Nobody waits for it.
            drop(commit.await);
        }
    }
}

impl Upkeep for SimulatedConnection {
    fn orphaned_turns(&self, taker: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>> {
        self.send(self.database.orphaned_turns(taker))
    }

    fn left_turns(&self, orphans: Vec<OrphanedTurn>) -> BoxFuture<'static, Result<LeftTurns, Error>> {
        self.send(self.database.left_turns(orphans))
    }

    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>> {
        self.send(self.database.ready_turns())
    }

    fn look(&self, taker: TurnTaker, known: Vec<KnownTurn>) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        self.send(self.database.look_for(self.member(), taker.agent, known))
    }

    fn access_version(&self) -> BoxFuture<'static, Result<AccessVersion, Error>> {
        self.send(self.database.access_version())
    }

    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>> {
        self.send(self.database.due(now, limit))
    }

    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.send(self.database.next_due())
    }

    fn retriable_turns(
        &self,
        agent: String,
        code: String,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<RetriableTurn>, Error>> {
        self.send(self.database.retriable_turns(agent, code, after, limit))
    }

    fn suspended_turns(
        &self,
        before: Timestamp,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        self.send(self.database.suspended_turns(before, skip, limit))
    }

    fn due_notices(
        &self,
        now: Timestamp,
        receivers: Receivers,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>> {
        self.send(self.database.due_notices(now, receivers, limit))
    }

    fn next_notice_at(&self, receivers: Receivers) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.send(self.database.next_notice_at(receivers))
    }

    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database.release_notices_beside(self.member(), now))
    }

    fn sweep(&self, kind: Sweep, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        self.send(self.database.sweep(kind, before, limit))
    }

    fn sweep_sessions(
        &self,
        before: Timestamp,
        limit: usize,
        deed: Deed,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Vec<SessionId>, Error>> {
        self.send(self.database.sweep_sessions(before, limit, deed, now))
    }

    fn compact_journals(&self, before: Timestamp, limit: usize) -> BoxFuture<'static, Result<usize, Error>> {
        self.send(self.database.compact_journals(before, limit))
    }

    fn totals(&self) -> BoxFuture<'static, Result<Totals, Error>> {
        self.send(self.database.totals())
    }

    fn outbox_figures(&self) -> BoxFuture<'static, Result<OutboxFigures, Error>> {
        self.send(self.database.outbox_figures())
    }

    fn count_pending(&self, now: Timestamp) -> BoxFuture<'static, Result<Vec<PendingCount>, Error>> {
        self.send(self.database.count_pending(now))
    }
}
