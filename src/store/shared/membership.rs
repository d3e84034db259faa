//! One process among those that share a database: it joins, it beats for as long as it lives, and it knows when it must not
//! act any more.
//!
//! What it may do ends before anybody takes it for dead ([`Timings`]). Whoever was buried all the same, and does not know it
//! yet, commits nothing: each of its transactions looks for its row.

mod shared_look;
mod watching;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::shared_look::SharedLook;
use self::watching::{bury, bury_forgotten, dead_among, watch_others};
use super::database_clock::since_boot;
use super::servers::{
    OtherServer, Registered, RunningNow, ServerId, ServerKind, ServerRow, ServerRows, ServerSnapshot,
};
use crate::domain::Error;
use crate::domain::cluster::lease::{Beat, ServerLease};
use crate::domain::cluster::watch::Watch;
use crate::domain::cluster::{Moment, Timings};
use crate::store::presence::Presence;
use crate::store::signals::Signal;

/// How many signals somebody may be behind before it is not known any more what was missed.
const KEPT_SIGNALS: usize = 1024;

/// What to do where somebody else has the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// To say so, unless that one seems to be dead.
    AtOnce,
    /// To stand by until it is gone or dead.
    StandsBy,
}

/// Why a process cannot join.
#[derive(Debug)]
pub enum JoinError {
    /// This one has the store.
    Occupied(Box<OtherServer>),
    /// The database does not answer.
    Unavailable(Error),
}

/// See the module.
pub struct Membership {
    me: ServerRow,
    rows: Arc<dyn ServerRows>,
    timings: Timings,
    lease: Mutex<ServerLease>,
    presence: watch::Sender<Presence>,
    /// Until when it may act, as [`ServerLease::ends`].
    lease_ends: watch::Sender<Option<Moment>>,
    signals: broadcast::Sender<Signal>,
    /// Whether there was another server when it was looked last.
    has_others: AtomicBool,
    /// Who they were, this one not among them, and when that look began.
    others: Mutex<(Moment, Vec<OtherServer>)>,
    /// What was found when somebody could not wait for the next look.
    looked: tokio::sync::Mutex<SharedLook>,
    /// How many turns are at work here, as was said last.
    at_work: AtomicU64,
    /// What is run here, as was said last.
    running: Mutex<RunningNow>,
    /// Whether this one ends, or is asked to.
    draining: watch::Sender<bool>,
    leaving: CancellationToken,
}

