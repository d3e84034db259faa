//! Recovery: turns whose worker or server is gone go on by a replay.
//!
//! At the start, paused turns are parked without starting anything, and everything else that is open is taken up again
//! before new work. A turn that loses its worker is claimed at once, so that a worker that is only late writes nothing,
//! and started again after a pause that grows; after `--max-recoveries` it is suspended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use crate::domain::journal::Entry;
use crate::domain::session::{Failure, Session};
use crate::domain::{Error, SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::journal::routing::WithheldTurns;
use crate::engine::journal::turn_claims::owned_turn;
use crate::engine::placement::turn_queue::NEVER_CLAIMED;
use crate::engine::ports::dispatch::Lost;
use crate::engine::telling::after_commit::AfterCommit;
use crate::faults::{self, Point};
use crate::store::about::About;
use crate::store::record::{DueKind, Turn};
use crate::store::signals::OrphanedTurn;
use crate::store::{Reader, StoreExt, Transaction};

/// How long a turn waits before it is taken up again, by how often it was before. The last one stands for all after it.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
];
/// How many turns are settled at once at the start, each in a transaction of its own; the store commits them together.
const AT_ONCE: usize = 512;

/// What becomes of a turn that lost its worker.
enum Fate {
    /// It was paused: it is parked.
    Parked(Option<Timestamp>),
    /// It is taken up again, at this epoch.
    Again(Duration, u64),
    /// It has failed, for good or until it is retried.
    Failed(AfterCommit),
}

/// A turn that was left open: by the last server, or, where several share the store, by one that is gone or has no slot.
struct Left {
    turn: Turn,
    agent: String,
    /// Where it can be parked: when its earliest timer is due.
    paused: Option<Option<Timestamp>>,
}

/// A turn that was left open, and cannot be taken up.
struct Unreadable {
    turn: TurnId,
    why: Error,
}

impl Engine {
    /// Settles what the last server left open. Nothing is started before this returns.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn recover(self: &Arc<Self>) -> Result<(), Error> {
        faults::at(Point::EngineRecover);
        let taker = self.taker(&WithheldTurns::default())?;
        let orphans = self.store.upkeep().orphaned_turns(taker).await?;
        self.take_up(orphans).await
    }

    /// Parks or takes up turns that nobody has. Another server may do the same: each is settled by one of them.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn take_up(self: &Arc<Self>, orphans: Vec<OrphanedTurn>) -> Result<(), Error> {
        let can_replay = self.placement.runtime()?.replay;
        let (left, unreadable) = self.left_open(orphans).await?;
        for Unreadable { turn, why } in unreadable {
            self.suspend_unreadable(DueKind::Timers(turn), &why).await?;
        }
        let (ours, others): (Vec<Left>, Vec<Left>) =
            left.into_iter().partition(|left| self.runs_turns() && left.agent == self.settings.agent);
        // What another agent's turns wait for is waited for all the same; nobody here runs them.
        let waiting = others.into_iter().filter(|left| left.paused.is_some());
        let (waiting, rest): (Vec<Left>, Vec<Left>) = if can_replay {
            let (paused, rest): (Vec<Left>, Vec<Left>) = ours.into_iter().partition(|left| left.paused.is_some());
            (waiting.chain(paused).collect(), rest)
        } else {
            (waiting.collect(), ours)
        };
        for some in waiting.chunks(AT_ONCE) {
            let park = |left: &Left| {
                let (turn, epoch, session) = (left.turn.id, left.turn.life.epoch, left.turn.session_id);
                self.store.transact(About::Session(session), move |tx| park_left(tx, turn, epoch))
            };
            let parked: Vec<_> = some.iter().map(park).collect();
            for wake_at in try_join_all(parked).await?.into_iter().flatten().flatten() {
                self.journal.alarm.set(wake_at);
            }
            faults::at(Point::EngineRecoverParked);
        }
        if !waiting.is_empty() || !rest.is_empty() {
            tracing::info!(waiting = waiting.len(), taken_up = rest.len(), "turns that were left open go on");
        }
        faults::at(Point::EngineRecovered);
        // Nobody has ever had those that were written where no slot was free: they begin.
        let (new, rest): (Vec<Left>, Vec<Left>) =
            rest.into_iter().partition(|left| left.turn.life.epoch == NEVER_CLAIMED);
        new.iter().for_each(|left| self.placement.put_unclaimed(left.turn.id));
        if can_replay {
            rest.iter().for_each(|left| self.placement.put_first(left.turn.id, left.turn.life.epoch));
            return Ok(());
        }
        for some in rest.chunks(AT_ONCE) {
            let fail = |left: &Left| {
                let (engine, session) = (Arc::clone(self), left.turn.session_id);
                let (turn, epoch) = (left.turn.id, left.turn.life.epoch);
                self.store
                    .transact(About::Session(session), move |tx| engine.fail_not_replayable(tx, session, turn, epoch))
            };
            let failed: Vec<_> = some.iter().map(fail).collect();
            let mut all = Ok(());
            for failed in join_all(failed).await {
                all = all.and(failed.map(|failed| failed.into_iter().for_each(|owed| self.telling.run(owed))));
            }
            all?;
        }
        Ok(())
    }

    /// What was left open, and what of it cannot be read.
    async fn left_open(&self, orphans: Vec<OrphanedTurn>) -> Result<(Vec<Left>, Vec<Unreadable>), Error> {
        let read = move |reader: &dyn Reader| {
            let (mut left, mut unreadable) = (Vec::new(), Vec::new());
            for orphan in &orphans {
                match one_left_open(reader, *orphan) {
                    Err(why @ Error::Unreadable(_)) => unreadable.push(Unreadable { turn: orphan.turn, why }),
                    read => left.extend(read?),
                }
            }
            Ok((left, unreadable))
        };
        self.store.query(read).await
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

fn one_left_open(reader: &dyn Reader, orphan: OrphanedTurn) -> Result<Option<Left>, Error> {
    let is_still = |turn: &Turn| orphan.epoch.is_none_or(|epoch| turn.life.check_owner(epoch).is_ok());
    let Some(turn) = reader.turn(orphan.turn)?.filter(is_still) else { return Ok(None) };
    let Some(session) = reader.session(turn.session_id)? else { return Ok(None) };
    let paused = paused(reader, turn.id, &session)?;
    Ok(Some(Left { turn, agent: session.agent, paused }))
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
        Some(Entry::Pause { timers, .. }) => {
            let wake_at = timers.iter().map(|timer| timer.due).min();
            (wake_at.is_some() || !session.pending().is_empty()).then_some(wake_at)
        }
        _ => None,
    })
}
