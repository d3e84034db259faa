//! Other servers that share the store: what they leave is taken up here, and what they do to turns and sessions is heard of
//! here. Keys and the policy are followed beside it ([`super::access_elsewhere`]).
//!
//! They ring for what they have committed ([`Signal`]). A ring is a hint: what is acted on is read from the store, and where no
//! ring came, a look each second finds the same. So nothing depends on rings but how soon something happens.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until};

use crate::domain::journal::{Entry, RecordedEntry};
use crate::domain::turn::TurnState;
use crate::domain::{Error, InterruptId, SessionId, Timestamp, TurnId};
use crate::engine::Engine;
use crate::engine::journal::routing::WithheldTurns;
use crate::engine::placement::live::LiveSnapshot;
use crate::engine::placement::slots::WaitingElsewhere;
use crate::engine::placement::turn_queue::{NEVER_CLAIMED, QueueShare};
use crate::engine::ports::dispatch::Delivery;
use crate::faults::Rule;
use crate::store::about::About;
use crate::store::shared::servers::OtherServer;
use crate::store::signals::{KnownTurn, MOST_ORPHANS, OrphanedTurn, Signal};
use crate::store::{Reader, StoreExt, each_interrupt};

/// How long it is between two looks at what others have left and done.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// After how many looks whoever waits for a session reads it, whether or not somebody rang.
const LOOKS_PER_REREAD: u32 = 5;

/// What was found when it was looked last.
struct Followed {
    /// How often a standby had taken the database's place by then.
    promotions: Option<u64>,
    looks: u32,
    /// How many looks in a row have failed.
    failed: u32,
    next: Instant,
    /// What was left to servers with other code.
    withheld: WithheldTurns,
    /// What nobody had then, where no turns are run here: it has been settled as far as that is done here.
    left: HashSet<OrphanedTurn>,
    /// What was this server's then, and it did not know of.
    unknown: HashSet<OrphanedTurn>,
    /// Takes up what nobody has, beside all that is heard of and looked at; what it could not take up.
    takes_up: Option<JoinHandle<Vec<OrphanedTurn>>>,
    /// More was found meanwhile.
    leaves_some: bool,
}

impl Followed {
    /// Some were taken up, but for those that `failed`: the next look finds them again.
    fn has_taken_up(&mut self, failed: Result<Vec<OrphanedTurn>, JoinError>) {
        self.takes_up = None;
        let leaves_some = std::mem::take(&mut self.leaves_some);
        match failed {
            Ok(failed) if failed.is_empty() && leaves_some => self.next = Instant::now(),
            Ok(failed) => self.left.retain(|orphan| !failed.contains(orphan)),
            Err(error) => {
                tracing::error!(%error, "turns that nobody has could not be taken up; it is tried again");
                self.left.clear();
            }
        }
    }
}