impl Membership {
    /// Joins as `me`: buries whoever is dead, and waits for whoever lives as `admission` says. Beats from then on, on the
    /// runtime that this is called on.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub async fn join(
        rows: Arc<dyn ServerRows>,
        me: ServerRow,
        admission: Admission,
        timings: Timings,
    ) -> Result<Arc<Self>, JoinError> {
        let mut watch = Watch::new(timings);
        let mut stands_by = false;
        let mut comer = Comer { rows: Arc::clone(&rows), id: me.id, is_joined: false };
        loop {
            let begun = now();
            let others = match rows.register(me.clone()).await {
                Ok(Registered::Yes) => {
                    let joined = comer.joined(me.clone(), timings, begun);
                    if me.kind != ServerKind::Server {
                        bury_forgotten(rows.as_ref(), &me, timings).await;
                    }
                    return Ok(joined);
                }
                Ok(Registered::Occupied(others)) => others,
                Err(error) if admission == Admission::AtOnce => return Err(JoinError::Unavailable(error)),
                Err(error) => {
                    tracing::warn!(%error, "the store cannot be asked for its server");
                    sleep(timings.retry).await;
                    continue;
                }
            };
            let ended = now();
            let in_the_way: Vec<OtherServer> =
                others.into_iter().filter(|other| me.kind.excludes(other.row.kind)).collect();
            let Some(first) = in_the_way.first() else {
                // Who was in the way has left in between, and the row is not there.
                continue;
            };
            let dead = dead_among(&mut watch, &me, (begun, ended), &in_the_way);
            if !dead.is_empty() {
                for (id, beat) in dead {
                    bury(rows.as_ref(), id, beat).await;
                }
                continue;
            }
            let is_silent = |other: &OtherServer| u128::from(other.silent_ms) >= timings.lease.as_millis();
            if admission == Admission::AtOnce && !in_the_way.iter().all(is_silent) {
                return Err(JoinError::Occupied(Box::new(first.clone())));
            }
            if !std::mem::replace(&mut stands_by, true) {
                let (host, pid) = (&first.row.host, first.row.pid);
                tracing::warn!(host, pid, "a run has the store; this server stands by until it is over");
            }
            let next = watch.decides_after(begun).map_or(begun + timings.beat, |at| at.min(begun + timings.beat));
            until(next).await;
        }
    }

    fn joined(rows: Arc<dyn ServerRows>, me: ServerRow, timings: Timings, begun: Moment) -> Arc<Self> {
        let mut lease = ServerLease::new(timings);
        lease.told(begun, Beat::Counted);
        let lease_ends = watch::Sender::new(lease.ends());
        let (lease, presence) = (Mutex::new(lease), watch::Sender::new(Presence::Acts));
        let (signals, has_others) = (broadcast::Sender::new(KEPT_SIGNALS), AtomicBool::new(false));
        let leaving = CancellationToken::new();
        let (others, at_work, draining) = (Mutex::default(), AtomicU64::new(0), watch::Sender::new(false));
        let running = Mutex::new(me.role.running.clone());
        let this = Arc::new(Self {
            me: me.clone(),
            rows,
            timings,
            lease,
            presence,
            lease_ends,
            signals,
            has_others,
            others,
            looked: tokio::sync::Mutex::default(),
            at_work,
            running,
            draining,
            leaving,
        });
        tokio::spawn(beat_on(Arc::downgrade(&this), begun + timings.beat));
        tokio::spawn(see_lease_end(Arc::downgrade(&this)));
        if me.kind == ServerKind::Server {
            tokio::spawn(watch_others(Arc::downgrade(&this), me));
        }
        this
    }

    /// Which life of a process this is.
    pub fn id(&self) -> ServerId {
        self.me.id
    }

    /// Whether it may act at this moment.
    ///
    /// # Errors
    /// [`Error::StoreUnavailable`] where it may not.
    pub fn may_act(&self) -> Result<(), Error> {
        let lease = self.lease();
        if lease.may_act(now()) {
            return Ok(());
        }
        let why = if lease.is_buried() {
            "another server has taken the place of this one"
        } else {
            "this server has not reached the database for too long, and does nothing until it has"
        };
        Err(Error::StoreUnavailable(why.to_owned()))
    }

    /// Where it stands, from now on.
    pub fn presence(&self) -> watch::Receiver<Presence> {
        self.presence.subscribe()
    }

    /// Until when it may act, from now on; `None` once it was buried. On a clock that all processes of this machine share.
    pub fn lease_ends(&self) -> watch::Receiver<Option<Moment>> {
        self.lease_ends.subscribe()
    }

    /// What others do, from now on.
    pub fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    /// Something was heard of what others do.
    pub fn heard(&self, signal: Signal) {
        // Where nobody listens, nobody is to be told.
        drop(self.signals.send(signal));
    }

    /// Whether another server shares the store, as far as is known.
    pub fn has_others(&self) -> bool {
        self.has_others.load(Ordering::Relaxed)
    }

    /// The other servers, as they were when it was looked last: two seconds ago at most, while the database is reached.
    pub fn others(&self) -> Vec<OtherServer> {
        self.known_others().1.clone()
    }

    /// All servers, this one among them, by their names; nothing is asked of the database. What the others said is as it was
    /// when it was looked last.
    pub fn servers(&self) -> Vec<ServerSnapshot> {
        let (now, death) = (now(), self.timings.death);
        let beat = self.lease().ends().map_or(now, |end| end.saturating_sub(self.timings.lease));
        let (version, at_work) = (env!("CARGO_PKG_VERSION").to_owned(), self.at_work.load(Ordering::Relaxed));
        let times = (now.saturating_sub(beat), death);
        let mut me = self.me.clone();
        me.role.running = self.running().clone();
        let me = ServerSnapshot::new(me, version, at_work, *self.draining.borrow(), times);
        let (looked, others) = self.known_others().clone();
        let others = others.into_iter().map(|other| other.snapshot(now.saturating_sub(looked), death));
        let mut servers: Vec<ServerSnapshot> = others.chain([me]).collect();
        servers.sort_by_cached_key(|server| (server.row.name(), server.row.id));
        servers
    }

    /// So many turns are at work here, of what is run here now: its next beat says so.
    pub fn tell(&self, at_work: u64, running: RunningNow) {
        self.at_work.store(at_work, Ordering::Relaxed);
        *self.running() = running;
    }

    /// For how long a turn that could go on is left to others, all of which have no slot.
    pub fn starve(&self) -> Duration {
        self.timings.starve
    }

    fn running(&self) -> MutexGuard<'_, RunningNow> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This server ends: its next beat says so.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Resolves once this server ends or somebody asks it to.
    pub async fn draining(&self) {
        // The sender lives as long as this.
        drop(self.draining.subscribe().wait_for(|is_draining| *is_draining).await);
    }

    fn known_others(&self) -> MutexGuard<'_, (Moment, Vec<OtherServer>)> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled when it leaves.
    pub fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    /// Leaves, so that another one need not wait. Where the database cannot be told, others find out.
    pub async fn leave(&self) {
        self.leaving.cancel();
        if self.lease().is_buried() {
            return;
        }
        match timeout(self.timings.patience, self.rows.leave(self.id())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the store could not be told that this server has ended"),
            Err(_) => tracing::warn!("the store could not be told in time that this server has ended"),
        }
    }

    fn lease(&self) -> MutexGuard<'_, ServerLease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts up once: when to do so again, if ever.
    async fn beat(&self) -> Option<Moment> {
        let begun = now();
        let is_draining = *self.draining.borrow();
        let (at_work, running) = (self.at_work.load(Ordering::Relaxed), self.running().clone());
        let counted = self.rows.beat(self.id(), at_work, running, is_draining);
        let beat = match timeout(self.timings.patience, counted).await {
            Ok(Ok(Some(is_asked))) => {
                if is_asked && !is_draining {
                    tracing::warn!("this server was asked to end, and does");
                    self.drain();
                }
                Beat::Counted
            }
            Ok(Ok(None)) => Beat::Refused,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a beat has failed");
                Beat::Failed
            }
            Err(_) => Beat::Failed,
        };
        let next = {
            let mut lease = self.lease();
            lease.told(begun, beat);
            self.lease_ends.send_replace(lease.ends());
            lease.next_beat(begun, now(), beat)
        };
        if !self.leaving.is_cancelled() {
            self.publish();
        }
        next
    }

    /// Tells whoever follows where it stands, if that has changed.
    fn publish(&self) {
        // The log has it before anybody hears it: whoever does may end the process.
        self.presence.send_if_modified(|before| {
            // Here, since a beat that is counted meanwhile tells as well: the last to tell is not to be behind.
            let presence = {
                let lease = self.lease();
                match (lease.is_buried(), lease.may_act(now())) {
                    (true, _) => Presence::Dead,
                    (false, true) => Presence::Acts,
                    (false, false) => Presence::CutOff,
                }
            };
            if *before == presence {
                return false;
            }
            match presence {
                Presence::Acts => tracing::warn!("the database is reached again"),
                Presence::CutOff => {
                    tracing::error!("the database was not reached for too long; nothing is done until it is")
                }
                Presence::Dead => tracing::error!("another server has taken the place of this one, which ends"),
            }
            *before = presence;
            true
        });
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.leaving.cancel();
    }
}

