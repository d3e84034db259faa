//! Recovery: turns whose worker or server is gone go on by a replay.
//!
//! At the start, paused turns are parked without starting anything, and everything else that is open is taken up again
//! before new work. A turn that loses its worker is claimed at once, so that a worker that is only late writes nothing,
//! and started again after a pause that grows; after `--max-recoveries` it is suspended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::domain::journal::{Entry, PendingTimer};
use crate::domain::session::{Failure, Session};
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::journal::routing::WithheldTurns;
use crate::engine::journal::turn_claims::owned_turn;
use crate::engine::placement::live::LiveSnapshot;
use crate::engine::placement::turn_queue::NEVER_CLAIMED;
use crate::engine::ports::dispatch::Lost;
use crate::engine::telling::after_commit::AfterCommit;
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::DueKind;
use crate::store::signals::{KnownTurn, LeftTurn, OrphanedTurn};
use crate::store::{Reader, StoreExt, Transaction};

/// How long a turn waits before it is taken up again, by how often it was before. The last one stands for all after it.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
];
/// How many turns that nobody has are read at once, in one statement, and settled at once, each in a transaction of its own; the
/// store commits them together.
pub(in crate::engine) const AT_ONCE: usize = 256;

/// What becomes of a turn that lost its worker.
enum Fate {
    /// It was paused: it is parked.
    Parked(Option<Timestamp>),
    /// It is taken up again, at this epoch.
    Again(Duration, u64),
    /// It has failed, for good or until it is retried.
    Failed(AfterCommit),
}

/// What came of taking up turns that nobody has.
#[derive(Default)]
struct TakenUp {
    parked: usize,
    go_on: usize,
    /// Those that could not be settled yet.
    failed: Vec<OrphanedTurn>,
}

/// A turn that was left open: by the last server, or, where several share the store, by one that is gone or has no slot.
struct Left {
    orphan: OrphanedTurn,
    epoch: u64,
    session: SessionId,
    agent: String,
    /// Whether it can be parked.
    is_paused: bool,
}

impl Left {
    fn new(orphan: OrphanedTurn, left: &LeftTurn) -> Self {
        let LeftTurn { epoch, session, paused } = left;
        let is_paused = paused.as_ref().is_some_and(|timers| paused_until(timers, session).is_some());
        Self { orphan, epoch: *epoch, session: session.id, agent: session.agent.clone(), is_paused }
    }
}

impl Engine {
    /// Settles what the last server left open. Nothing is started before this returns. What could not be settled is tried again,
    /// by then beside all else. Also where others share the store: looks find those of this server's agent again, and of no other.
    ///
    /// # Errors
    /// The store's, where it does not even say what was left open.
    pub(in crate::engine) async fn recover(self: &Arc<Self>) -> Result<(), Error> {
        faults::at(Point::EngineRecover);
        let taker = self.taker(&WithheldTurns::default())?;
        let orphans = self.store.upkeep().orphaned_turns(taker).await?;
        let failed = self.take_up(orphans).await;
        if !failed.is_empty() {
            let engine = Arc::clone(self);
            tokio::spawn(async move { engine.take_up_until_done(failed).await });
        }
        Ok(())
    }