impl Engine {
    /// Follows what others do until the engine stops.
    pub(in crate::engine) fn follow_others(self: &Arc<Self>, mut signals: Receiver<Signal>) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let mut followed = Followed {
                promotions: None,
                looks: 0,
                failed: 0,
                next: Instant::now(),
                withheld: WithheldTurns::default(),
                left: HashSet::new(),
                unknown: HashSet::new(),
                takes_up: None,
                leaves_some: false,
            };
            loop {
                tokio::select! {
                    () = engine.stopped.cancelled() => return,
                    heard = signals.recv() => match heard {
                        Ok(heard) => engine.hear(heard, &mut followed).await,
                        Err(RecvError::Lagged(_)) => engine.hear(Signal::Missed, &mut followed).await,
                        // The store is closed.
                        Err(RecvError::Closed) => return,
                    },
                    failed = over(&mut followed.takes_up) => followed.has_taken_up(failed),
                    () = engine.placement.gap() => engine.look_at_others(&mut followed).await,
                    () = sleep_until(followed.next) => engine.look_at_others(&mut followed).await,
                }
            }
        });
    }

    async fn hear(self: &Arc<Self>, heard: Signal, followed: &mut Followed) {
        match heard {
            Signal::Session(session) => {
                self.telling.changed_elsewhere(session);
                self.catch_up(|known| known.session == session).await;
            }
            Signal::Deleted(session) => {
                self.deleted_elsewhere(session).await;
                self.catch_up(|known| known.session == session).await;
            }
            // With a look for each, a queue would cost the more the longer it is.
            Signal::Ready | Signal::NewTurn if !self.placement.has_slot() => {}
            Signal::Ready | Signal::NewTurn => followed.next = Instant::now(),
            Signal::Access => {}
            Signal::Departure => {
                self.telling.take_over_outbox();
                self.journal.alarm.set(Timestamp::from_millis(0));
                followed.next = Instant::now();
            }
            Signal::Missed => {
                self.telling.missed_elsewhere();
                followed.next = Instant::now();
            }
        }
    }

    async fn deleted_elsewhere(&self, session: SessionId) {
        // In this order: what was told of it last, and then the end.
        match self.store.query(move |reader| reader.last_event_of(session)).await {
            Ok(last) => self.telling.stored_elsewhere(last),
            Err(error) => tracing::warn!(%session, %error, "the last events of a deleted session could not be read"),
        }
        self.telling.changed_elsewhere(session);
        self.telling.close(session);
    }

    /// Looks at everything that a ring could have told of.
    async fn look_at_others(self: &Arc<Self>, followed: &mut Followed) {
        followed.next = Instant::now() + LOOK;
        followed.looks = followed.looks.wrapping_add(1);
        let waited = self.placement.look();
        let looked = match self.taker(&followed.withheld) {
            Ok(taker) => self.store.upkeep().look(taker, self.placement.known_turns()).await,
            Err(error) => Err(error),
        };
        let mut look = match looked {
            Ok(look) => look,
            Err(error) => {
                followed.failed = followed.failed.saturating_add(1);
                match followed.failed {
                    2 => tracing::warn!(%error, "what other servers do could not be looked at; it is tried again"),
                    _ => tracing::debug!(%error, "what other servers do could not be looked at"),
                }
                return;
            }
        };
        followed.failed = 0;
        if followed.promotions.replace(look.promotions).is_some_and(|before| before != look.promotions) {
            tracing::warn!(
                "another database has taken the place of the one before: what it does not know of is begun anew"
            );
            self.journal.alarm.set(Timestamp::from_millis(0));
            self.telling.missed_elsewhere();
        }
        self.drop_what_was_taken_back(look.promotions).await;
        if !look.moved.is_empty() {
            self.catch_up(|known| look.moved.contains(&known.turn)).await;
        }
        if followed.looks.is_multiple_of(LOOKS_PER_REREAD) {
            self.telling.missed_elsewhere();
        }
        if let (Some(membership), Ok(running)) = (self.store.membership(), self.running_now()) {
            membership.tell(self.placement.count_places().0 as u64, running);
        }
        followed.withheld.found(std::mem::take(&mut look.withheld));
        self.placement.looked(&waited, &look.orphans, self.waiting_elsewhere(&look.orphans).await);
        if !self.runs_turns() {
            // They stay until a server that runs turns has taken them: each is looked at once.
            followed.left.retain(|known| look.orphans.contains(known));
            look.orphans.retain(|orphan| !followed.left.contains(orphan));
        }
        look.orphans.extend(self.unknown(look.owned, followed));
        // Those are found here each time until there is a slot, or another server has taken them.
        look.orphans.retain(|orphan| !self.placement.waits_at(orphan.turn, orphan.epoch));
        if look.orphans.is_empty() || self.is_stopping() {
            return;
        }
        if followed.takes_up.is_some() {
            followed.leaves_some = true;
            return;
        }
        if !self.runs_turns() {
            followed.left.extend(&look.orphans);
        }
        let engine = Arc::clone(self);
        followed.takes_up = Some(tokio::spawn(async move {
            let failed = engine.take_up(look.orphans).await;
            engine.pump();
            failed
        }));
    }

    /// What bounds the turns that are written here for whichever server has a slot, beside those that wait in memory.
    async fn waiting_elsewhere(&self, orphans: &[OrphanedTurn]) -> WaitingElsewhere {
        let mut seen = WaitingElsewhere::default();
        let mut others = self.store.membership().map(|membership| membership.others()).unwrap_or_default();
        others.retain(|other| other.runs_turns_of(&self.settings.agent));
        if let Some(membership) = self.store.membership().filter(|_| self.runs_turns()) {
            let before = others.iter().filter(|other| other.row.id < membership.id());
            seen.share = QueueShare { place: before.count(), of: others.len() + 1 };
        } else {
            let free = |other: &OtherServer| {
                other.row.role.workers.saturating_sub(usize::try_from(other.at_work).unwrap_or(usize::MAX))
            };
            seen.free = others.iter().map(free).sum();
            seen.new = orphans.iter().filter(|orphan| orphan.epoch == Some(NEVER_CLAIMED)).count();
        }
        if orphans.len() >= MOST_ORPHANS {
            // There may be more. Turns of other agents count too, where there are any.
            match self.telling.ready_turns().await {
                Ok(ready) => seen.new = usize::try_from(ready.unwrap_or_default().count()).unwrap_or(usize::MAX),
                Err(error) => tracing::debug!(%error, "the turns that wait could not be counted"),
            }
        }
        seen
    }

    /// Of the turns that are this server's by their rows, those that it does not know of, and did not at the look before:
    /// whoever claimed them was told that nobody knows what came of it, and it had come about. A turn is in memory before its
    /// claim is committed, so one that is neither twice is in nobody's hands.
    fn unknown(&self, owned: Vec<OrphanedTurn>, followed: &mut Followed) -> Vec<OrphanedTurn> {
        let known = if owned.is_empty() { HashSet::new() } else { self.placement.known_here() };
        let unknown = owned.into_iter().filter(|owned| !known.contains(&owned.turn)).collect();
        let before = std::mem::replace(&mut followed.unknown, unknown);
        followed.unknown.intersection(&before).copied().collect()
    }

    /// Whether another server runs the turns of this one's agent.
    ///
    /// # Errors
    /// The store's.
    pub(in crate::engine) async fn is_run_elsewhere(&self) -> Result<bool, Error> {
        let Some(membership) = self.store.membership() else { return Ok(false) };
        let agent = &self.settings.agent;
        let is_known = membership.others().iter().any(|other| other.runs_turns_of(agent));
        // One that has just come is not known yet.
        Ok(is_known || membership.look_at_others().await?.iter().any(|other| other.runs_turns_of(agent)))
    }

    /// After so many `promotions`, turns in memory here of which something was taken back are dropped, also where something else
    /// has come in its place since: a look finds those that are still this server's, and they begin anew from their journals.
    /// Those that have lost nothing stay.
    async fn drop_what_was_taken_back(&self, promotions: u64) {
        for (KnownTurn { turn, session, run, known, .. }, before) in self.placement.known_before(promotions) {
            let read = self.store.transact(About::Session(session), move |tx| {
                let has_all = match known.checked_sub(1) {
                    Some(last) => !tx.journal_page(turn, last, 1)?.is_empty(),
                    None => true,
                };
                Ok((tx.promotions(), has_all))
            });
            match read.await {
                Ok((since, true)) if since <= before => self.placement.stands(turn, run, promotions),
                Ok(_) => {
                    tracing::warn!(%session, "what a turn has heard of was taken back: it begins anew");
                    self.placement.drop_run(turn, run);
                }
                Err(error) => {
                    tracing::error!(%turn, %error, "whether a turn has lost anything could not be read; it is tried again")
                }
            }
        }
    }

    /// Turns in memory here get what others have written to them, and those that are not this server's any more are dropped.
    async fn catch_up(self: &Arc<Self>, is_meant: impl Fn(&KnownTurn) -> bool) {
        for known in self.placement.known_turns_that(is_meant) {
            if let Err(error) = self.catch_up_one(known).await {
                tracing::error!(turn = %known.turn, %error, "what others wrote to a turn could not be read; it is tried again");
            }
        }
    }

    async fn catch_up_one(self: &Arc<Self>, held: KnownTurn) -> Result<(), Error> {
        let KnownTurn { turn, epoch, run, known, .. } = held;
        let read = self.store.query(move |reader| {
            let life = reader.life(turn)?;
            let is_here = life.as_ref().is_some_and(|life| life.check_owner(epoch).is_ok());
            let entries = if is_here { reader.journal_after(turn, known.checked_sub(1))? } else { Vec::new() };
            let count = known + entries.len() as u64;
            Ok((life, count, deliveries(reader, (known..).zip(entries))?))
        });
        let (life, count, found) = read.await?;
        match life {
            Some(life) if life.check_owner(epoch).is_ok() => {
                self.placement.found(turn, run, count, found);
            }
            // Another server has it, or it was parked here a moment ago.
            Some(life) if matches!(life.state, TurnState::UnderWay | TurnState::Parked { .. }) => {
                tracing::debug!(%turn, "a turn is another server's now");
                self.placement.park_run(turn, run);
            }
            _ if self.placement.end_run(turn, run) => {
                self.placement.stop_worker(turn, "The turn was ended at another server");
            }
            _ => {}
        }
        self.pump();
        Ok(())
    }
}