/// Who comes, and leaves again if it gives up: what it was not told of may have put its row there.
struct Comer {
    rows: Arc<dyn ServerRows>,
    id: ServerId,
    is_joined: bool,
}

impl Comer {
    fn joined(&mut self, me: ServerRow, timings: Timings, begun: Moment) -> Arc<Membership> {
        self.is_joined = true;
        Membership::joined(Arc::clone(&self.rows), me, timings, begun)
    }
}

impl Drop for Comer {
    fn drop(&mut self) {
        if self.is_joined {
            return;
        }
        let (rows, id) = (Arc::clone(&self.rows), self.id);
        // Without a runtime the process ends, which others find out.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = rows.leave(id).await {
                tracing::debug!(%error, "the store could not be told that this server gave up");
            }
        });
    }
}

/// Beats until the membership is over.
async fn beat_on(membership: Weak<Membership>, first: Moment) {
    let mut next = first;
    loop {
        let Some(leaving) = membership.upgrade().map(|this| this.leaving.clone()) else { return };
        tokio::select! {
            () = leaving.cancelled() => return,
            () = until(next) => {}
        }
        let Some(this) = membership.upgrade() else { return };
        match this.beat().await {
            Some(again) => next = again,
            None => return,
        }
    }
}

/// Tells of the end of a lease when it comes, also while a beat is waited for.
async fn see_lease_end(membership: Weak<Membership>) {
    let Some(mut presence) = membership.upgrade().map(|this| this.presence()) else { return };
    loop {
        let Some(end) = membership.upgrade().and_then(|this| this.lease().ends()) else { return };
        until(end).await;
        let Some(this) = membership.upgrade() else { return };
        this.publish();
        drop(this);
        while *presence.borrow_and_update() != Presence::Acts {
            if presence.changed().await.is_err() {
                return;
            }
        }
    }
}

/// The moment it is: on a clock of this machine that goes on while the process is stopped and while the machine sleeps.
fn now() -> Moment {
    #[cfg(test)]
    if let Some(moment) = crate::domain::seeds::moment() {
        return moment;
    }
    since_boot()
}

/// Waits for a moment. The timer may stand still while the machine sleeps, and then is late.
async fn until(moment: Moment) {
    sleep(moment.saturating_sub(now())).await;
}

#[cfg(test)]
mod tests;