    async fn take_up_until_done(self: &Arc<Self>, mut failed: Vec<OrphanedTurn>) {
        for pause in PAUSES.into_iter().chain(std::iter::repeat(PAUSES[PAUSES.len() - 1])) {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(pause) => failed = self.take_up(failed).await,
            }
            self.pump();
            if failed.is_empty() {
                return;
            }
        }
    }

    /// Parks or takes up turns that nobody has. Another server may do the same: each is settled by one of them. Those that this
    /// one could not settle yet: it has said why, and none of them keeps the others from it.
    pub(in crate::engine) async fn take_up(self: &Arc<Self>, orphans: Vec<OrphanedTurn>) -> Vec<OrphanedTurn> {
        let mut all = TakenUp::default();
        for some in orphans.chunks(AT_ONCE) {
            // Where the server stops, the next one takes them up.
            if self.is_stopping() {
                all.failed.extend_from_slice(some);
            } else if let Err(error) = self.take_up_some(some, &mut all).await {
                tracing::error!(turns = some.len(), %error, "turns that nobody has could not be taken up; it is tried again");
                all.failed.extend_from_slice(some);
            }
        }
        let TakenUp { parked, go_on, failed } = all;
        if parked + go_on > 0 {
            tracing::info!(waiting = parked, taken_up = go_on, "turns that were left open go on");
        }
        faults::at(Point::EngineRecovered);
        failed
    }

    /// The same of no more than are read at once; where that is an error, none of them was settled.
    async fn take_up_some(self: &Arc<Self>, orphans: &[OrphanedTurn], all: &mut TakenUp) -> Result<(), Error> {
        let can_replay = self.placement.runtime()?.replay;
        let (mut waiting, mut rest) = (Vec::new(), Vec::new());
        for (orphan, left) in self.store.upkeep().left_turns(orphans.to_vec()).await? {
            let left = match left {
                Ok(left) => Left::new(orphan, &left),
                Err(why) => {
                    all.failed.extend(self.suspend_orphan(orphan, &why).await);
                    continue;
                }
            };
            // What another agent's turns wait for is waited for all the same; nobody here runs them.
            let is_ours = self.runs_turns() && left.agent == self.settings.agent;
            if left.is_paused && (can_replay || !is_ours) {
                waiting.push(left);
            } else if is_ours {
                rest.push(left);
            }
        }
        self.park_all(&waiting, all).await;
        all.go_on += rest.len();
        // Nobody has ever had those that were written where no slot was free: they begin.
        let (new, rest): (Vec<Left>, Vec<Left>) = rest.into_iter().partition(|left| left.epoch == NEVER_CLAIMED);
        new.iter().for_each(|left| self.placement.put_unclaimed(left.orphan.turn));
        if can_replay {
            rest.iter().for_each(|left| self.placement.put_first(left.orphan.turn, left.epoch));
        } else {
            self.fail_all(&rest, all).await;
        }
        Ok(())
    }

    async fn park_all(self: &Arc<Self>, waiting: &[Left], all: &mut TakenUp) {
        let park = |left: &Left| {
            let (turn, epoch) = (left.orphan.turn, left.epoch);
            self.store.transact(About::Session(left.session), move |tx| park_left(tx, turn, epoch))
        };
        let parked: Vec<_> = waiting.iter().map(park).collect();
        for (left, parked) in waiting.iter().zip(join_all(parked).await) {
            match parked {
                Ok(Some(wake_at)) => {
                    all.parked += 1;
                    wake_at.into_iter().for_each(|at| self.journal.alarm.set(at));
                }
                // It was answered, claimed or ended meanwhile: it is read again.
                Ok(None) => all.failed.push(left.orphan),
                Err(why) => all.failed.extend(self.try_again(left.orphan, &why).await),
            }
        }
        if !waiting.is_empty() {
            faults::at(Point::EngineRecoverParked);
        }
    }

    async fn fail_all(self: &Arc<Self>, left: &[Left], all: &mut TakenUp) {
        let fail = |left: &Left| {
            let (engine, session) = (Arc::clone(self), left.session);
            let (turn, epoch) = (left.orphan.turn, left.epoch);
            self.store.transact(About::Session(session), move |tx| engine.fail_not_replayable(tx, session, turn, epoch))
        };
        let ended: Vec<_> = left.iter().map(fail).collect();
        for (left, ended) in left.iter().zip(join_all(ended).await) {
            match ended {
                Ok(owed) => owed.into_iter().for_each(|owed| self.telling.run(owed)),
                Err(why) => all.failed.extend(self.try_again(left.orphan, &why).await),
            }
        }
    }

    /// The orphan again, where it is to be tried again.
    async fn try_again(self: &Arc<Self>, orphan: OrphanedTurn, why: &Error) -> Option<OrphanedTurn> {
        match why {
            Error::Unreadable(_) => self.suspend_orphan(orphan, why).await,
            // Somebody has deleted it meanwhile.
            Error::SessionNotFound | Error::TurnNotOpen(_) | Error::StaleEpoch => None,
            error => {
                tracing::error!(turn = %orphan.turn, %error, "a turn that nobody has could not be settled; it is tried again");
                Some(orphan)
            }
        }
    }

    async fn suspend_orphan(self: &Arc<Self>, orphan: OrphanedTurn, why: &Error) -> Option<OrphanedTurn> {
        let error = self.suspend_unreadable(DueKind::Timers(orphan.turn), why).await.err()?;
        tracing::error!(turn = %orphan.turn, %error, "a turn that cannot be read could not be suspended; it is tried again");
        Some(orphan)
    }

    fn fail_not_replayable(
        &self,
        tx: &mut dyn Transaction,
        session: SessionId,
        turn: TurnId,
        epoch: u64,
    ) -> Result<Option<AfterCommit>, Error> {
        if !is_still_left(tx, turn, epoch)? {
            return Ok(None);
        }
        let now = tx.now();
        let session = tx.session(session)?.ok_or(Error::TurnNotOpen(None))?;
        self.fail(tx, &session, turn, Failure::not_replayable(), now).map(Some)
    }

    /// Notes of turns that were still at work when this server was to end that they are so no more: whoever has them next would
    /// take them for turns whose server was killed.
    pub(in crate::engine) async fn give_back(&self, left: Vec<(KnownTurn, LiveSnapshot)>) {
        let given = left.into_iter().map(|(KnownTurn { turn, session, epoch, .. }, standing)| {
            self.store.transact(About::Session(session), move |tx| {
                standing.check_stands(tx)?;
                tx.lose_turn(turn, epoch, false, standing.worked_ms()).map(drop)
            })
        });
        for given in join_all(given).await {
            match given {
                // It has just ended, or is another server's.
                Ok(()) | Err(Error::TurnNotOpen(_) | Error::StaleEpoch) => {}
                Err(error) => {
                    tracing::warn!(%error, "a turn that is left to the next server counts as lost with this one")
                }
            }
        }
    }

    /// See [`crate::engine::ports::dispatch::TurnInbox::turn_lost`].
    ///
    /// # Errors
    /// [`Error::StaleEpoch`], [`Error::TurnNotOpen`].
    pub async fn turn_lost(self: &Arc<Self>, turn: TurnId, epoch: u64, lost: Lost) -> Result<(), Error> {
        let standing = self.standing(turn, epoch)?;
        faults::at(Point::EngineLost);
        if let Lost::Violation { message } = lost {
            return self.turn_failed(turn, epoch, Failure::new("worker_protocol", message)).await;
        }
        let counts = match self.host.take_up(lost) {
            // The next server takes it up, or nobody does.
            None | Some(Lost::Stopping | Lost::Violation { .. }) => {
                self.leave(turn, epoch);
                return Ok(());
            }
            Some(Lost::Exited { .. } | Lost::Silent) => true,
            Some(Lost::Unstored { .. } | Lost::Outdated) => false,
        };
        // Nobody works at it any more: how long the store is away is none of its time.
        self.placement.rest(turn, standing.run);
        let standing = self.standing_of(turn, epoch, standing.run)?;
        let fate = self.persist(turn, || {
            let (engine, standing) = (Arc::clone(self), standing.clone());
            move |tx: &mut dyn Transaction| {
                standing.check_stands(tx)?;
                engine.decide(tx, turn, epoch, counts, standing.worked_ms())
            }
        });
        let fate = fate.await;
        faults::at(Point::EngineLostCommitted);
        match fate {
            Ok(Fate::Parked(wake_at)) => {
                self.is_parked(turn, epoch, wake_at);
                self.pump();
            }
            Ok(Fate::Failed(after_commit)) => {
                self.telling.counters().turn_failed(standing.worked);
                self.leave(turn, epoch);
                self.telling.run(after_commit);
            }
            Ok(Fate::Again(pause, ready_at)) => {
                self.telling.counters().recovered();
                self.take_up_later(turn, ready_at, pause);
                self.leave(turn, epoch);
            }
            // The server stops: the next one takes it up.
            Err(Error::StoreUnavailable(_)) => self.leave(turn, epoch),
            Err(why @ Error::Unreadable(_)) => {
                self.leave(turn, epoch);
                self.suspend_unreadable(DueKind::Timers(turn), &why).await?;
            }
            Err(error) => {
                self.leave(turn, epoch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Decides over a turn that lost its worker after so long at work, inside a transaction.
    fn decide(
        &self,
        tx: &mut dyn Transaction,
        turn: TurnId,
        epoch: u64,
        counts: bool,
        worked_ms: u64,
    ) -> Result<Fate, Error> {
        let now = tx.now();
        let row = owned_turn(tx, turn, epoch)?;
        let session = tx.session(row.session_id)?.ok_or(Error::TurnNotOpen(None))?;
        if !self.placement.runtime()?.replay {
            return Ok(Fate::Failed(self.fail(tx, &session, turn, Failure::not_replayable(), now)?));
        }
        if let Some(wake_at) = paused(tx, turn, &session)? {
            tx.park_turn(turn, epoch, wake_at, worked_ms)?;
            return Ok(Fate::Parked(wake_at));
        }
        let recoveries = tx.lose_turn(turn, epoch, counts, worked_ms)?;
        if counts && recoveries > self.settings.max_recoveries {
            return Ok(Fate::Failed(self.fail(tx, &session, turn, Failure::worker_exited(), now)?));
        }
        faults::at(Point::EngineLostWritten);
        let place = usize::try_from(recoveries).unwrap_or(usize::MAX).clamp(1, PAUSES.len()) - 1;
        let ready_at = tx.life(turn)?.ok_or(Error::TurnNotOpen(None))?.epoch;
        Ok(Fate::Again(PAUSES[place], ready_at))
    }

    fn take_up_later(self: &Arc<Self>, turn: TurnId, epoch: u64, pause: Duration) {
        let engine = Arc::clone(self);
        self.placement.rests(turn);
        tokio::spawn(async move {
            tokio::select! {
                () = engine.stopping.cancelled() => {}
                () = tokio::time::sleep(pause) => {
                    engine.placement.has_rested(turn, epoch);
                    engine.pump();
                }
            }
        });
    }
}

/// Whether nobody has claimed or settled the turn since it was at `epoch`.
fn is_still_left(reader: &dyn Reader, turn: TurnId, epoch: u64) -> Result<bool, Error> {
    Ok(reader.life(turn)?.is_some_and(|life| life.check_owner(epoch).is_ok()))
}

/// Parks a turn that nobody has, where it still is paused: when its earliest timer is due, if it was parked and has one. One
/// that was answered meanwhile is found again by whoever looks next.
fn park_left(tx: &mut dyn Transaction, turn: TurnId, epoch: u64) -> Result<Option<Option<Timestamp>>, Error> {
    if !is_still_left(tx, turn, epoch)? {
        return Ok(None);
    }
    let Some(row) = tx.turn(turn)? else { return Ok(None) };
    let Some(session) = tx.session(row.session_id)? else { return Ok(None) };
    let Some(wake_at) = paused(tx, turn, &session)? else { return Ok(None) };
    tx.park_turn(turn, epoch, wake_at, row.life.worked_ms)?;
    Ok(Some(wake_at))
}

/// Where the turn is paused and something will wake it: when its earliest timer is due, if it has one.
fn paused(reader: &dyn Reader, turn: TurnId, session: &Session) -> Result<Option<Option<Timestamp>>, Error> {
    Ok(match reader.last_entry(turn)?.map(|last| last.entry) {
        Some(Entry::Pause { timers, .. }) => paused_until(&timers, session),
        _ => None,
    })
}

/// The same of a pause with these timers.
fn paused_until(timers: &[PendingTimer], session: &Session) -> Option<Option<Timestamp>> {
    let wake_at = timers.iter().map(|timer| timer.due).min();
    (wake_at.is_some() || !session.pending().is_empty()).then_some(wake_at)
}