/// What a task came to, once it is over; never where there is none.
async fn over<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// What others have written to a turn before its own entry `first`, and was not known here: it is the turn's to hear of before
/// that one. Only where somebody was first is there anything to read.
///
/// # Errors
/// The store's.
pub(in crate::engine::journal) fn written_before(
    reader: &dyn Reader,
    turn: TurnId,
    standing: &LiveSnapshot,
    first: u64,
) -> Result<Vec<Delivery>, Error> {
    let Some(known) = standing.in_order.filter(|known| *known < first && !Rule::Earlier.is_left_out()) else {
        return Ok(Vec::new());
    };
    let entries = reader.journal_after(turn, known.checked_sub(1))?;
    deliveries(reader, (known..first).zip(entries))
}

/// What of these entries is delivered to their turn.
fn deliveries(
    reader: &dyn Reader,
    entries: impl Iterator<Item = (u64, RecordedEntry)>,
) -> Result<Vec<Delivery>, Error> {
    let entries: Vec<_> = entries.collect();
    let answered = entries.iter().filter_map(|(_, recorded)| recorded.entry.answered());
    let found = each_interrupt(reader, answered)?.into_iter().flatten();
    let mut names: HashMap<InterruptId, String> =
        found.filter_map(|answered| Some((answered.interrupt_id, answered.resolved_by?))).collect();
    let delivery = |(index, RecordedEntry { at, entry })| match entry {
        Entry::Answer { interrupt_id: interrupt, value } => {
            Some(Delivery::Answer { index, at, interrupt, value, by: names.remove(&interrupt) })
        }
        Entry::Expire { interrupt_id } => Some(Delivery::Expired { index, at, interrupt: interrupt_id }),
        _ => None,
    };
    Ok(entries.into_iter().filter_map(delivery).collect())
}
