//! A network that loses and delays what is sent to a database, and delivers some of it too late; and a database that fails
//! over to one that is behind.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::yield_now;

use super::SimulatedDatabase;
use crate::domain::audit::Deed;
use crate::domain::notice::Notice;
use crate::domain::seeds::Random;
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::store::BoxFuture;
use crate::store::outbox::OutboxFigures;
use crate::store::record::{Due, PendingCount};
use crate::store::shared::backend::{Backend, Committed};
use crate::store::shared::changes::Changes;
use crate::store::shared::question::{Answer, StoreQuestion};
use crate::store::signals::{HeldHere, OrphanedTurn, OthersSnapshot, TurnTaker};
use crate::store::upkeep::{ReadyTurns, Sweep, Totals, Upkeep};

/// How bad it is: chances of a hundred.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    /// That a request is lost before it arrives.
    pub lost: u64,
    /// That its reply is.
    pub unanswered: u64,
    /// That a commit arrives only when it was given up.
    pub held: u64,
    /// The most turns of the world that a message takes.
    pub slow: u64,
}

/// A server's connection to a database, through the network.
#[derive(Clone)]
pub struct SimulatedConnection {
    database: SimulatedDatabase,
    weather: Weather,
    random: Arc<Mutex<Random>>,
}

impl SimulatedConnection {
    /// To `database`, in that weather.
    pub fn new(database: SimulatedDatabase, weather: Weather, seed: u64) -> Self {
        Self { database, weather, random: Arc::new(Mutex::new(Random(seed))) }
    }

    pub(super) fn database(&self) -> &SimulatedDatabase {
        &self.database
    }

    fn chance(&self, per_cent: u64) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).chance(per_cent)
    }

    async fn travel(&self) {
        let turns = self.random.lock().unwrap_or_else(PoisonError::into_inner).within(0..self.weather.slow + 1);
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
            connection.travel().await;
            if connection.chance(connection.weather.lost) {
                return Err(broken());
            }
            let reply = request.await;
            connection.travel().await;
            if connection.chance(connection.weather.unanswered) { Err(broken()) } else { reply }
        })
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
        if !self.chance(self.weather.held) {
            return self.send(self.database.commit(changes));
        }
        Box::pin(async move {
            connection.travel().await;
            let held = connection.database.commit(changes);
            // Somebody on the way keeps it, and delivers it when nobody waits for it any more.
            drop(tokio::spawn(async move {
                for _ in 0..5 {
                    connection.travel().await;
                }
                held.await
            }));
            Err(broken())
        })
    }

    fn wait(&self, _look: u32) -> BoxFuture<'static, ()> {
        let connection = self.clone();
        Box::pin(async move { connection.travel().await })
    }

    fn close(&self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Upkeep for SimulatedConnection {
    fn orphaned_turns(&self, taker: TurnTaker) -> BoxFuture<'static, Result<Vec<OrphanedTurn>, Error>> {
        self.send(self.database.orphaned_turns(taker))
    }

    fn ready_turns(&self) -> BoxFuture<'static, Result<Option<ReadyTurns>, Error>> {
        self.send(self.database.ready_turns())
    }

    fn look(&self, taker: TurnTaker, held: Vec<HeldHere>) -> BoxFuture<'static, Result<OthersSnapshot, Error>> {
        self.send(self.database.look(taker, held))
    }

    fn due(&self, now: Timestamp, limit: usize) -> BoxFuture<'static, Result<Vec<Due>, Error>> {
        self.send(self.database.due(now, limit))
    }

    fn next_due(&self) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.send(self.database.next_due())
    }

    fn retriable_turns(&self, code: String, limit: usize) -> BoxFuture<'static, Result<Vec<TurnId>, Error>> {
        self.send(self.database.retriable_turns(code, limit))
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
        except: Vec<String>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Notice>, Error>> {
        self.send(self.database.due_notices(now, except, limit))
    }

    fn next_notice_at(&self, except: Vec<String>) -> BoxFuture<'static, Result<Option<Timestamp>, Error>> {
        self.send(self.database.next_notice_at(except))
    }

    fn release_notices(&self, now: Timestamp) -> BoxFuture<'static, Result<(), Error>> {
        self.send(self.database.release_notices(now))
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
